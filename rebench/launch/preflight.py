"""Before anything is sent: are the data there, has the partition the time and the memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rebench.data import DataSpec, data_spec
from rebench.errors import ClusterError, InputError, MissingDataError
from rebench.launch import slurm
from rebench.launch.training import find_device
from rebench.runs import SlurmOptions, Trial

__all__ = ["check_before_sending"]

_ANYWAY: Final = "--no-preflight sends without looking"
_IN_MB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def check_before_sending(
    groups: Iterable[tuple[Trial, ...]], options: SlurmOptions, cluster: str, root: str | None
) -> None:
    """Raise for what jobs would stumble over: no data, no GPU here, too much for the partition."""
    for name in sorted({group[0].dataset for group in groups}):
        spec = data_spec(name)
        if spec.files:
            _check_data(spec, root)
    if cluster == "slurm":
        for name, own in options.by_type.items():
            _check_limits(own, f"slurm.types.{name}" if name else "slurm")
    elif options.gpus or options.cuda_graphs or options.device.startswith("cuda"):
        find_device(options)


def _check_data(spec: DataSpec, root: str | None) -> None:
    from rebench.data import data_root, is_present  # loads torch

    folder = data_root(root)
    if not is_present(spec, folder):
        raise MissingDataError(
            f"{spec.name} is not in {folder} (--data-root names another folder). To get it:"
            f" {spec.get}. If the nodes have copies of their own: {_ANYWAY}"
        )


def _check_limits(options: SlurmOptions, table: str) -> None:
    """Raise if no node of the partition has the time, or none the memory; unknown is enough."""
    try:
        nodes = slurm.nodes(options.partition, clusters=options.clusters or "")
    except ClusterError:
        return
    where = f"partition {options.partition or '(the default one)'}"
    longest = max((node.limit_min for node in nodes), default=float("inf"))
    if options.time_min > longest:
        raise InputError(
            f"{table}.time_min = {options.time_min} is more than {where} allows:"
            f" {longest:.0f} min; {_ANYWAY}"
        )
    largest = max((node.memory_mb for node in nodes), default=float("inf"))
    if (wanted := _memory_mb(options)) > largest:
        raise InputError(
            f"{table} asks for {wanted / 1024:.3g} GB of memory, and no node of {where} has more"
            f" than {largest / 1024:.3g}; {_ANYWAY}"
        )


def _memory_mb(options: SlurmOptions) -> float:
    """The memory that a job asks of a node."""
    if options.mem_per_cpu:
        number, unit = re.findall(r"(\d+)(\D?)", options.mem_per_cpu)[0]
        cores = (options.cpus_per_task or 1) * options.processes_per_job
        return float(number) * _IN_MB[unit] * cores
    return (options.mem_gb or 0.0) * 1024
