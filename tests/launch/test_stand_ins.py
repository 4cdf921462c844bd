"""Calls of SLURM's commands, and the use of their answers. Scripts replace the commands.

Tests marked `slurm` use a real SLURM.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from made_records import make_record, write_records

import rebench
from rebench.cli import main
from rebench.errors import ClusterError, InputError
from rebench.launch.clusters import cluster, commands, recorded
from rebench.launch.expansion import expand_spec
from rebench.launch.journal import Chunk, Intent, Job, Journal, Sent
from rebench.launch.state import cancel_jobs
from rebench.runs import Run, SlurmOptions, parse_spec
from rebench.runs.claims import ProcessMark, mark_of, this_process

SWEEP = """
datasets = ["digits"]
seeds = [1, 2, 3]
epochs = 1
recipes = ["nb201", "topology"]
[cells]
indices = [11]
[slurm]
partition = "main"
"""
# Accepts jobs and numbers them 101, 102, ..., unless the inserted line calls `refuse`.
SBATCH = """
count=$(ls $here | grep -c '^sent')
sed -n 's/^#SBATCH //p' | tr -d "'" > $here/given
size=$(sed -n 's/^--array=0-\\([0-9]*\\)%.*/\\1/p' $here/given)
refuse() {{ echo "sbatch: error: $1" >&2; exit 1; }}
{}
mv $here/given $here/sent.$count
echo Submitted batch job $((101 + count))
"""
NO_MORE = "violates accounting/QOS policy (job submit limit)"


@pytest.fixture
def spec(tmp_path, stand_in) -> Path:
    """A sweep of six trials, and a cluster of two nodes that has no jobs and refuses none."""
    stand_in("sinfo", "echo 'main*|n1||idle|8000|1:00:00\nmain*|n2||mixed|16000|2:00:00'")
    stand_in("scontrol", "echo 'MaxArraySize            = 1001'")
    stand_in("squeue", "cat $here/queue 2>/dev/null; true")
    stand_in("scancel", "echo $SLURM_CLUSTERS $* >> $here/cancelled")
    stand_in("sbatch", SBATCH.format(""))
    stand_in("srun", "true")
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def _submit(spec: Path, *, settings=None, **how):
    given = {"slurm.time_min": 60} | (settings or {})
    return rebench.submit(spec, trials_per_job=1, settings=given, **how)


def _scripts(spec: Path) -> list[dict[str, str]]:
    """Return the options of every accepted job, in order."""
    paths = sorted((spec.parent / "slurm").glob("sent.*"))
    lines = [path.read_text().splitlines() for path in paths]
    return [
        dict(one.removeprefix("--").partition("=")[::2] for one in script if one.startswith("--"))
        for script in lines
    ]


def _intent(run: Path, number: int = 1) -> dict:
    return json.loads((run / f"submissions/{number:04d}/intent.json").read_text())


# Sending


def test_array_that_is_too_large_is_halved_until_it_is_taken(spec, stand_in):
    stand_in("sbatch", SBATCH.format('[ "${size:-0}" -gt 1 ] && refuse "Invalid job array"'))
    told: list[str] = []
    done = _submit(spec, tell=told.append)
    assert (done.sent, done.waiting, " ".join(done.jobs)) == (6, 0, "101 102 103 104 105 106")
    assert [one.get("array") for one in _scripts(spec)] == [None] * 6
    chunks = _intent(done.run)["chunks"]
    names = [one["name"] for one in chunks]
    assert names == [one["job-name"] for one in _scripts(spec)]
    assert [name.rpartition(".")[2] for name in names] == list("012345")
    assert (done.run / "submissions/0001/closed").exists()
    assert rebench.status(done.run).counts["lost"] == 6, "the queue does not show them"


def test_what_the_scheduler_takes_no_more_waits(spec, stand_in):
    stand_in("sbatch", SBATCH.format(f'[ "$size$count" = 2 ] || [ $size ] && refuse "{NO_MORE}"'))
    done = _submit(spec)
    assert (done.sent, done.waiting, done.jobs) == (2, 4, ("101", "102"))
    assert done.limit == f"SLURM takes no more jobs now (sbatch: error: {NO_MORE})"
    assert len(_intent(done.run)["chunks"]) == 2
    stand_in("sbatch", SBATCH.format(f'refuse "{NO_MORE}"'))
    with pytest.raises(ClusterError, match=r"\| It is unknown whether the cluster accepted this"):
        _submit(spec)
    (spec.parent / "slurm/queue").write_text(f"101|RUNNING|None|{_name(done.run)}|n1|1:00|\n")
    again = _submit(spec)
    assert (again.sent, again.waiting, again.held) == (0, 5, {"101": 1})


def _name(run: Path, chunk: int = 0, number: int = 1) -> str:
    return f"{Run.open(run).job_prefix}{number}.{chunk}"


def test_recorded_trial_of_a_stack_that_is_sent_again_neither_counts_nor_waits(spec):
    first = expand_spec(parse_spec(SWEEP)).trials[0]
    record = make_record().model_copy(update={"trial": first, "trial_id": first.trial_id})
    write_records(spec.parent / "runs/sweep", "w", record)
    done = _submit(spec, settings={"stack": 3})
    assert (done.sent, done.done, done.waiting) == (5, 1, 0)


def test_chunk_that_is_refused_for_what_it_is_ends_it_and_says_what_was_sent(spec, stand_in):
    stand_in("scontrol", "echo 'MaxArraySize            = 4'")
    stand_in("sbatch", SBATCH.format('[ $count = 1 ] && refuse "Invalid qos specification"'))
    with pytest.raises(ClusterError, match=r"Invalid qos .* 4 jobs were submitted before\. .* 2 t"):
        _submit(spec)
    run = spec.parent / "runs/sweep"
    assert [one["array"] for one in _scripts(spec)] == ["0-3%4"]
    sent = json.loads((run / "submissions/0001/sent.0.json").read_text())
    assert (sent["jobs"], sent["process"]) == (["101_0", "101_1", "101_2", "101_3"], None)
    assert not (run / "submissions/0001/sent.1.json").exists()
    script = (run / "submissions/0001/chunk.0.sbatch").read_text()
    assert script.startswith("#!/bin/bash\n\n# Parameters\n#SBATCH --array=0-3%4\n")


def test_partition_that_is_unknown_is_refused_with_the_names_of_the_others(spec, stand_in):
    stand_in("sbatch", SBATCH.format('refuse "Invalid partition name specified"'))
    stand_in("sinfo", 'case "$*" in *%R*) echo short; echo main;; esac')
    with pytest.raises(ClusterError, match=r"specified, got gpu; valid: main, short \| It is"):
        _submit(spec, settings={"slurm.partition": "gpu"})


@pytest.mark.parametrize(("time_min", "delay_s"), [(1, 30), (3, 90), (60, 120)])
def test_jobs_are_told_to_end_after_half_of_their_time_at_the_earliest(spec, time_min, delay_s):
    _submit(spec, settings={"slurm.time_min": time_min})
    assert {one["signal"] for one in _scripts(spec)} == {f"USR2@{delay_s}"}


def test_arrays_take_turns_where_only_so_many_jobs_may_run_at_once(spec, stand_in):
    stand_in("scontrol", "echo 'MaxArraySize            = 2'")
    _submit(spec, settings={"slurm.array_parallelism": 3})
    shown = [(one["array"], one.get("dependency")) for one in _scripts(spec)]
    assert shown == [("0-1%2", None), ("0-1%2", "afterany:101"), ("0-1%2", "afterany:102")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slurm.time_min": 121}, "slurm.time_min = 121 is more than partition main allows: 120"),
        ({"slurm.mem_gb": 16}, "slurm asks for 16 GB .* more than 15.6"),
        ({"slurm.mem_per_cpu": "5G", "slurm.cpus_per_task": 4}, "asks for 20 GB"),
        ({"slurm.mem_per_cpu": "9G", "slurm.processes_per_job": 2}, "asks for 18 GB"),
        ({"slurm.mem_per_cpu": "1T"}, r"asks for 1.02e\+03 GB"),
        ({"slurm.time_min": 120, "slurm.mem_gb": 15.625}, None),
        ({"slurm.mem_per_cpu": "4000", "slurm.cpus_per_task": 4}, None),
        ({"slurm.mem_per_cpu": "4096000K", "slurm.cpus_per_task": 4}, None),
    ],
)
def test_what_no_node_of_the_partition_has_is_refused(spec, settings, message):
    """The largest node has 16,000 MB and a limit of two hours."""
    if message is None:
        assert _submit(spec, settings=settings).sent == 6
        return
    with pytest.raises(InputError, match=message):
        _submit(spec, settings=settings)
    assert _scripts(spec) == []
    assert _submit(spec, settings=settings, preflight=False).sent == 6


def test_memory_is_what_was_set_and_too_little_is_told_until_it_changes(spec):
    queue, told = spec.parent / "slurm/queue", []
    for number, memory in enumerate((2, 2, 4), 1):
        done = _submit(spec, settings={"slurm.mem_gb": memory}, tell=told.append)
        name = _name(done.run, number=number)
        lines = [f"{100 + number}_{at}|OUT_OF_MEMORY|None|{name}|n1|9:00|x" for at in range(6)]
        queue.write_text("\n".join(lines))
    assert [one["mem"] for one in _scripts(spec)] == ["2048M", "2048M", "4096M"]
    line = "6 jobs ran out of memory, and these jobs get the same memory (mem_gb = 2): cancel them,"
    assert told == [f"{line} and submit again with more (--set slurm.mem_gb=GB)"]


def test_one_of_several_clusters_is_asked_about_and_sent_to(spec, stand_in):
    asked = "echo $0 $SLURM_CLUSTERS >> $here/clusters\n"
    stand_in("sinfo", f"{asked}echo 'main*|n1||idle|8000|1:00:00'")
    stand_in("squeue", f"{asked}cat $here/queue 2>/dev/null; true")
    done = _submit(spec, settings={"slurm.clusters": "far"})
    (spec.parent / "slurm/queue").write_text(f"101_0|RUNNING|None|{_name(done.run)}|n|0:01|x\n")
    assert rebench.status(done.run).counts["queued"] == 1
    assert cancel_jobs(Run.open(done.run)) == ["101_0"]
    told = (spec.parent / "slurm/clusters").read_text().splitlines()
    assert [line.split("/")[-1] for line in told] == [
        "sinfo far",
        *("squeue far", "squeue far"),
    ]
    assert (spec.parent / "slurm/cancelled").read_text() == "far 101_0\n"
    assert _scripts(spec)[0]["clusters"] == "far"


def test_job_that_was_accepted_with_an_error_is_found_by_the_next_submission(spec, stand_in):
    stand_in("sbatch", SBATCH.format("") + 'refuse "Socket timed out on send/recv operation"')
    with pytest.raises(ClusterError) as refused:
        _submit(spec)
    assert str(refused.value) == (
        "sbatch: error: Socket timed out on send/recv operation | It is unknown whether the cluster"
        " accepted this job: remove the cause (--set slurm.KEY=VALUE), then submit again. This"
        " finds accepted jobs of the 6 trials, and sends the other trials"
    )
    name = _name(spec.parent / "runs/sweep")
    lines = [f"101_{at}|PENDING|Priority|{name}||0:00|N/A" for at in range(6)]
    (spec.parent / "slurm/queue").write_text("\n".join(lines))
    stand_in("sbatch", SBATCH.format(""))
    again = _submit(spec)
    assert (again.sent, again.adopted, len(again.held)) == (0, 6, 6)


def test_job_whose_submitter_died_is_found_by_its_name(spec):
    done = _submit(spec)
    answer = done.run / "submissions/0001/sent.0.json"
    before = answer.read_bytes()
    answer.unlink()
    name = _name(done.run)
    lines = [f"101_{at}|PENDING|Priority|{name}||0:00|N/A" for at in range(6)]
    (spec.parent / "slurm/queue").write_text("\n".join([*lines, "7|RUNNING|None|other|n|1:00|"]))
    assert rebench.status(done.run).counts["queued"] == 6
    told: list[str] = []
    again = _submit(spec, tell=told.append)
    assert (again.sent, again.adopted, len(again.held)) == (0, 6, 6)
    assert answer.read_bytes() == before
    assert [line for line in told if "took over 6 jobs" in line]
    assert _submit(spec).adopted == 0


# States of submitted jobs


def test_jobs_of_a_moved_run_are_told_of_and_do_not_speak_against_their_node(spec):
    run = _submit(spec).run
    moved = run.rename(run.with_name("moved"))
    queue, name = spec.parent / "slurm/queue", _name(moved)
    queue.write_text("\n".join(f"101_{at}|PENDING|None|{name}||0:00|x" for at in range(6)))
    (warning,) = rebench.status(moved).warnings
    assert warning == (
        f"{moved.absolute()} was moved, but 6 jobs look for it in its old place: they will fail."
        " Move it back, or cancel them and submit again"
    )
    (link := run).symlink_to(moved)
    assert rebench.status(moved).warnings == ()
    link.unlink()
    queue.write_text("\n".join(f"101_{at}|FAILED|x|{name}|n1|0:01|{at}" for at in range(6)))
    told: list[str] = []
    assert rebench.submit(moved, tell=told.append).sent == 6
    assert told == []
    assert rebench.status(moved).warnings == ()


def test_queue_is_asked_about_own_jobs_only_if_this_user_sent_all_of_them(
    spec, stand_in, monkeypatch
):
    run = _submit(spec).run
    stand_in("squeue", 'echo "$*" > $here/asked')
    user = os.geteuid() or 65534  # root asks about all: it can send jobs for other users
    if os.geteuid() == 0:
        os.chown(run / "submissions/0001", user, -1)
    asked = []
    for me in (user, user + 1):
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda me=me: me)
            rebench.status(run)
        asked.append((spec.parent / "slurm/asked").read_text())
    assert f" -u {user}\n" in asked[0]
    assert " -u " not in asked[1]


def test_jobs_of_a_cluster_that_is_not_known_here_are_those_of_a_machine(spec):
    """The cluster's name may come from a later version of `rebench`."""
    run = _submit(spec).run
    path = run / "submissions/0001/intent.json"
    path.write_text(path.read_text().replace('"cluster":"slurm"', '"cluster":"cloud"'))
    assert rebench.status(run).counts["pending"] == 6
    ended = ProcessMark(host=this_process().host, pid=1, started="0")
    job = Job(submission=Journal(run).submission(1), cluster="cloud", process=ended)
    assert not recorded("cloud").look([job])[0].live


