"""Sweeps without a cluster: in the background of this machine and in the caller's process."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import Sweep
from support import PROJECT, small_disk

from rebench.errors import ClusterError, InputError
from rebench.launch.clusters import background, cluster, local
from rebench.launch.devices import visible_gpus
from rebench.launch.journal import Chunk, Intent, Submission
from rebench.launch.liveness import read_reports
from rebench.machine import cores
from rebench.recipes.topology import Topology
from rebench.runs import Run, SlurmOptions
from rebench.runs.claims import tree_of
from rebench.train import kept_networks


@pytest.mark.slow
def test_local_jobs_are_killed_and_resumed_with_equal_records(tmp_path, undisturbed):
    sweep = Sweep(tmp_path / "local", cells=2)
    keep = ["--set", "train.keep=weights"]
    sent = sweep.submit("--cluster", "local", "--trials-per-job", "6", *keep)
    assert sent["jobs"] == min(2, cores())
    assert sweep.submit("--cluster", "local")["sent"] == 0
    sweep.wait_for_records(1)
    sent = json.loads((sweep.run / "submissions/0001/sent.0.json").read_text())
    for pid in tree_of(sent["process"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    assert "cancelled" in sweep.rebench("cancel").stdout
    counts = sweep.wait_until_over()
    assert counts["lost"] == 12 - counts["done"]
    assert sweep.submit("--cluster", "local", *keep)["sent"] == counts["lost"]
    assert sweep.wait_until_over()["done"] == 12
    assert sweep.outcomes().items() <= undisturbed.items()
    kept = {one.trial.trial_id: one for one in kept_networks(sweep.run)}
    assert len(kept) == 12
    for trial_id, one in kept.items():
        one.read()
        assert one.record.outcome.model_dump() == undisturbed[trial_id]


@pytest.mark.parametrize(
    ("gpus", "options", "jobs"),
    [
        ("", {}, 12),
        ("", {"array_parallelism": 5}, 5),
        ("", {"cpus_per_task": 5}, 2),
        ("", {"cpus_per_task": 3, "processes_per_job": 2}, 2),
        ("", {"cpus_per_task": 10_000}, 1),
        ("", {"gpus_per_task": 1}, 12),  # workers say that there is none
        ("1,3,5,7,9", {}, 5),
        ("1,3,5,7,9", {"gpus_per_task": 2}, 2),
        ("1,3,5,7,9", {"gpus_per_task": 5}, 1),
        ("1,3,5,7,9", {"gpus_per_task": 6}, 12),
        ("1,3,5,7,9", {"device": "cpu"}, 12),
    ],
)
def test_room_is_for_the_gpus_or_the_cores_of_this_machine(monkeypatch, gpus, options, jobs):
    monkeypatch.setattr(local, "cores", lambda: 12)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    assert local.room(SlurmOptions(**options)) == jobs


def test_gpus_are_those_that_are_visible_or_that_the_driver_lists(monkeypatch, stand_in):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3,x,")
    assert visible_gpus() == [1, 3]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    stand_in("nvidia-smi", "echo 'GPU 0: A100 (UUID: 1)'; echo 'GPU 1: A100 (UUID: 2)'")
    assert visible_gpus() == [0, 1]
    stand_in("nvidia-smi", "exit 9")
    assert visible_gpus() == []


def test_a_job_gets_the_gpus_with_the_fewest_jobs_of_all_submissions(monkeypatch):
    """Processes of one session are one job."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "90,91,92")
    jobs = [
        subprocess.Popen(
            ["/bin/sh", "-c", "sleep 60 & wait"],
            env=os.environ | {local._GPUS: gpus},
            start_new_session=True,
        )
        for gpus in ("90,92", "90")
    ]
    try:
        assert local._least_used_gpus(3) == [91, 92, 90]
        assert local._least_used_gpus(1) == [91]
    finally:
        for job in jobs:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    deadline = time.monotonic() + 60  # the shell's child can end later than the shell
    while local._least_used_gpus(1) != [90] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert local._least_used_gpus(1) == [90]


