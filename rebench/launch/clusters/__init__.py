"""Clusters: SLURM, this machine and this process, behind one interface.

A new cluster is a subclass of `Cluster`, which another package adds by an entry point.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rebench.errors import UnknownNameError
from rebench.extensions import announced
from rebench.launch.clusters.base import Cluster, Limits
from rebench.launch.clusters.debug import Debug
from rebench.launch.clusters.local import Local
from rebench.launch.clusters.slurm import Slurm

__all__ = ["Cluster", "Limits", "cluster", "clusters", "recorded"]


@functools.cache
def clusters() -> Mapping[str, Cluster]:
    """Return all clusters by name; the option ``--cluster`` and run folders use these names."""
    known: dict[str, Cluster] = {}
    for one in (Slurm(), Local(), Debug(), *announced("clusters")):
        if isinstance(one, Cluster):
            known.setdefault(one.name, one)
    return known


def cluster(name: str) -> Cluster:
    """Return the cluster called `name`."""
    known = clusters()
    if name not in known:
        raise UnknownNameError("cluster", name, known)
    return known[name]


def recorded(name: str) -> Cluster:
    """Return the cluster whose name is in a file of the run.

    For an unknown name, return `Local`, the cluster that runs jobs as processes on a machine.
    """
    known = clusters()
    return known.get(name, known[Local.name])