def test_bytes_that_are_no_text_stop_no_command(spec, stand_in):
    """The name of another user's job, or a reason, may contain any byte."""
    run = _submit(spec).run
    line = f"101_0|RUNNING|None|{_name(run)}|n1|0:01|x"
    foreign = r"7|RUNNING|None|M\374ller|n1|0:01|x"
    stand_in("squeue", rf"printf '{foreign}\n{line}\n'")
    stand_in("sacct", r"printf '101_1|FAILED \374\n'")
    stand_in("scontrol", r"printf 'Comment = \374\nMaxArraySize = 1001\n'")
    stand_in("sinfo", r"printf 'main*|n1|\374|idle|8000|1:00:00\n'")
    stand_in("scancel", r"printf '\374' >&2")
    told = rebench.status(run)
    assert (told.counts["queued"], told.counts["lost"]) == (1, 5)
    assert _submit(spec).held == {"101_0": 1}
    assert cancel_jobs(Run.open(run)) == ["101_0"]


@pytest.mark.parametrize(
    ("shown", "state", "reason"),
    [
        ("PENDING|Priority", "queued", "pending: Priority"),
        ("PENDING|None", "queued", "pending"),
        ("RUNNING|None", "queued", "running"),
        ("COMPLETING|None", "queued", "completing"),
        ("NODE_FAIL|None", "lost", "job node_fail"),
        ("FAILED|NonZeroExitCode", "lost", "job failed (NonZeroExitCode)"),
        ("OUT_OF_MEMORY|", "lost", "job out_of_memory"),
    ],
)
def test_trial_is_in_the_state_of_its_job(spec, shown, state, reason):
    run = _submit(spec).run
    (spec.parent / "slurm/queue").write_text(f"101_0|{shown}|{_name(run)}|n1|0:01|x\n")
    first, *others = rebench.status(run).trials.values()
    assert (first.state, first.reason, first.job) == (state, reason, "101_0")
    assert first.log == f"{run.absolute()}/submissions/0001/logs/101_0_0.log"
    assert {(one.state, one.reason) for one in others} == {
        ("lost", "job ended (the queue has forgotten it)")
    }


