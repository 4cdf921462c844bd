"""The device that trains: made ready, named, and how much of its memory was held."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys

import torch

from rebench.errors import TrainingError
from rebench.train.speed import Speed

__all__ = ["device_name", "peak_memory_mib", "prepare_device"]

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def prepare_device(name: str, speed: Speed) -> torch.device:
    """Return the device; refuse one that this machine has not, in one clear line."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainingError(f"unknown device {name!r}; use cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TrainingError(f"device {name!r} needs a GPU, and this machine shows none to PyTorch")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise TrainingError(f"no device {name!r}: this machine has {torch.cuda.device_count()} GPU")
    if speed.cuda_graphs and device.type != "cuda":
        raise TrainingError(f"CUDA graphs need a GPU; the device is {name!r}")
    if speed.keep_memory and device.type == "cpu":
        _keep_freed_memory()
    return device


def device_name(device: torch.device) -> str:
    """The device's name in records, such as ``cpu (8 threads)``."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} threads)"


def peak_memory_mib(device: torch.device) -> float:
    """Return the most memory this process has held, on the GPU if that is the device."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def _keep_freed_memory() -> None:
    """Tell glibc's malloc to keep what is freed for the next step; other systems have no need."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
