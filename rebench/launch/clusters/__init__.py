"""Clusters: SLURM, this machine and this process, behind one interface.

A new cluster is a subclass of `Cluster`, which another package adds by an entry point.
"""

from __future__ import annotations

import functools

from rebench.errors import UnknownNameError
from rebench.extensions import announced
from rebench.launch.clusters.base import Cluster, Limits

__all__ = ["Cluster", "Limits", "cluster", "recorded"]


@functools.cache
def cluster(name: str) -> Cluster:
    """Return the cluster called `name`, as in the option ``--cluster`` and the files of a run."""
    # Only the module of the wanted cluster is loaded.
    if name == "debug":
        from rebench.launch.clusters.debug import Debug

        return Debug()
    if name == "local":
        from rebench.launch.clusters.local import Local

        return Local()
    if name == "slurm":
        from rebench.launch.clusters.slurm import Slurm

        return Slurm()
    added = {one.name: one for one in announced("clusters") if isinstance(one, Cluster)}
    if name not in added:
        raise UnknownNameError("cluster", name, ["slurm", "local", "debug", *added])
    return added[name]


def recorded(name: str) -> Cluster:
    """Return the cluster whose name is in a file of the run.

    For an unknown name, return the cluster that runs jobs as processes on a machine.
    """
    try:
        return cluster(name)
    except UnknownNameError:
        return cluster("local")