def test_trial_recorded_just_before_its_job_ended_is_not_lost(spec, stand_in):
    first = expand_spec(parse_spec(SWEEP)).trials[0]
    record = make_record().model_copy(update={"trial": first, "trial_id": first.trial_id})
    write_records(spec.parent / "other", "w", record)
    run = _submit(spec).run
    # The worker appends the record and its job ends, between the first reading and the answer.
    stand_in("squeue", f"cp -r {spec.parent}/other/results {run}")
    assert rebench.status(run).trials[first.trial_id].state == "done"


def test_where_the_queue_cannot_be_asked_jobs_may_live_and_nothing_is_sent(spec, stand_in):
    run = _submit(spec).run
    stand_in("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    told = rebench.status(run)
    assert told.counts["queued"] == 6
    assert {(one.reason, one.job[:4]) for one in told.trials.values()} == {("unknown", "101_")}
    (warning,) = told.warnings
    assert "queue does not answer (Unable to contact slurm controller)" in warning
    with pytest.raises(ClusterError, match="Unable to contact"):
        _submit(spec)
    assert Journal(run).submissions()[-1].is_closed
    dry = rebench.submit(spec, dry_run=True, preflight=False)
    assert dry.held == {f"101_{at}": 1 for at in range(6)}
    assert (dry.sent, dry.adopted, dry.failed, dry.done, dry.jobs) == (0, 0, 0, 0, ())
    (run / "submissions/0001/sent.0.json").unlink()
    assert rebench.status(run).counts["pending"] == 6, "nothing says that they were submitted"


def test_jobs_of_a_user_that_are_hidden_count_as_live(spec, stand_in, monkeypatch):
    run = _submit(spec).run
    owner = run / "submissions/0001/owner.json"
    owner.write_text(json.dumps(json.loads(owner.read_text()) | {"user": "ada"}))
    stand_in("scontrol", "echo 'PrivateData = jobs'")
    stand_in("sacct", "echo '101_0|FAILED'")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    told = rebench.status(run)
    reason = "a job of ada, which you may not see"
    first, *others = told.trials.values()
    assert (first.state, first.reason) == ("lost", "job failed")
    assert {(one.state, one.reason) for one in others} == {("queued", f"unknown: {reason}")}
    assert [line for line in told.warnings if line.startswith(f"5 jobs count as live: {reason}")]
    assert cancel_jobs(Run.open(run)) == []
    # The owner has cancelled the array before its other tasks started.
    stand_in("sacct", "echo '101_0|FAILED'; echo '101_[1-5%64]|CANCELLED by 0'")
    assert rebench.status(run).counts["lost"] == 6


def test_copy_of_a_run_holds_none_of_its_jobs_and_becomes_a_run_of_its_own(spec, tmp_path):
    run = _submit(spec).run
    (spec.parent / "slurm/queue").write_text(f"101_0|RUNNING|None|{_name(run)}|n1|0:01|x\n")
    (run / "claims").mkdir()
    (run / "claims" / f"{'a' * 16}.1").touch()
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    told = rebench.status(copy)
    assert told.counts["pending"] == 6
    assert len([line for line in told.warnings if f"is a copy of {run.resolve()}" in line]) == 1
    assert cancel_jobs(Run.open(copy)) == []
    lines: list[str] = []
    assert _submit(spec, run=copy, tell=lines.append).sent == 6
    assert f"{copy} is a copy of {run}. From now on it is a separate run" in lines
    assert not (copy / "claims").exists()
    assert Run.open(copy).name != Run.open(run).name
    assert (run / "claims").exists()


def test_job_of_this_machine_is_cancelled_with_all_that_it_started(tmp_path, spec):
    run = Run.open(_submit(spec).run)
    shell = "sleep 100 & echo $! > $0; wait"
    pid, name = tmp_path / "pid", f"{run.job_prefix}2.0"
    words = ["/bin/sh", "-c", shell, str(pid), "rebench.launch.clusters.background", name]
    job = subprocess.Popen(words, start_new_session=True)
    while not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.01)
    mine = Journal(run.folder).begin()
    chunk = Chunk(name=name, jobs=((),))
    mine.write_intent(Intent(cluster="local", spec_hash="", chunks=(chunk,)))
    mine.write_sent(0, Sent(jobs=(str(job.pid),), process=mark_of(job.pid)))
    mine.close()
    queue = spec.parent / "slurm/queue"
    queue.write_text(f"101_0|RUNNING|None|{_name(run.folder)}|n1|0:01|x\n")
    full = rebench.submit(spec, cluster="local", settings={"slurm.array_parallelism": 1})
    assert (full.sent, full.waiting, full.held) == (0, 5, {"101_0": 1})
    assert full.limit.startswith("this machine runs the maximum number of jobs of this run")
    assert cancel_jobs(run) == ["101_0", str(job.pid)]
    queue.unlink()
    assert job.wait() in (0, -signal.SIGTERM), "the shell may hear of its child first"
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(pid.read_text())).wait(timeout=60)
    assert cancel_jobs(run) == []


