"""Devices of this machine: its GPUs, the device of a worker and the threads of torch."""

from __future__ import annotations

import os
import subprocess

from rebench.errors import ClusterError
from rebench.runs import SlurmOptions

__all__ = ["find_device", "set_threads", "visible_gpus"]


def visible_gpus() -> list[int]:
    """Return the numbers of the GPUs that jobs of this machine may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [int(number) for number in chosen.split(",") if number.strip().isdigit()]
    ask = ["nvidia-smi", "--list-gpus"]
    try:
        listed = subprocess.run(ask, capture_output=True, check=True, timeout=20)  # noqa: S603 - constant words
    except (OSError, subprocess.SubprocessError):
        return []
    return list(range(listed.stdout.count(b"GPU ")))


def find_device(options: SlurmOptions, rank: int = 0) -> str:
    """Return the device of a process of a job; raise if torch finds no GPU but options need it."""
    import torch

    if options.device != "auto" and (torch.cuda.is_available() or options.device == "cpu"):
        return options.device
    if torch.cuda.is_available():
        # Processes of one job share its GPUs evenly.
        shared = options.processes_per_job > 1
        return f"cuda:{rank % torch.cuda.device_count()}" if shared else "cuda"
    if asked := options.gpu_setting:
        raise ClusterError(
            f"a GPU was asked for ({asked}), but torch sees none here; check the node's driver"
            " and that torch was built for CUDA, or remove this setting and set slurm.device ="
            " 'cpu'"
        )
    return "cpu" if options.device == "auto" else options.device


def set_threads(options: SlurmOptions) -> int:
    """Let torch use `cpus_per_task` threads, by default one; return the number before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(options.cpus_per_task or 1)
    return before
