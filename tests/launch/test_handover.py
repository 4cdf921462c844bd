"""A submitter that dies between sbatch and the hand-over of the work, on a real SLURM."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cluster import Sweep
from support import PROJECT

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def _submit_and_die(sweep: Sweep, folder: Path) -> Path:
    """Submit in a process that is killed right after sbatch answers; return submitit's folder."""
    folder.mkdir()
    deadly = folder / "sbatch"
    deadly.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"\nkill -9 $PPID\n')
    deadly.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    died = subprocess.run(
        sweep.command("submit", "--trials-per-job", "3"),
        env={**sweep.environment, "PATH": path},
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )
    assert died.returncode == -9
    submission = sweep.run / "submissions/0001"
    assert not list(submission.glob("sent.*")), "nobody wrote down what sbatch said"
    left = submission / "submitit"
    assert not list(left.glob("*_submitted.pkl")), "nobody gave the jobs their work"
    return left


def test_jobs_of_a_submitter_that_died_get_their_work_from_the_next(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path / "sweep", cluster, cells=1)
    left = _submit_and_die(sweep, tmp_path / "bin")
    jobs = set(sweep.jobs("PENDING,RUNNING"))
    assert len(jobs) == 2
    next_one = sweep.submit("--trials-per-job", "3")
    assert (next_one["sent"], next_one["taken_over"], next_one["held_by_live_jobs"]) == (0, 2, 6)
    assert {
        path.name.removesuffix("_submitted.pkl") for path in left.glob("*_submitted.pkl")
    } == jobs
    assert sweep.wait_until_over()["done"] == 6
    sweep.wait_until(lambda: not sweep.jobs("RUNNING,COMPLETING"), "the end of its jobs")
    assert sweep.outcomes().items() <= undisturbed.items()
    assert sweep.records() == 6


@pytest.mark.timeout(400)
def test_jobs_that_nobody_gives_their_work_end_and_their_trials_are_sent_again(
    cluster, tmp_path, undisturbed
):
    """A job waits one minute for its work, in submitit, and then fails."""
    sweep = Sweep(tmp_path / "sweep", cluster, cells=1)
    _submit_and_die(sweep, tmp_path / "bin")
    counts = sweep.wait_until_over()
    assert (counts["lost"], counts["failed"]) == (6, 0)
    assert {one["reason"].partition(" (")[0] for one in sweep.trials("lost")} == {"job failed"}
    assert sweep.submit("--trials-per-job", "3")["sent"] == 6
    assert sweep.wait_until_over()["done"] == 6
    sweep.wait_until(lambda: not sweep.jobs("RUNNING,COMPLETING"), "the end of its jobs")
    assert sweep.outcomes().items() <= undisturbed.items()