def test_process_that_is_no_job_of_the_run_is_not_ended(spec):
    """Others can write the files of a shared run."""
    run = Run.open(_submit(spec).run)
    words = ["sleep", "100"]
    jobs = [subprocess.Popen(words, start_new_session=True)]
    other = "rebench-other-2.0"
    words = ["/bin/sh", "-c", "sleep 100; true", "rebench.launch.clusters.background", other]
    jobs.append(subprocess.Popen(words, start_new_session=True))
    mine = Journal(run.folder).begin()
    chunks = tuple(Chunk(name=f"{run.job_prefix}2.{at}", jobs=((),)) for at in (0, 1))
    mine.write_intent(Intent(cluster="local", spec_hash="", chunks=chunks))
    for at, job in enumerate(jobs):
        mine.write_sent(at, Sent(jobs=(str(job.pid),), process=mark_of(job.pid)))
    mine.close()
    try:
        assert cancel_jobs(run) == []
        assert [job.poll() for job in jobs] == [None, None]
    finally:
        for job in jobs:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def test_number_of_another_job_in_the_journal_is_not_cancelled(spec):
    """SLURM knows the number of a job by its name."""
    run = _submit(spec).run
    answer = run / "submissions/0001/sent.0.json"
    answer.write_text(answer.read_text().replace("101_0", "666"))
    name = _name(run)
    lines = [f"101_0|RUNNING|None|{name}|n1|0:01|x", "666|RUNNING|None|thesis|n1|0:01|x"]
    (spec.parent / "slurm/queue").write_text("\n".join(lines))
    assert cancel_jobs(Run.open(run)) == ["101_0"]
    assert (spec.parent / "slurm/cancelled").read_text() == "101_0\n"


