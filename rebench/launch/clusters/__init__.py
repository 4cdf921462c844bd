"""Clusters: SLURM, this machine and this process, behind one interface.

A new backend is one file with a subclass of `Cluster`, and one line in `CLUSTERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rebench.errors import UnknownNameError
from rebench.launch.clusters.base import Array, Cluster, JobView, Limits
from rebench.launch.clusters.debug import Debug
from rebench.launch.clusters.local import Local
from rebench.launch.clusters.slurm import Slurm

__all__ = ["CLUSTERS", "Array", "Cluster", "JobView", "Limits", "cluster", "recorded"]

CLUSTERS: Final[Mapping[str, Cluster]] = {one.name: one for one in (Slurm(), Local(), Debug())}
"""Cluster by name; the option ``--cluster`` and the files of a run use the same names."""


def cluster(name: str) -> Cluster:
    """Return the cluster called `name`."""
    if name not in CLUSTERS:
        raise UnknownNameError("cluster", name, CLUSTERS)
    return CLUSTERS[name]


def recorded(name: str) -> Cluster:
    """Return the cluster whose name is in a file of the run.

    For an unknown name, return `Local`, the cluster that runs jobs as processes on a machine.
    """
    return CLUSTERS.get(name, CLUSTERS[Local.name])
