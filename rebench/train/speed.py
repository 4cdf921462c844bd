"""The switches that change how fast a trial runs, and not what it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

__all__ = ["Speed", "Step", "graphed", "numerics"]

# What takes images and labels, and leaves what it finds in tensors of its own.
Step = Callable[[torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How a trial is run. Why each default is what it is: `scripts/bench/train.py` measures it.

    Attributes:
        channels_last: lay images and kernels out with the channels innermost.
        compile: `torch.compile` the network; minutes of compiling, worth it for long runs.
        cuda_graphs: replay each step of training and of evaluation as one CUDA graph.
        deterministic: let cuDNN use only algorithms that give the same bits every time.
        keep_memory: on the CPU, keep freed memory for the next step. The C library otherwise
            returns it to the system, which zeroes it and hands it out again page by page.
        eval_batch_size: images in one batch of an evaluation.
    """

    channels_last: bool = True
    compile: bool = False
    cuda_graphs: bool = False
    deterministic: bool = True
    keep_memory: bool = True
    eval_batch_size: int = 500


@contextlib.contextmanager
def numerics(speed: Speed) -> Iterator[None]:
    """Hold cuDNN to deterministic algorithms, or let it search for the fastest, inside."""
    with torch.backends.cudnn.flags(
        enabled=True,
        benchmark=not speed.deterministic,
        deterministic=speed.deterministic,
        allow_tf32=True,
    ):
        yield


def graphed(step: Step, images: torch.Tensor, labels: torch.Tensor) -> Step:
    """Return `step` as the replay of a CUDA graph, for batches of the shape of these.

    Capturing runs `step` on its own stream three times first, as CUDA graphs require; the caller
    restores whatever state these runs changed.
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
