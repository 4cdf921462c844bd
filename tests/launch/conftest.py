"""A real SLURM for the tests marked `slurm`: started once, in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from cluster import Cluster


@pytest.fixture(scope="session")
def cluster():
    """A private cluster: three nodes of four CPUs and two fake GPUs, no accounting."""
    yield from _private_cluster()


@pytest.fixture(scope="session")
def accounting_cluster():
    """A private cluster with slurmdbd, so that `sacct` answers."""
    yield from _private_cluster("--accounting", "--nodes", "1")


def _private_cluster(*options: str):
    if not shutil.which("sbatch"):
        pytest.skip("no SLURM on this machine: apt-get install slurm-wlm munge")
    # Unix sockets need a short path, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="rebench-"))
    one = Cluster(folder)
    one.script("start", *options)
    yield one
    one.script("stop")
    shutil.rmtree(folder, ignore_errors=True)
