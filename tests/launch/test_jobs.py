"""Ways to run jobs on a real SLURM: stacked, several processes a job, in one job, accounted."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from cluster import Sweep, has_pending, signal_all
from support import PROJECT

from rebench.cli import main
from rebench.launch.clusters.commands import state_of
from rebench.runs import FinishedTrials

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def _stacked(folder: Path, cluster=None) -> Sweep:
    sweep = Sweep(folder, cluster, cells=5)
    sweep.spec.write_text("stack = 3\n" + sweep.spec.read_text())
    return sweep


def test_stacks_killed_and_requeued_midway_end_as_undisturbed_ones(cluster, tmp_path):
    quiet = _stacked(tmp_path / "quiet")
    quiet.submit("--cluster", "debug")
    sweep = _stacked(tmp_path / "sweep", cluster)
    sweep.submit("--trials-per-job", "15")
    sweep.wait_until(lambda: len(sweep.workers()) == 2, "two workers")
    killed, requeued = sorted(sweep.jobs())
    sweep.wait_for_records(3)

    def in_a_stack() -> bool:
        return len(list(sweep.run.glob("checkpoints/*/*.ckpt"))) >= 3

    sweep.stop_workers_where(in_a_stack, "the checkpoints of a stack")
    signal_all(sweep.worker_pids(killed), signal.SIGKILL)
    cluster.ask("scontrol", "requeue", requeued)
    signal_all(sweep.workers(), signal.SIGCONT)
    assert sweep.finish("--trials-per-job", "15")["done"] == 30
    assert sweep.outcomes() == quiet.outcomes()
    records = FinishedTrials(sweep.run).refresh().records
    assert {one["cost"]["stack"] for one in records.values()} == {3}
    assert sweep.records() == 30


def test_folder_with_percent_signs_has_jobs_and_logs(cluster, tmp_path):
    sweep = Sweep(tmp_path / "100% of %j", cluster, cells=1, epochs=1)
    sent = sweep.submit("--trials-per-job", "3", "--set", "slurm.processes_per_job=2")
    assert sent["jobs"] == 2
    assert sweep.wait_until_over()["done"] == 6
    shards = {path.name for path in sweep.run.glob("results/*.jsonl")}
    assert shards
    logs = {path.name for path in sweep.run.glob("submissions/0001/logs/*")}
    assert {name.removesuffix(".log").rpartition("_")[2] for name in logs} == {"0", "1"}
    assert len(logs) == 4


def test_bytes_of_another_users_job_stop_no_command(cluster, tmp_path):
    command = ["sbatch", "--hold", "--parsable", b"--job-name=M\xfcller", "--wrap=true"]
    named = subprocess.run(command, env=cluster.environment, capture_output=True, check=True)
    sweep = Sweep(tmp_path, cluster, cells=1)
    assert sweep.submit("--set", "slurm.extra.hold=true")["sent"] == 6
    assert sweep.counts()["queued"] == 6
    assert "cancelled" in sweep.rebench("cancel").stdout
    cluster.ask("scancel", named.stdout.decode().strip())


def test_processes_of_a_job_share_its_work_and_any_of_them_requeues_it(
    cluster, tmp_path, undisturbed
):
    sweep = Sweep(tmp_path, cluster, cells=5)
    shared = ["--set", "slurm.processes_per_job=3", "--set", "slurm.gpus_per_task=1"]
    shared += ["--set", "slurm.checkpoint_min=0.00001"]
    assert sweep.submit("--trials-per-job", "30", *shared)["jobs"] == 1
    sweep.wait_until(lambda: all(sweep.workers(rank) for rank in range(3)), "three workers")
    (job,) = sweep.jobs()
    described = cluster.ask("scontrol", "show", "job", job)
    assert "TresPerNode=gres:gpu:1" in described
    assert "NumTasks=3" in described
    sweep.wait_for_records(6)
    signal_all(sweep.workers(2), signal.SIGKILL)

    def in_a_first_epoch() -> bool:
        for path in sweep.run.glob("claims/*.*"):
            kept = sorted((sweep.run / "checkpoints" / path.stem).glob("*.ckpt"))
            own = json.loads(path.read_text())["worker"].endswith("-p1")
            # Every step writes a checkpoint. The newest is of epoch 0, so epoch 1 is still to do.
            if own and kept and kept[-1].name.startswith("000000-"):
                return True
        return False

    sweep.stop_workers_where(in_a_first_epoch, "a trial of the second process", rank=1)
    # The first worker trains the trials of the dead one. The stopped one continues with the job.
    sweep.wait_for_records(29)
    sweep.wait_until(lambda: not sweep.workers(0), "the end of the first")
    assert sweep.records() == 29
    cluster.ask("scancel", "--signal=USR2", job)
    (stopped,) = sweep.workers(1)
    sweep.wait_until(lambda: has_pending(stopped, signal.SIGUSR2), "the signal to stop")
    assert sweep.jobs() == [job]
    signal_all(sweep.workers(1), signal.SIGCONT)
    assert sweep.wait_until_over()["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()
    assert sweep.records() == 30
    shards = {path.name.split("-")[-1] for path in sweep.run.glob("results/*.jsonl")}
    assert {"p0.0.jsonl", "p1.0.jsonl", "p2.0.jsonl"} <= shards
    assert len(shards) == 4, "one process of the second attempt has recorded the last trial"


def test_two_partitions_share_a_run(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=2)
    hold = ["--trials-per-job", "3", "--set", "slurm.extra.hold=true"]
    first = sweep.submit(*hold, "--trials", "6", "--set", "slurm.partition=urgent")
    assert (first["sent"], first["jobs"], first["waiting"]) == (6, 2, 0)
    second = sweep.submit(*hold, "--set", "slurm.partition=main")
    assert (second["sent"], second["held_by_live_jobs"]) == (6, 6)
    assert sorted(sweep.jobs("PENDING", field="%P")) == ["main"] * 2 + ["urgent"] * 2
    for job in sweep.jobs("PENDING"):
        cluster.ask("scontrol", "release", job)
    # An urgent job may preempt jobs of the main partition; these are submitted again.
    assert sweep.finish("--trials-per-job", "3")["done"] == 12
    assert sweep.outcomes().items() <= undisturbed.items()


def test_accounting_tells_how_jobs_ended_that_the_queue_has_forgotten(accounting_cluster, tmp_path):
    sweep = Sweep(tmp_path, accounting_cluster, cells=1, epochs=100)
    sweep.submit("--trials-per-job", "3")
    sweep.wait_until(lambda: len(sweep.workers()) == 2, "two workers")
    killed, cancelled = sorted(sweep.jobs())
    signal_all(sweep.worker_pids(killed), signal.SIGKILL)
    sweep.wait_until(lambda: sweep.jobs() == [cancelled], "the end of the killed one")
    assert "cancelled 1 jobs\n" in sweep.rebench("cancel", "--job", cancelled).stdout
    sweep.wait_until_over()
    _forget_soon(accounting_cluster)
    sweep.wait_until(lambda: not sweep.jobs("all"), "an empty memory")
    ended = {row["job"]: row["reason"] for row in sweep.trials("lost")}
    assert ended[killed].startswith("job failed (the queue has forgotten it")
    assert ended[cancelled].startswith("job cancelled (the queue has forgotten it")


def _forget_soon(cluster) -> None:
    configuration = cluster.folder / "slurm.conf"
    text = configuration.read_text()
    configuration.write_text(text.replace("MinJobAge=300", "MinJobAge=2"))
    cluster.ask("scontrol", "reconfigure")


def test_one_job_for_a_whole_sweep_goes_on_after_a_requeue(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=5)
    own = ["--partition", "main", "--mem", "500M", "--output", str(tmp_path / "log"), "--parsable"]
    assert main(["sweep", "new", "--out", str(tmp_path / "new.toml"), "--cluster-files"]) == 0
    script = [str(tmp_path / "one-job.sbatch"), str(sweep.spec), "--run", str(sweep.run)]
    job = cluster.ask("sbatch", "--chdir", str(PROJECT), *own, *script).strip()
    sweep.wait_until(lambda: sweep.records() >= 3, "3 records")
    cluster.ask("scontrol", "requeue", job)
    sweep.wait_until(lambda: _ended(cluster, job), "the end")
    assert "COMPLETED" in _ended(cluster, job), (tmp_path / "log").read_text()
    assert sweep.counts()["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()
    records = FinishedTrials(sweep.run).refresh().records
    assert {one["provenance"]["slurm_job"] for one in records.values()} == {job}


def _ended(cluster, job: str) -> str:
    state = cluster.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()
    # `state_of` also knows the states between running and pending of a requeued job.
    return "" if state_of(state).live else state
