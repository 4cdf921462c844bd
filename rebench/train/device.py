"""The device of the training: preparation, name, peak memory and switches for speed.

The switches change the speed of a trial. They can change the rounding of its numbers, as another
type of device does.
"""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from rebench.errors import TrainingError
from rebench.machine import keep_freed_memory, processor
from rebench.runs import Trial

__all__ = [
    "Speed",
    "TrainStep",
    "device_name",
    "graphed",
    "numerics",
    "peak_memory_mib",
    "prepare_device",
    "reset_peak_memory",
]

_PROCESS: Final = Path("/proc/self")


def prepare_device(name: str, speed: Speed) -> torch.device:
    """Return the device; raise TrainingError if this machine does not have it."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainingError(f"unknown device {name!r}; use cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TrainingError(f"device {name!r} needs a GPU, but PyTorch finds none; use cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise TrainingError(f"no device {name!r}: this machine has {torch.cuda.device_count()} GPU")
    if speed.cuda_graphs and device.type != "cuda":
        raise TrainingError(f"CUDA graphs need a GPU, got device {name!r}; set cuda_graphs = false")
    if speed.keep_memory and device.type == "cpu":
        keep_freed_memory()
    return device


def device_name(device: torch.device) -> str:
    """Return the device's name for records, such as ``cpu (AMD EPYC, 8 threads)``."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({processor()}, {torch.get_num_threads()} threads)"


def reset_peak_memory(device: torch.device) -> None:
    """Start the count of `peak_memory_mib` again; on a CPU, this needs Linux's ``clear_refs``."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory since `reset_peak_memory`; see `Cost.peak_memory_mib`."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    # VmHWM is preferred to `ru_maxrss`, which a process inherits from its parent.
    with contextlib.suppress(OSError):
        if known := re.search(r"VmHWM:\s*(\d+)", (_PROCESS / "status").read_text()):
            return round(int(known[1]) / 2**10, 1)
    # The unit is a byte on macOS, and a KiB on other systems.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


# Function of images and labels that stores its results in existing tensors.
TrainStep = Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Switches for the speed of a trial; `scripts/bench/train.py` measures the gain of each.

    Attributes:
        channels_last: store images and kernels in the layout channels-last. By default, this is
            done except for xautodl's network on a GPU, where PyTorch's gradient of its average is
            wrong.
        compile: use `torch.compile`; compilation takes minutes and pays off in long runs.
        cuda_graphs: replay each step of training and evaluation as one CUDA graph.
        deterministic: let cuDNN use only algorithms that give the same bits every time.
        tf32: on a GPU that has it, let convolutions of float32 use TF32, which rounds their inputs
            to 10 bits.
        keep_memory: on the CPU, keep freed memory for the next step. Otherwise the C library
            returns memory to the system, which clears it and provides it again page by page.
        eval_batch_size: number of images in one evaluation batch.
    """

    channels_last: bool | None = None
    compile: bool = False
    cuda_graphs: bool = False
    deterministic: bool = True
    tf32: bool = True
    keep_memory: bool = True
    eval_batch_size: int = 250

    def has_channels_last(self, device: torch.device, trial: Trial) -> bool:
        """Return whether images and kernels of a trial are stored in the layout channels-last."""
        if self.channels_last is not None or device.type != "cuda":
            return self.channels_last is not False
        return trial.network == "rebench"

    def switches(self, device: torch.device, trial: Trial) -> dict[str, bool]:
        """Return the switches that can change the rounding of a trial on this device."""
        switches = {
            "channels_last": self.has_channels_last(device, trial),
            "compile": self.compile,
        }
        if device.type == "cuda":
            switches["deterministic"] = self.deterministic
            switches["tf32"] = self.tf32
            switches["cuda_graphs"] = self.cuda_graphs
        return switches


def numerics(speed: Speed) -> contextlib.AbstractContextManager[None]:
    """Make cuDNN use deterministic algorithms, or search for the fastest, within the context.

    The rounding of its float32 convolutions is also set.
    """
    return torch.backends.cudnn.flags(
        enabled=True,
        benchmark=not speed.deterministic,
        deterministic=speed.deterministic,
        allow_tf32=speed.tf32,
    )


def graphed(step: TrainStep, images: torch.Tensor, labels: torch.Tensor) -> TrainStep:
    """Return `step` as the replay of a CUDA graph, for batches of the given shape.

    CUDA graphs require three runs of `step` on a separate stream before the capture. The caller
    must restore the state that these runs change.
    """
    held_images, held_labels = images.clone(), labels.clone()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(held_images, held_labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(held_images, held_labels)

    def replay(images: torch.Tensor, labels: torch.Tensor) -> None:
        held_images.copy_(images)
        held_labels.copy_(labels)
        graph.replay()

    return replay