def test_gpus_that_are_named_by_uuid_are_refused_before_a_job_trains_on_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-41b3-7")
    refusal = local.Local().limits(SlurmOptions()).refusal
    assert isinstance(refusal, ClusterError)
    assert "is MIG-41b3-7; local jobs need numbers, such as 0,1" in str(refusal)
    assert local.Local().limits(SlurmOptions(device="cpu")).refusal is None


def test_gpu_that_a_job_cannot_see_is_refused_before_anything_is_sent(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    second = SlurmOptions(device="cuda:1")
    refusal = local.Local().limits(second).refusal
    assert isinstance(refusal, InputError)
    assert str(refusal).startswith("slurm.device = 'cuda:1', but a job sees only its own")
    with pytest.raises(InputError, match=r"its own GPUs \(1, numbered from 0\); set slurm.device"):
        local.check_device(SlurmOptions(device="cuda:1"), 1)
    local.check_device(SlurmOptions(device="cuda:1", gpus_per_task=2), 2)
    monkeypatch.setattr(local, "find_device", lambda _: "found")
    assert cluster("debug").limits(second).refusal is None


def test_ended_jobs_are_reaped_when_the_next_one_starts(tmp_path):
    chunk = Chunk(name="x.0", jobs=((("0123456789abcdef",),),))
    options = SlurmOptions(setup="exit 1")
    pids = []
    for number in (1, 2):
        mine = Submission(tmp_path / f"submissions/{number:04}", number)
        mine.folder.mkdir(parents=True)
        intent = Intent(cluster="local", spec_hash="", options=options, chunks=(chunk,))
        [job] = local.Local().submit(mine.planned(intent, 0), print).jobs
        os.waitid(os.P_PID, int(job), os.WEXITED | os.WNOWAIT)  # ended, and still a zombie
        pids.append(int(job))
    assert [Path(f"/proc/{pid}").exists() for pid in pids] == [False, True]
    local._started.pop().wait()


@pytest.mark.slow
def test_watch_sends_again_what_is_lost_until_that_does_not_help(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    sweep.submit("--cluster", "local", "--set", "slurm.setup=['test -e ready']")
    watch = ["--resubmit", "--every-s", "0.2"]
    stopped = sweep.rebench("watch", *watch, code=1)
    assert "stopped: 3 submissions in a row have finished no trial (job ended)" in stopped.stderr
    assert stopped.stderr.count(f"sent 6 trials in {min(cores(), 6)} jobs; 0 wait\n") == 3
    stored = json.loads((sweep.run / "spec.json").read_text())
    stored["slurm"]["setup"] = []
    (sweep.run / "spec.json").write_text(json.dumps(stored))
    assert sweep.rebench("watch", *watch).stdout.endswith("6 done\n")


@pytest.mark.slow
def test_cancel_ends_workers_that_a_shell_started(tmp_path):
    sweep = Sweep(tmp_path, cells=2, epochs=15)
    two = ["--set", "slurm.setup='export REBENCH_TEST=1'", "--set", "slurm.processes_per_job=2"]
    sweep.submit("--cluster", "local", *two)
    sent = json.loads((sweep.run / "submissions/0001/sent.0.json").read_text())
    shell = sent["process"]["pid"]
    sweep.wait_for_records(1)
    workers = tree_of(shell)
    assert len(workers) > 2
    assert "cancelled" in sweep.rebench("cancel").stdout
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() and _lives(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    counts = sweep.wait_until_over()
    assert counts["done"] < 12
    assert counts["running"] == 0


@pytest.mark.slow
def test_workers_end_at_a_checkpoint_if_the_process_of_their_job_is_killed(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=1000)
    two = ["--set", "slurm.processes_per_job=2", "--set", "slurm.array_parallelism=1"]
    sweep.submit("--cluster", "local", *two)
    first = json.loads((sweep.run / "submissions/0001/sent.0.json").read_text())["process"]["pid"]
    sweep.wait_until(lambda: len(list(sweep.run.glob("checkpoints/*/*.ckpt"))) > 1, "checkpoints")
    workers = tree_of(first)
    os.kill(first, signal.SIGKILL)
    sweep.wait_until(lambda: not any(map(_lives, workers)), "the end of the workers", limit_s=30)
    lost = {trial["reason"] for trial in sweep.trials("lost")}
    assert lost == {f"job ended (process {first} of the job was killed)"}
    assert list(sweep.run.glob("checkpoints/*/*.ckpt"))
    assert not list(sweep.run.glob("claims/*"))


@pytest.mark.slow
def test_workers_outlive_ctrl_c_and_the_terminal_that_they_were_started_from(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=40)  # longer than `cancel` needs on a busy machine
    sweep.spec.write_text(sweep.spec.read_text().replace(", 888", ""))  # three trials
    sweep.submit("--cluster", "local", "--set", "slurm.array_parallelism=1")
    sweep.rebench("cancel")
    sweep.wait_until_over()
    # A shell makes its background processes ignore SIGINT, and their children inherit this.
    heard = ["env", "--default-signal=INT"]
    with subprocess.Popen(
        [*heard, *sweep.command("watch", "--resubmit", "--every-s", "0.2")],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as watching:
        journal = sweep.run / "submissions"
        sweep.wait_until((journal / "0002" / "sent.0.json").exists, "a worker")
        worker = json.loads((journal / "0002" / "sent.0.json").read_text())["process"]["pid"]
        assert os.getsid(worker) == worker
        os.killpg(watching.pid, signal.SIGINT)
        said = watching.stdout.read().decode()
    assert "the jobs continue; `rebench cancel " in said
    assert sweep.wait_until_over()["done"] == 3


@pytest.mark.slow
def test_sigterm_is_repeated_until_the_job_listens(tmp_path):
    """A process ignores or loses the signal while it starts."""
    told, begun = tmp_path / "told", tmp_path / "begun"
    listens_late = f"""
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({str(begun)!r}).touch()
time.sleep(3)
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path({str(told)!r}).touch())
ends = time.monotonic() + 20
while time.monotonic() < ends and not pathlib.Path({str(told)!r}).exists():
    time.sleep(0.1)
"""
    python = shlex.join([sys.executable, "-c", listens_late])
    command = [sys.executable, "-m", background.__name__, "rebench-x-1.0", "1", python]
    with subprocess.Popen(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}) as job:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
    assert told.exists()


@pytest.mark.slow
def test_ctrl_c_in_the_foreground_stops_at_a_checkpoint(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=200)
    with subprocess.Popen(
        sweep.command("submit", "--cluster", "debug"),
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as training:
        sweep.wait_until(lambda: list(sweep.run.glob("checkpoints/*/*.ckpt")), "a checkpoint")
        os.killpg(training.pid, signal.SIGINT)
        said = training.stdout.read().decode()
    assert "SIGINT: stopping at the next checkpoint" in said
    assert "Traceback" not in said
    assert list(sweep.run.glob("checkpoints/*/*.ckpt"))
    assert not list(sweep.run.glob("claims/*"))
    counts = sweep.counts()
    assert (counts["running"], counts["failed"]) == (0, 0)


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.mark.slow
def test_retry_sends_what_the_run_lacks_without_its_spec(tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("no such init")

    monkeypatch.setattr(Topology, "layer_init", fail)
    sweep = Sweep(tmp_path, cells=2, epochs=1)
    sweep.rebench("submit", "--cluster", "debug", code=1)
    assert (sweep.counts()["done"], sweep.counts()["failed"]) == (8, 4)
    sweep.spec.unlink()
    for shard in sweep.run.glob("results/*.jsonl"):
        shard.unlink()
    assert sweep.counts()["lost"] == 8
    row = json.loads(sweep.rebench("submit RUN", "--json").stdout)[0]
    assert (row["sent"], row["failed_before"]) == (8, 4)
    assert sweep.counts()["done"] == 8
    told = sweep.rebench("submit RUN").stderr
    assert f"`rebench submit {sweep.run} --retry-failed`" in told
    row = json.loads(sweep.rebench("submit RUN", "--retry-failed", "--json", code=1).stdout)[0]
    assert (row["sent"], row["already_done"]) == (4, 8)
    # The failed trials were sent again to the cluster of the first submission, `debug`.
    assert sweep.counts()["failed"] == 4
    assert len(list(sweep.run.glob("failures/*"))) == 2


def test_retry_of_what_was_never_submitted_is_one_clear_line(tmp_path):
    sweep = Sweep(tmp_path, cells=1)
    assert "cannot read the sweep" in sweep.rebench("submit RUN", code=2).stderr
    sweep.run.mkdir()
    (sweep.run / "run.json").write_text('{"name": "0123abcd"}')
    refused = sweep.rebench("submit RUN", code=2)
    assert "nothing was ever submitted" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.slow
def test_processes_of_a_local_job_divide_its_trials(tmp_path, undisturbed):
    sweep = Sweep(tmp_path / "local", cells=2)
    sweep.submit(
        "--cluster", "local", "--set", "slurm.processes_per_job=2", "--trials-per-job", "12"
    )
    assert sweep.wait_until_over()["done"] == 12
    shards = [path.name for path in sweep.run.glob("results/*.jsonl")]
    assert sorted(name.split("-")[-1] for name in shards) == ["p0.0.jsonl", "p1.0.jsonl"]
    logs = [Path(report.log) for report in read_reports(sweep.run)]
    assert len({log.name for log in logs}) == 2
    assert all("recorded cell" in log.read_text() for log in logs), "each names its own"
    for trial_id, trial in Run.open(sweep.run).trials().items():
        said = sweep.rebench("logs", trial_id).stdout
        assert re.findall(r"recorded (.*) in [\d.]+ s", said) == [trial.describe()]
        assert len(re.findall(" training ", said)) == 1
    assert sweep.records() == 12
    assert sweep.outcomes().items() <= undisturbed.items()


def test_data_that_are_missing_are_an_error_before_anything_is_sent(tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=1)
    sweep.spec.write_text(sweep.spec.read_text().replace('["digits"]', '["digits", "cifar10"]'))
    nowhere = ["--cluster", "debug", "--data-root", str(tmp_path)]
    refused = sweep.rebench("submit", *nowhere, code=1)
    assert f"cifar10 is not in {tmp_path}" in refused.stderr
    assert "To get it: rebench data fetch cifar10." in refused.stderr
    assert "--no-preflight" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not list(sweep.run.glob("submissions/*/intent.json"))
    rehearsed = sweep.rebench("submit", *nowhere, "--dry-run")
    assert f"a submission would be refused: cifar10 is not in {tmp_path}" in rehearsed.stderr
    assert "jobs in this process" in rehearsed.stdout


@pytest.mark.parametrize(("answer", "sent"), [("n", False), ("y", True)])
def test_many_device_hours_are_asked_about_on_a_terminal(tmp_path, answer, sent):
    sweep = Sweep(tmp_path, cells=1, epochs=100_000)
    text = sweep.spec.read_text().replace("channels = 4", "channels = 1024")
    sweep.spec.write_text(text + "setup = ['false']\n")
    terminal, inside = pty.openpty()
    command = sweep.command("submit", "--cluster", "local")
    with subprocess.Popen(command, cwd=PROJECT, stdin=inside, stdout=inside, stderr=inside) as one:
        os.close(inside)
        said = b""
        while b"device hours: submit it? [y/N]" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, f"{answer}\n".encode())
        with contextlib.suppress(OSError):  # the read fails when the terminal closes
            while more := os.read(terminal, 1000):
                said += more
    os.close(terminal)
    assert one.returncode == (0 if sent else 1), said
    assert sent == bool(list(sweep.run.glob("submissions/*/sent.0.json")))


def test_read_only_folder_is_one_clear_line(tmp_path):
    with small_disk(tmp_path / "disk", "size=1m,ro") as disk:
        sweep = Sweep(tmp_path / "sweep", cells=1)
        sweep.run = disk / "run"
        done = sweep.rebench("submit", "--cluster", "local", code=1)
        assert "Read-only file system" in done.stderr
        assert done.stderr.count("\n") == 1
