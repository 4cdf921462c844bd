"""Liveness: processes of this host, silent processes of other hosts, and jobs of the queue."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_records import make_record

from rebench.launch import liveness
from rebench.launch.clusters import cluster
from rebench.launch.journal import UNSENT, Chunk, Intent, Job, Journal, Sent
from rebench.launch.liveness import (
    Reporter,
    last_heard_s,
    read_reports,
    report_path,
    submitter_lives,
)
from rebench.machine import cores
from rebench.runs.claims import Holder, ProcessMark, mark_of, runs, this_process, tree_of


def sleeper(code: str = "import time; time.sleep(100)") -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code])


def elsewhere(mark: ProcessMark) -> ProcessMark:
    return mark.model_copy(update={"host": "another.host"})


def holder(job: str = "77", process: ProcessMark | None = None) -> Holder:
    return Holder(
        worker=f"0001-{job}-n1",
        job=job,
        attempt=0,
        cluster="local",
        user="",
        process=process or this_process(),
    )


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="compares with Linux's own file")
def test_mark_is_what_earlier_versions_read_from_proc():
    """Field 22 of /proc/PID/stat, the start in ticks since boot, is in the marks of old runs."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert this_process() == ProcessMark(
        host=socket.gethostname(), pid=os.getpid(), started=stat[19]
    )


def test_process_runs_until_it_ends_even_if_nobody_has_asked_how():
    process = sleeper()
    mark = mark_of(process.pid)
    assert runs(mark)
    assert runs(mark.model_copy(update={"started": "1"})) is False
    assert runs(elsewhere(mark)) is None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert runs(mark) is False, "a zombie does nothing more"
    process.wait()
    assert runs(mark) is False
    assert runs(mark_of(process.pid)) is False


def test_tree_holds_a_process_and_its_descendants_children_first():
    process = sleeper(
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)']); time.sleep(100)"
    )
    deadline = time.monotonic() + 60
    while len(tree_of(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    tree = tree_of(process.pid)
    for pid in tree:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    assert len(tree) == 2
    assert tree[-1] == process.pid
    assert tree_of(process.pid) == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_cores_are_those_that_the_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


def test_submitter_elsewhere_lives_until_it_has_been_silent_for_ten_minutes(tmp_path):
    owner = tmp_path / "owner.json"
    owner.touch()
    age(owner, 590)
    assert submitter_lives(owner, elsewhere(this_process()))
    age(owner, 610)
    assert not submitter_lives(owner, elsewhere(this_process()))
    assert submitter_lives(owner, this_process()), "here the system knows"


def test_submitter_without_a_name_lives_for_an_instant(tmp_path):
    age(tmp_path, 25)
    assert submitter_lives(tmp_path / "owner.json", None)
    age(tmp_path, 35)
    assert not submitter_lives(tmp_path / "owner.json", None)


def test_job_was_heard_of_when_its_latest_process_was(tmp_path):
    for worker, silent_s in (("c", 900), ("a", 500), ("d", 50), ("b", 100)):
        one = holder(job="78" if worker == "d" else "77").model_copy(update={"worker": worker})
        Reporter(tmp_path, one)
        age(report_path(tmp_path, worker), silent_s)
    heard = last_heard_s(tmp_path)
    assert {job: round(seconds, -1) for job, seconds in heard.items()} == {"77": 100, "78": 50}
    assert [one.holder.worker for one in read_reports(tmp_path)] == list("abcd")


def test_report_tells_what_is_trained_how_fast_and_how_it_ended(tmp_path, monkeypatch):
    """A worker writes a report at most every two seconds, except at the begin and the end.

    The test replaces the clock.
    """
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(liveness.time, "monotonic", lambda: clock.now)
    group = [make_record(seed=seed).trial for seed in (1, 2)]
    reporter = Reporter(tmp_path, holder(), tmp_path / "77_0.log")

    def said() -> tuple[object, ...]:
        (report,) = read_reports(tmp_path)
        assert report.holder == holder()
        assert report.log == str(tmp_path / "77_0.log")
        return (len(report.trials), report.epoch, report.epochs, report.eta_s, report.note)

    assert said() == (0, 0, 0, None, "")
    reporter.begin(group)
    assert said() == (2, 0, 2, None, "")
    clock.now += 1.9
    reporter.on_epoch(1)
    assert said() == (2, 0, 2, None, ""), "the last report is of just now"
    clock.now += 0.6
    reporter.on_epoch(2)
    # No epoch is left.
    assert said() == (2, 2, 2, 0.0, "")
    reporter.begin([make_record(seed=3).trial.model_copy(update={"epochs": 12})])
    for epoch, pause_s in ((1, 3.0), (2, 4.0), (4, 4.0)):
        clock.now += pause_s
        reporter.on_epoch(epoch)
    # Three epochs took 8 s since the end of the first, and eight epochs are left.
    assert said() == (1, 4, 12, pytest.approx(8 * 8 / 3), "")
    reporter.end("ended")
    assert said() == (0, 0, 12, None, "ended")


def _job(folder: Path, process: ProcessMark | None) -> Job:
    """Return a job of this machine with this process, as the journal has it."""
    mine = Journal(folder).begin()
    chunk = Chunk(name="rebench-x-1.0", jobs=((),))
    mine.write_intent(Intent(cluster="local", spec_hash="", chunks=(chunk,)))
    mine.write_sent(0, Sent(jobs=("77",), process=process))
    (job,) = mine.jobs()
    return job


def test_job_whose_process_here_has_ended_is_dead_whatever_it_reported(tmp_path):
    process = sleeper()
    job = _job(tmp_path, mark_of(process.pid))
    Reporter(tmp_path, holder(process=mark_of(process.pid)))
    (seen,) = cluster("local").look([job])
    assert (seen.state.kind, seen.live) == ("running", True)
    process.kill()
    process.wait()
    (seen,) = cluster("local").look([job])
    assert (seen.state.kind, seen.live) == ("ended", False)


def test_job_elsewhere_that_has_just_been_started_lives_before_it_reports(tmp_path):
    there = elsewhere(this_process())
    job = _job(tmp_path, there)
    (seen,) = cluster("local").look([job])
    assert seen.live
    assert seen.state.reason == "cannot be seen from here: it runs on another.host"
    age(job.submission.sent_file(0), 2000)
    assert not cluster("local").look([job])[0].live
    Reporter(tmp_path, holder(process=there))
    assert cluster("local").look([job])[0].live
    age(report_path(tmp_path, "0001-77-n1"), 2000)
    assert not cluster("local").look([job])[0].live


def test_job_without_a_process_was_not_started(tmp_path):
    assert cluster("local").look([_job(tmp_path, None)])[0].state == UNSENT


def test_job_of_another_machine_is_not_cancelled_here(tmp_path):
    process = sleeper()
    there = _job(tmp_path, elsewhere(mark_of(process.pid)))
    assert cluster("local").stop([there]) == []
    assert runs(mark_of(process.pid))
    process.kill()
    process.wait()
