"""A submitter that dies right after sbatch has accepted its jobs, on a real SLURM."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cluster import Sweep
from support import PROJECT

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def _submit_and_die(sweep: Sweep, folder: Path) -> None:
    """Submit in a process that is killed right after sbatch answers."""
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


def test_jobs_of_a_submitter_that_died_have_their_work_and_are_found_by_the_next(
    cluster, tmp_path, undisturbed
):
    sweep = Sweep(tmp_path / "sweep", cluster, cells=1)
    _submit_and_die(sweep, tmp_path / "bin")
    assert len(sweep.jobs("PENDING,RUNNING")) == 2
    next_one = sweep.submit("--trials-per-job", "3")
    assert (next_one["sent"], next_one["taken_over"]) == (0, 2)
    assert sweep.wait_until_over()["done"] == 6
    sweep.wait_until(lambda: not sweep.jobs("RUNNING,COMPLETING"), "the end of its jobs")
    assert sweep.outcomes().items() <= undisturbed.items()
    assert sweep.records() == 6
