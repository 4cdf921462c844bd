"""Where jobs would run: what there is room for, and whether it has what they need."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from typing import Final

from rebench.data import DataSpec, data_spec
from rebench.errors import ClusterError, InputError, MissingDataError, UnknownNameError
from rebench.launch import slurm
from rebench.launch.decide import Place
from rebench.launch.worker import find_device
from rebench.machine import cores
from rebench.runs import SlurmOptions, Trial

__all__ = ["CLUSTERS", "check_before_sending", "gpus_of_a_job", "look", "room", "visible_gpus"]

CLUSTERS: Final = ("slurm", "local", "debug")
"""Where jobs may run: on SLURM, in the background of this machine, in this process."""
_ANYWAY: Final = "--no-preflight sends without looking"
_IN_MB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def look(cluster: str, options: SlurmOptions) -> Place:
    """What is known of where jobs would run; raise if the cluster cannot be used from here."""
    if cluster not in CLUSTERS:
        raise UnknownNameError("cluster", cluster, CLUSTERS)
    if cluster != "slurm":
        # Types of device are SLURM's.
        return Place(cluster=cluster, at_once=room(options.of("")) if cluster == "local" else None)
    if not shutil.which("sbatch"):
        raise ClusterError(f"no SLURM on this machine: `sbatch` is not on PATH{slurm.ELSEWHERE}")
    nodes = {
        name: frozenset(
            node.name
            for node in slurm.nodes(one.partition, one.constraint, one.exclude, one.clusters or "")
            if node.up
        )
        for name, one in options.by_type.items()
    }
    return Place(cluster=cluster, largest=slurm.largest_array(), nodes=nodes)


def room(options: SlurmOptions) -> int:
    """How many jobs this machine has GPUs, or else cores, for."""
    gpus, there = gpus_of_a_job(options), len(visible_gpus())
    jobs = cores() // ((options.cpus_per_task or 1) * options.processes_per_job)
    if gpus and there >= gpus:
        jobs = there // gpus
    return max(1, min(jobs, options.array_parallelism))


def gpus_of_a_job(options: SlurmOptions) -> int:
    """How many GPUs a job of this machine is given."""
    if options.gpus_per_task is not None:
        return options.gpus
    return 1 if options.device != "cpu" and visible_gpus() else 0


def visible_gpus() -> list[int]:
    """The numbers of the GPUs that jobs of this machine may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [int(number) for number in chosen.split(",") if number.strip().isdigit()]
    try:
        return list(range(slurm.ask("nvidia-smi", "--list-gpus", limit_s=20).count("GPU ")))
    except ClusterError:
        return []


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
