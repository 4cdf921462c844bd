"""Faults of a sweep on a real SLURM.

After every fault the sweep is finished with only documented commands. Then each of its trials must
have exactly one record, and the records must equal those of an undisturbed run in
one process, to the last bit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster import Sweep, broken_init, has_pending, signal_all
from support import small_disk

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("faults")]


@pytest.fixture(autouse=True)
def _nothing_left_in_the_queue(request):
    yield
    if "cluster" in request.fixturenames:
        cluster = request.getfixturevalue("cluster")
        cluster.ask("scancel", "--full", "--user", str(os.getuid()), check=False)
        # SLURM drains a node on which it finds a step of a killed job.
        cluster.heal()


def _attempts(sweep: Sweep) -> set[int]:
    return {
        json.loads(line)["provenance"]["attempt"]
        for shard in sweep.run.glob("results/*.jsonl")
        for line in shard.read_text().splitlines()
    }


def test_nothing_happens(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=2)
    assert sweep.submit("--trials-per-job", "4")["jobs"] == 3
    held = sweep.submit()
    assert (held["sent"], held["held_by_live_jobs"] + held["already_done"]) == (0, 12)
    assert sweep.wait_until_over()["done"] == 12
    assert sweep.outcomes().items() <= undisturbed.items()
    assert sweep.submit()["already_done"] == 12
    assert not list(sweep.run.glob("checkpoints/*"))
    assert not list(sweep.run.glob("claims/*"))


def test_time_limit_is_reached_several_times_mid_trial(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=5)
    # SLURM looks every half minute, and can warn that much earlier. With a limit of one minute the
    # warning could come before the worker listens.
    sweep.submit(
        "--trials-per-job", "30", "--set", "slurm.time_min=2", "--set", "slurm.signal_delay_s=60"
    )
    for attempt in range(2):
        sweep.wait_for_records(3 * (attempt + 1))
        sweep.wait_until(lambda: sweep.workers() != [], "a worker")
        worker = sweep.workers()[0]
        # Stop the worker within a trial until SLURM's warning has come: even a fast machine does
        # not finish the trial before.
        os.kill(worker, signal.SIGSTOP)
        sweep.wait_until(lambda pid=worker: has_pending(pid, signal.SIGUSR2), "the warning")
        # If the warning came before the worker was stopped, the worker has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
        sweep.wait_until(lambda pid=worker: not Path(f"/proc/{pid}/mem").exists(), "the end")
    # On a slow machine an attempt of a minute does little more than start.
    sweep.wait_until(lambda: sweep.workers() != [], "a third attempt")
    cluster.ask("scontrol", "update", f"JobId={sweep.jobs()[0]}", "TimeLimit=30")
    counts = sweep.wait_until_over()
    assert counts["done"] == 30
    assert max(_attempts(sweep)) >= 2
    assert sweep.outcomes().items() <= undisturbed.items()


def test_requeue_limit_leaves_the_rest_pending_and_a_new_submission_takes_just_that(
    cluster, tmp_path, undisturbed
):
    sweep = Sweep(tmp_path, cluster, cells=5)
    sweep.submit("--trials-per-job", "30", "--set", "slurm.max_requeues=0")
    sweep.wait_for_records(3)
    cluster.ask("scancel", "--signal=USR2", *sweep.jobs())
    counts = sweep.wait_until_over()
    assert counts["lost"] == 30 - counts["done"] > 0
    assert "the job reached its time limit too many times" in sweep.trials("lost")[0]["reason"]
    assert sweep.submit("--trials-per-job", "15")["sent"] == counts["lost"]
    assert sweep.wait_until_over()["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()


def test_requeue_kill_and_cancel_of_single_tasks(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster)
    sweep.submit("--trials-per-job", "14")
    sweep.wait_until(lambda: len(sweep.jobs()) == 3, "3 running jobs")
    requeued, killed, cancelled = sorted(sweep.jobs())
    sweep.wait_for_records(3)
    cluster.ask("scontrol", "requeue", requeued)
    sweep.wait_until(lambda: sweep.worker_pids(killed) != [], "a worker to kill")
    for pid in sweep.worker_pids(killed):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    cluster.ask("scancel", cancelled)
    counts = sweep.wait_until_over()
    # The requeued job started again by itself. Unfinished trials of the other two jobs are lost.
    assert counts["lost"] == 42 - counts["done"] > 0
    reasons = {row["job"]: row["reason"] for row in sweep.trials("lost")}
    assert reasons.keys() <= {killed, cancelled}
    assert "cancelled" in reasons.get(cancelled, "cancelled")
    assert "failed" in reasons.get(killed, "failed")
    assert sweep.submit("--trials-per-job", "14")["sent"] == counts["lost"]
    assert sweep.wait_until_over()["done"] == 42
    assert 1 in _attempts(sweep)
    assert sweep.outcomes() == undisturbed


@pytest.mark.parametrize("grace_s", [0, 20], ids=["no grace", "grace"])
def test_preemption_by_a_higher_partition(cluster, tmp_path, undisturbed, grace_s):
    sweep = Sweep(tmp_path, cluster)
    cluster.ask("scontrol", "update", "PartitionName=main", f"GraceTime={grace_s}")
    try:
        sweep.submit("--trials-per-job", "21")
        sweep.wait_for_records(4)
        everything = ["-N3", "--exclusive", "--wrap", "sleep 1", "-o", "/dev/null"]
        cluster.ask("sbatch", "-p", "urgent", *everything)
        assert sweep.wait_until_over()["done"] == 42
    finally:
        cluster.ask("scontrol", "update", "PartitionName=main", "GraceTime=0")
    assert 1 in _attempts(sweep)
    assert sweep.outcomes() == undisturbed


def test_array_cancelled_checkpoints_cut_and_controller_restarted(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster)
    # Checkpoint after every batch: on a fast machine an epoch is shorter than the usual interval.
    sweep.submit("--trials-per-job", "21", "--set", "slurm.checkpoint_min=0.0001")
    sweep.wait_for_records(4)
    # Stop the workers early in a trial, so that most of it is still to do.
    sweep.stop_workers_where(
        lambda: any(sweep.run.glob("checkpoints/*/000000-*.ckpt")),
        "a worker within the first epoch of a trial",
    )
    assert "cancelled 2 jobs" in sweep.rebench("cancel").stdout
    counts = sweep.wait_until_over()
    assert counts["lost"] == 42 - counts["done"] > 0
    cut = [path for path in sweep.run.glob("checkpoints/*/*") if path.is_file()]
    assert cut, "a cancelled worker has checkpointed"
    for path in cut:
        os.truncate(path, path.stat().st_size // 2)
    again = sweep.submit("--trials-per-job", "14")
    assert again["sent"] == counts["lost"]
    sweep.wait_until(lambda: len(sweep.workers()) == again["jobs"], "its workers")
    workers = sweep.workers()
    signal_all(workers, signal.SIGSTOP)
    _wait_until_saved(sweep, cluster)
    cluster.script("kill", "slurmctld")
    during = sweep.rebench("status", "--json")
    assert "queue does not answer" in during.stderr
    assert json.loads(during.stdout)[0]["lost"] == 0
    signal_all(workers, signal.SIGCONT)
    cluster.script("run", "slurmctld")
    assert sweep.finish("--trials-per-job", "14")["done"] == 42
    assert sweep.outcomes() == undisturbed


def _wait_until_saved(sweep: Sweep, cluster, state: str = "RUNNING") -> None:
    """Wait until the controller has saved the jobs in this state; this can take 5 s."""
    for number, job in enumerate(sweep.jobs(state)):
        mark = f"saved-{time.monotonic_ns()}-{number}"
        cluster.ask("scontrol", "update", f"JobId={job}", f"Comment={mark}")
        saved = cluster.folder / "state" / "job_state"
        sweep.wait_until(lambda m=mark, s=saved: m.encode() in s.read_bytes(), "a saved state")


def test_controller_killed_before_it_saved_holds_its_jobs_until_they_are_released(
    cluster, tmp_path, undisturbed
):
    """The controller restarts from an old file, in which the jobs still wait.

    It starts the jobs again, finds the first copies on the nodes, and holds the jobs.
    """
    sweep = Sweep(tmp_path, cluster, cells=5)
    cluster.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
    sweep.submit("--trials-per-job", "15")
    _wait_until_saved(sweep, cluster, "PENDING")
    state = cluster.folder / "state" / "job_state"
    old = state.read_bytes()
    cluster.ask("scontrol", "update", "PartitionName=main", "State=UP")
    sweep.wait_until(lambda: len(sweep.workers()) == 2, "the workers")
    signal_all(workers := sweep.workers(), signal.SIGSTOP)
    cluster.script("kill", "slurmctld")
    state.write_bytes(old)
    cluster.script("run", "slurmctld")
    held = "pending: launch failed requeued held"
    sweep.wait_until(lambda: {one["reason"] for one in sweep.trials("queued")} == {held}, held)
    assert "Duplicate jobid" in cluster.ask("sinfo", "-h", "-R", "-o", "%E")
    # The first copies record their trials; the second ones do not train these again.
    signal_all(workers, signal.SIGCONT)
    assert sweep.submit()["sent"] == 0
    cluster.heal()
    assert sweep.finish()["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()


def test_slurmd_killed_and_node_down_while_the_old_worker_lives_on(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster)
    sweep.submit("--trials-per-job", "42", "--set", "slurm.nodelist=n1")
    sweep.wait_for_records(3)
    job = sweep.jobs()[0]
    cluster.script("kill", "n1")
    cluster.ask("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
    cluster.ask("scontrol", "update", f"JobId={job}", "ReqNodeList=n2")
    cluster.script("run", "n1")
    cluster.heal()  # if the node is still drained
    assert sweep.wait_until_over()["done"] == 42
    assert sweep.outcomes() == undisturbed


def test_submitter_killed_at_any_moment_and_two_at_once(tight_cluster, tmp_path, undisturbed):
    """Arrays have at most two tasks here, so a submission calls `sbatch` several times."""
    sweep = Sweep(tmp_path, tight_cluster, cells=5)
    for moment in (0.0, 0.15):
        command = sweep.command("submit", "--trials-per-job", "10")
        submitter = subprocess.Popen(command, env=sweep.environment, start_new_session=True)
        intents = len(list(sweep.run.glob("submissions/*/intent.json")))
        journal = sweep.run / "submissions"
        sweep.wait_until(
            lambda n=intents, j=journal: len(list(j.glob("*/intent.json"))) > n, "an intent"
        )
        time.sleep(moment)
        os.killpg(submitter.pid, signal.SIGKILL)
        submitter.wait()
    both = [
        subprocess.Popen(
            sweep.command("submit", "--trials-per-job", "10", "--json"),
            env=sweep.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    sent = sorted(json.loads(out)[0]["sent"] for out, _ in said)
    assert sent[0] == 0, "what one had sent, the other sent again"
    # A job that starts before it has received its work ends at once; its trials are sent again.
    assert sweep.finish("--trials-per-job", "10")["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()
    # No trial has two records, not even two equal ones.
    assert sweep.records() == 30


def test_full_disk_while_appending_and_checkpointing(cluster, tmp_path, undisturbed):
    with small_disk(tmp_path / "disk", "size=6m") as disk:
        sweep = Sweep(disk / "sweep", cluster)
        sweep.submit("--trials-per-job", "42")
        sweep.wait_for_records(3)
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        log = next(sweep.run.glob("submissions/0001/logs/*.log"))
        time.sleep(3)
        ballast.unlink()
        counts = sweep.wait_until_over()
        if counts["lost"]:
            assert "No space left" in sweep.trials("lost")[0]["reason"], log.read_text()
            assert sweep.submit("--trials-per-job", "42")["sent"] == counts["lost"]
            counts = sweep.wait_until_over()
        assert counts["done"] == 42
        assert sweep.outcomes() == undisturbed


def test_trials_that_raise_or_diverge_do_not_end_the_others(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=5)
    text = sweep.spec.read_text()
    wild = '{ name = "fixed", parameters = { lr = 1e30 } }, "nb201"'
    sweep.spec.write_text(text.replace('"nb201"', wild))
    broken = ["--set", f"slurm.setup=['{broken_init(tmp_path / 'broken')}']"]
    assert sweep.submit("--trials-per-job", "20", *broken)["sent"] == 40
    counts = sweep.wait_until_over()
    assert (counts["done"], counts["diverged"], counts["failed"]) == (20, 10, 10)
    failed = sweep.trials("failed")[0]
    assert failed["reason"].startswith("ValueError: no such init (on n")
    assert "topology" in sweep.rebench("logs", failed["trial"]).stdout
    # Failures are not sent again until asked for.
    again = sweep.submit(*broken)
    assert (again["sent"], again["failed_before"]) == (0, 10)
    sweep.size = 30
    outcomes = sweep.outcomes()
    as_before = {key: one for key, one in outcomes.items() if one["status"] == "done"}
    assert len(as_before) == 20
    assert as_before.items() <= undisturbed.items()


def test_trial_that_runs_out_of_memory_is_a_failure_that_says_so(cluster, tmp_path):
    sweep = Sweep(tmp_path, cluster, cells=1, epochs=1)
    text = sweep.spec.read_text().replace("channels = 4", "channels = 1024")
    recipes = text.splitlines()[2]
    sweep.spec.write_text(text.replace(recipes, 'recipes = ["nb201"]').replace("777, ", ""))
    assert sweep.submit("--set", "slurm.setup=['ulimit -v 2000000']")["sent"] == 1
    counts = sweep.wait_until_over()
    assert counts["failed"] == 1, sweep.trials("lost")
    assert sweep.trials("failed")[0]["reason"].startswith("out of memory: ")


def test_after_slurm_ends_a_job_for_its_memory_submit_says_what_to_set(watched_cluster, tmp_path):
    """SLURM's state of such a job is FAILED; only the job's log gives the reason."""
    sweep = Sweep(tmp_path, watched_cluster, cells=1, epochs=10)
    sweep.submit("--trials-per-job", "6")
    sweep.wait_for_records(1)
    (worker,) = sweep.workers()
    peak_kb = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{worker}/status").read_text())[1]
    sweep.rebench("cancel")
    sweep.wait_until_over()
    too_little = float(peak_kb) / 1.25 / 2**20
    sweep.spec.write_text(sweep.spec.read_text().replace("mem_gb = 0.5", f"mem_gb = {too_little}"))
    assert sweep.submit("--trials-per-job", "6")["sent"] > 0
    assert sweep.wait_until_over()["lost"] > 0
    (reason,) = {one["reason"] for one in sweep.trials("lost")}
    assert reason.startswith("job out_of_memory (NonZeroExitCode")
    rehearsed = sweep.rebench("submit", "--dry-run").stderr
    assert "1 jobs ran out of memory, and these jobs get the same memory (mem_gb = " in rehearsed
    again = sweep.rebench("submit", "--trials-per-job", "6", "--set", "slurm.mem_gb=0.5")
    assert "memory" not in again.stderr
    (job,) = sweep.jobs("PENDING,RUNNING")
    assert "mem=512M" in watched_cluster.ask("scontrol", "show", "job", job)
    assert sweep.wait_until_over()["done"] == 6


def test_status_without_accounting_needs_files_and_the_queue_alone(cluster, tmp_path):
    """This cluster has no accounting: `sacct` gives nothing, and nothing depends on it."""
    accounts = subprocess.run(
        ["sacct"], env=cluster.environment, capture_output=True, text=True, check=False
    )
    assert "accounting storage is disabled" in accounts.stderr
    sweep = Sweep(tmp_path, cluster, cells=1)
    short = ["--set", "slurm.partition=short", "--set", "slurm.time_min=3"]
    refused = sweep.rebench("submit", *short, code=2)
    assert "slurm.time_min = 3 is more than partition short allows: 1 min" in refused.stderr
    sweep.submit("--set", "slurm.nodelist=n1", *short, "--no-preflight")
    # SLURM's first reason is only that the partition does not fit; later it names the time limit.
    in_vain = "queued trials with this reason do not start without a change"
    assert in_vain in sweep.rebench("status").stdout
    waiting = sweep.trials("queued")
    assert len(waiting) == 6
    words = {"pending: PartitionConfig", "pending: PartitionTimeLimit"}
    assert {one["reason"] for one in waiting} <= words
    limit = "pending: PartitionTimeLimit"
    sweep.wait_until(lambda: {one["reason"] for one in sweep.trials("queued")} == {limit}, limit)
    told = sweep.rebench("status").stdout
    assert f"\n6 queued: {limit}\n" in told
    assert in_vain in told
    sweep.rebench("cancel")
    assert sweep.wait_until_over()["lost"] == 6
    assert "cancelled" in sweep.trials("lost")[0]["reason"]


def test_refusals_are_one_clear_line_each(cluster, tmp_path):
    sweep = Sweep(tmp_path, cluster, cells=1)
    wrong = sweep.rebench("submit", "--set", "slurm.partition=nowhere", code=1)
    assert "invalid partition specified: nowhere" in wrong.stderr.lower() or (
        "Invalid partition name specified" in wrong.stderr
    )
    assert "It is unknown whether the cluster accepted this job: remove the cause" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    # The refused submission does not hinder a later one.
    assert sweep.submit()["sent"] == 6
    sweep.rebench("cancel")


def test_no_slurm_on_the_machine_is_one_clear_line(tmp_path):
    sweep = Sweep(tmp_path, cells=1)
    python = tmp_path / "bin"
    python.mkdir()
    git = shutil.which("git")
    (python / "git").symlink_to(git)
    sweep.environment = {**os.environ, "PATH": str(python)}
    done = sweep.rebench("submit", code=1)
    assert "no SLURM on this machine" in done.stderr
    assert done.stderr.count("\n") == 1