def test_changed_sweep_is_sent_if_that_is_meant_and_a_run_as_it_was(spec):
    done = _submit(spec)
    (spec.parent / "slurm/queue").write_text(f"101_0|RUNNING|None|{_name(done.run)}|n1|0:01|x\n")
    changed = {"seeds": [2, 3, 4, 5]}
    with pytest.raises(InputError, match="4 trials are new, 2 are no longer asked for"):
        _submit(spec, settings=changed)
    with pytest.raises(InputError, match="2 trials are new, 0 are no longer asked for"):
        _submit(spec, settings={"seeds": [1, 2, 3, 4]})
    assert len(Run.open(done.run).ids()) == 6
    with pytest.raises(InputError, match="4 trials are new, 2 are no longer asked for"):
        _submit(spec, settings=changed, dry_run=True)
    told: list[str] = []
    sent = _submit(spec, settings=changed, accept_change=True, tell=told.append, data_root="/x")
    assert (sent.sent, len(Run.open(done.run).ids())) == (8, 8)
    assert "4 trials are new, 2 are no longer asked for" in told[-1]
    # Submitting the run uses the last submission's cluster and its number of trials per job.
    again = rebench.submit(done.run, settings={"slurm.comment": "x"})
    assert (again.sent, len(again.jobs)) == (8, 8)
    assert _intent(done.run, len(Journal(done.run).submissions()))["data_root"] == "/x"
    assert [one.get("comment") for one in _scripts(spec)] == [None, None, "x"]
    for wrong, message in (
        ({"epochs": 3}, "only keys of slurm and train can be set"),
        ({}, "no trial"),
    ):
        if not wrong:
            (done.run / "trials.jsonl").write_text("")
        with pytest.raises(InputError, match=message):
            rebench.submit(done.run, settings=wrong)


