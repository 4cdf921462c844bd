"""A real SLURM for the tests marked `slurm`, started once in a temporary folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from cluster import Cluster, Sweep


def _private_cluster(*options: str):
    """Return a fixture: a private SLURM that is started once with these options."""

    @pytest.fixture(scope="session")
    def started():
        # Unix sockets need a short path; the paths of pytest's own folders are too long.
        folder = Path(tempfile.mkdtemp(prefix="rebench-"))
        folder.chmod(0o755)  # other users must be able to read it
        one = Cluster(folder)
        one.script("start", *options)
        yield one
        one.script("stop")
        shutil.rmtree(folder, ignore_errors=True)

    return started


# Three nodes of four CPUs and two fake GPUs, without accounting.
cluster = _private_cluster()
# A cluster with slurmdbd, so that `sacct` answers.
accounting_cluster = _private_cluster("--accounting", "--nodes", "1")
# A cluster whose arrays have at most two tasks.
tight_cluster = _private_cluster("--max-array", "2")
# A cluster whose users see only their own jobs.
private_cluster = _private_cluster("--private", "--nodes", "1")
# A cluster that accepts five jobs of a user at a time, in arrays of at most three.
limited_cluster = _private_cluster("--max-submit", "5", "--max-array", "3", "--nodes", "1")
# A cluster that ends jobs that use more memory than they requested.
watched_cluster = _private_cluster("--over-memory-kill", "--nodes", "1")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The outcomes of an undisturbed sweep of 42 trials in one process.

    The processes of pytest-xdist share the sweep: the first one trains it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "undisturbed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep = Sweep(folder / "undisturbed")
        row = sweep.submit("--cluster", "debug")
        assert row["sent"] + row["already_done"] == sweep.size
        return sweep.outcomes()
