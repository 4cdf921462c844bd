"""Before anything is sent: are the data there, has the partition the time, which nodes are bad."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from rebench.datasets import DataSpec, data_spec
from rebench.errors import ClusterError, InputError, MissingDataError
from rebench.launch.files import Tell
from rebench.launch.journal import Journal
from rebench.launch.run import Run
from rebench.launch.slurm import (
    DEFAULT_PARTITION,
    QueuedJob,
    minutes,
    nodes_for,
    partition_limits,
    queued_jobs,
)
from rebench.launch.training import find_device
from rebench.sweep import SlurmOptions, Trial

__all__ = ["bad_nodes", "check_before_sending", "left_out_nodes", "without"]

_ANYWAY: Final = "--no-preflight sends without looking"
# A node on which so many jobs in a row failed within this time takes jobs and does no work.
_IN_A_ROW: Final = 3
_AT_ONCE_MIN: Final = 1.0
_FOR_S: Final = 86_400.0
_FAILED: Final = frozenset({"FAILED", "BOOT_FAIL", "LAUNCH_FAILED"})
_ENDED: Final = _FAILED | {"COMPLETED", "CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY"}


def check_before_sending(
    groups: Iterable[tuple[Trial, ...]], options: SlurmOptions, cluster: str, root: str | None
) -> None:
    """Raise for what jobs would stumble over: no data, no GPU here, too long for the partition."""
    for name in sorted({one[0].dataset for one in groups}):
        spec = data_spec(name)
        if spec.files:
            _check_data(spec, root)
    if cluster == "slurm":
        for name, own in options.by_type.items():
            _check_time(own, f"slurm.types.{name}" if name else "slurm")
    elif options.gpus_per_task or options.cuda_graphs or options.device.startswith("cuda"):
        find_device(options)


def left_out_nodes(
    run: Run, journal: Journal, options: SlurmOptions, tell: Tell
) -> dict[str, float]:
    """Return the nodes that no job is to be sent to, and since when; they are told."""
    last, now = journal.last(), time.time()
    known = last.left_out if last else {}
    left_out = {node: since for node, since in known.items() if since > now - _FOR_S}
    for node in bad_nodes(queued_jobs(run.job_prefix)):
        left_out.setdefault(node, now)
    by_type = options.by_type.values()
    named = {node for one in by_type for node in (one.nodelist or "").split(",")}
    left_out = {node: since for node, since in left_out.items() if node not in named}
    for one in by_type if left_out else ():
        there = nodes_for(one.partition, one.constraint, one.exclude)
        if there and there <= left_out.keys():
            left_out = {node: since for node, since in left_out.items() if node not in there}
            tell(
                f"jobs are sent to {', '.join(sorted(there))} although {_IN_A_ROW} in a row failed"
                f" there at once: partition {one.partition or '(the default one)'} has no other"
                " node for them (`rebench status` names their logs)"
            )
    if left_out:
        tell(
            f"no job is sent to {', '.join(sorted(left_out))} for a day: {_IN_A_ROW} jobs in a row"
            " failed there at once (`rebench status` names their logs); slurm.nodelist overrides it"
        )
    return left_out


def without(options: SlurmOptions, nodes: Iterable[str]) -> SlurmOptions:
    """Return the options with these nodes excluded as well, for every type of device."""
    bad = sorted(nodes)
    types = {
        name: one.model_copy(update={"exclude": _and(one.exclude, bad)}) if one.exclude else one
        for name, one in options.types.items()
    }
    return options.model_copy(update={"exclude": _and(options.exclude, bad), "types": types})


def _and(exclude: str | None, nodes: list[str]) -> str | None:
    return ",".join([*([exclude] if exclude else []), *nodes]) or None


def bad_nodes(jobs: Iterable[QueuedJob]) -> list[str]:
    """Return the nodes on which the last three jobs failed at once.

    If jobs fail so on every node, and there are three or more of them, it is not the nodes.
    """
    falls: dict[str, list[bool]] = {}
    for job in sorted(jobs, key=lambda one: one.ended):
        if job.node and job.state in _ENDED:
            at_once = job.state in _FAILED and minutes(job.used) < _AT_ONCE_MIN
            falls.setdefault(job.node, []).append(at_once)
    bad = sorted(node for node, last in falls.items() if last[-_IN_A_ROW:] == [True] * _IN_A_ROW)
    return [] if len(bad) == len(falls) >= _IN_A_ROW else bad


def _check_data(spec: DataSpec, root: str | None) -> None:
    from rebench.data import data_root, is_present  # loads torch

    folder = data_root(root)
    if not is_present(spec, folder):
        raise MissingDataError(
            f"{spec.name} is not in {folder} (--data-root names another folder). To get it:"
            f" {spec.get}. If the nodes have copies of their own: {_ANYWAY}"
        )


def _check_time(options: SlurmOptions, table: str) -> None:
    try:
        limits = partition_limits()
    except ClusterError:
        return
    names = (options.partition or DEFAULT_PARTITION).split(",")
    known = [limits[name] for name in names if name in limits]
    if known and options.time_min > max(known):
        raise InputError(
            f"{table}.time_min = {options.time_min} is more than partition"
            f" {options.partition or '(the default one)'} allows: {max(known):.0f} min; {_ANYWAY}"
        )