@pytest.mark.parametrize("why", ["declined", "refused"])
def test_submission_that_is_declined_or_refused_leaves_the_stored_sweep(spec, why):
    def decline(_):
        raise InterruptedError

    settings, expected, how = {"seeds": [4]}, InterruptedError, {"confirm": decline}
    if why == "refused":
        settings, expected, how = settings | {"slurm.time_min": 121}, InputError, {}
    run = spec.parent / "runs/sweep"
    with pytest.raises(expected):
        _submit(spec, settings=settings, **how)
    assert rebench.status(run).warnings == ()
    with pytest.raises(InputError, match="nothing was ever submitted"):
        rebench.submit(run)
    _submit(spec)
    before = [(run / name).read_bytes() for name in ("trials.jsonl", "spec.json")]
    with pytest.raises(expected):
        _submit(spec, settings=settings, accept_change=True, **how)
    assert [(run / name).read_bytes() for name in ("trials.jsonl", "spec.json")] == before


def test_accounting_tells_how_jobs_ended_that_the_queue_has_forgotten(spec, stand_in):
    run = _submit(spec).run
    answers = "101_0|TIMEOUT\n101_1|CANCELLED by 1000\n101_2|\nnonsense"
    stand_in("sacct", f"echo $* > $here/asked; echo '{answers}'")
    # The answer of accounting counts more than words in the log that name another reason.
    (run / "submissions/0001/logs/101_0_0.log").write_text("srun: task 0: Out Of Memory\n")
    reasons = [one.reason for one in rebench.status(run).trials.values()]
    forgotten = "(the queue has forgotten it)"
    assert reasons[:3] == [f"job {how} {forgotten}" for how in ("timeout", "cancelled", "ended")]
    assert rebench.status(run).warnings == ()
    assert (spec.parent / "slurm/asked").read_text().split()[-2:] == ["-j", "101"]
    stand_in("sacct", "exit 1")
    others = [one.reason for one in rebench.status(run).trials.values()][1:]
    assert set(others) == {f"job ended {forgotten}"}


def test_accounting_shows_the_tasks_that_never_started_as_one_line(spec, stand_in):
    run = _submit(spec).run
    stand_in("sacct", "echo '101_0|TIMEOUT'; echo '101_[1-5%64]|CANCELLED by 1000'")
    reasons = [one.reason for one in rebench.status(run).trials.values()]
    forgotten = "(the queue has forgotten it)"
    assert reasons == [f"job timeout {forgotten}"] + [f"job cancelled {forgotten}"] * 5


def test_job_that_accounting_alone_shows_as_live_has_ended(spec, stand_in):
    """SLURM calls such jobs runaway jobs: the controller lost them, for example in a crash."""
    run = _submit(spec).run
    stand_in("sacct", "echo '101_0|RUNNING'; echo '101_[1-5%64]|PENDING'")
    assert rebench.status(run).counts["lost"] == 6
    assert _submit(spec).sent == 6


def test_words_in_a_log_tell_that_a_job_took_too_much_memory(spec):
    run = _submit(spec).run
    logs = run / "submissions/0001/logs"
    end = "slurmstepd: error: Detected 1 oom_kill event in StepId=101.0. Some of the step tasks\n"
    other = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes"
    third = "srun: error: n1: task 0: Out Of Memory\n"
    for at, text in enumerate([end, end + "x" * 4096, "x" * 9000 + end, "fine\n", other, third]):
        (logs / f"101_{at}_0.log").write_text(text)
    states = [one.reason.split()[1] for one in rebench.status(run).trials.values()]
    assert states == ["out_of_memory", "ended", "out_of_memory", "ended", *["out_of_memory"] * 2]


def test_status_tells_of_a_killed_process_and_how_jobs_get_more_memory(spec, capsys):
    run = _submit(spec).run
    name = _name(run)
    lines = [f"101_{at}|FAILED|NonZeroExitCode|{name}|n1|0:01|x" for at in range(6)]
    (spec.parent / "slurm/queue").write_text("\n".join(lines))
    assert main(["status", str(run)]) == 0
    remedy = "`rebench submit RUN --set slurm.mem_gb=GB` gives each job GB of memory"
    assert remedy not in capsys.readouterr().out
    for at in range(6):
        log = run / f"submissions/0001/logs/101_{at}_0.log"
        log.write_text("epoch\nsrun: error: n1: task 0: Killed\nsrun: Terminating\n")
    assert main(["status", str(run)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    why = "NonZeroExitCode; a process was killed, often for lack of memory"
    assert f"6 lost: job failed ({why})" in told
    assert remedy in told


def test_live_jobs_are_cancelled_and_no_others(spec):
    run = _submit(spec).run
    name = _name(run)
    states = ["RUNNING", "COMPLETED", "PENDING", "FAILED"]
    lines = [f"101_{at}|{state}|None|{name}|n1|0:01|x" for at, state in enumerate(states)]
    (spec.parent / "slurm/queue").write_text("\n".join(lines))
    assert cancel_jobs(Run.open(run)) == ["101_0", "101_2"]
    assert cancel_jobs(Run.open(run), ["101_2"]) == ["101_2"]
    cancelled = spec.parent / "slurm/cancelled"
    assert cancelled.read_text().splitlines() == ["101_0 101_2", "101_2"]
    with pytest.raises(InputError, match="valid: 101_2, 101_0"):
        cancel_jobs(Run.open(run), ["101_1"])


def test_jobs_of_a_colleague_are_named_after_the_own_jobs_were_cancelled(
    spec, stand_in, monkeypatch
):
    (spec.parent / "slurm/queue").write_text("")
    monkeypatch.setenv("LOGNAME", "ada")
    run = _submit(spec).run
    name = _name(run)
    lines = [f"101_{at}|PENDING|None|{name}||0:00|x" for at in range(2)]
    (spec.parent / "slurm/queue").write_text("\n".join(lines))
    monkeypatch.setattr(commands, "_PIECE", 1)
    denied = "scancel: error: Kill job error on job id $1: Access/permission denied"
    stand_in("scancel", f'echo $1 >> $here/asked; [ $1 = 101_1 ] || (echo "{denied}" >&2; exit 1)')
    monkeypatch.setenv("LOGNAME", "eve")
    with pytest.raises(ClusterError) as refused:
        cancel_jobs(Run.open(run))
    assert str(refused.value) == (
        denied.replace("$1", "101_0")
        + ". Only ada can cancel the jobs of ada; your jobs got the request"
    )
    assert (spec.parent / "slurm/asked").read_text().split() == ["101_0", "101_1"]


# Answers


def test_many_jobs_are_named_in_pieces_that_a_command_line_takes(stand_in):
    stand_in("scancel", "echo $# $SLURM_CLUSTERS >> $here/calls; echo $here >&2")
    stand_in("sacct", 'for last; do :; done; echo "$last" | tr , "\\n" | sed "s/$/|FAILED/"')
    jobs = [f"{number}_{task}" for number in range(1000, 2001) for task in (0, 1)]
    commands.cancel(jobs, "far")
    (calls,) = {Path(part) / "calls" for part in os.environ["PATH"].split(":")[:1]}
    assert calls.read_text().splitlines() == ["500 far"] * 4 + ["2 far"]
    assert commands.ended_states(jobs) == {f"{number}": "FAILED" for number in range(1000, 2001)}
    assert commands.ended_states([]) == {}


NODES = """main*|n1|a100,big|idle|8000|1-00:00:00
main*|n2|v100|drained|16000+|2:00:00
main*|n3|(null)|down*|1000|30:00
gpu|g1|a100|mixed|64000|infinite
gpu|g2|a100,big|allocated|32000|UNLIMITED
odd line
"""


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["n1", "n2", "n3"]),
        ({"partition": "main"}, ["n1", "n2", "n3"]),
        ({"partition": "gpu"}, ["g1", "g2"]),
        ({"partition": "gpu,main", "constraint": "a100&big"}, ["n1", "g2"]),
        ({"constraint": "v100"}, ["n2"]),
        ({"exclude": "n[1-2]"}, ["n3"]),
        ({"partition": "none"}, []),
    ],
)
def test_nodes_are_those_of_the_partition_with_the_features(stand_in, asked, names):
    stand_in("sinfo", f"echo '{NODES}'")
    stand_in("scontrol", 'test "$*" = "show hostnames n[1-2]" && echo n1 n2')
    assert [node.name for node in commands.nodes(SlurmOptions(**asked))] == names


def test_node_has_its_memory_its_limit_and_whether_it_takes_jobs(stand_in):
    stand_in("sinfo", f"echo '{NODES}'")
    stand_in("scontrol", "echo MaxArraySize = 7")
    stand_in("sbatch", "")
    found = [*commands.nodes(SlurmOptions()), *commands.nodes(SlurmOptions(partition="gpu"))]
    assert [node[1:] for node in found] == [
        (8000.0, 1440.0, True),
        (16000.0, 120.0, False),
        (1000.0, 30.0, False),
        (64000.0, float("inf"), True),
        (32000.0, float("inf"), True),
    ]
    limits = cluster("slurm").limits(SlurmOptions())
    assert limits.nodes == {"n1"}
    assert (limits.largest, limits.at_once) == (7, None)


@pytest.mark.parametrize(
    ("answer", "largest", "hidden"),
    [
        ("echo 'MaxArraySize = 50\nPrivateData = jobs,usage'", 50, True),
        ("echo 'MaxArraySize = 0\nPrivateData = none'", 1, False),
        ("echo 'SomeMaxArraySize = 50'", 1001, False),
        ("exit 1", 1001, True),
    ],
)
def test_configuration_tells_the_largest_array_and_whose_jobs_are_hidden(
    stand_in, monkeypatch, answer, largest, hidden
):
    stand_in("scontrol", answer)
    assert commands.largest_array() == largest
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert commands.hides_jobs_of("somebody else") is hidden
    assert not commands.hides_jobs_of(getpass.getuser())
    assert not commands.hides_jobs_of("")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not commands.hides_jobs_of("somebody else")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo one >&2; echo two >&2; exit 1", "^two$"),
        ("echo 'sbatch: error: bad' >&2; echo 'more' >&2; exit 1", "^sbatch: error: bad$"),
        ("echo said; exit 3", "^said$"),
        ("exit 3", r"^\(no message\)$"),
        ("printf 'a\nno configuration source found\nb\n' >&2; exit 1", "not set up"),
        ("printf 'a\ncannot open slurm.conf\nb\n' >&2; exit 1", "not set up"),
        ("sleep 9", "did not answer within 0 s"),
    ],
)
def test_refusal_is_told_in_slurms_own_words(stand_in, script, words):
    stand_in("sbatch", script)
    with pytest.raises(ClusterError, match=words):
        commands.ask("sbatch", limit_s=0.2 if "sleep" in script else 60)


@pytest.mark.parametrize(
    ("shown", "kind", "lives"),
    [
        ("RUNNING", "running", True),
        ("COMPLETING", "ending", True),
        ("PENDING", "waiting", True),
        ("REQUEUED", "waiting", True),
        ("UNKNOWN", "unknown", True),
        ("FAILED", "failed", False),
        ("COMPLETED", "ended", False),
        ("TIMEOUT", "ended", False),
        ("OUT_OF_MEMORY", "memory", False),
        ("NODE_FAIL", "stopped", False),
        ("PREEMPTED", "stopped", False),
        ("CANCELLED", "stopped", False),
    ],
)
def test_state_of_a_job_is_of_a_kind_that_every_cluster_has(shown, kind, lives):
    state = commands.state_of(shown)
    assert (state.kind, state.name, state.live) == (kind, shown.lower(), lives)
