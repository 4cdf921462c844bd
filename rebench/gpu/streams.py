"""Networks of different cells in one process, each in a CUDA stream: do they fill a GPU better?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import torch

from rebench.gpu.correctness import Row
from rebench.gpu.runs import Run, Setup
from rebench.gpu.traffic import synchronise
from rebench.train.speed import numerics

__all__ = ["side_by_side"]

# The clock is read, and the device waited for, after so many rounds.
_ROUNDS_TOGETHER = 5


def side_by_side(
    setup: Setup, cells: Sequence[int], device: torch.device, seconds: float
) -> list[Row]:
    """Return the images a second of the first cells, one after the other and all at once.

    Each way trains for `seconds`; networks take turns, a step each.
    """
    rows: list[Row] = []
    with numerics(setup.speed):
        for count in sorted({1, 2, len(cells)}):
            runs = [Run(setup.but(cell=cell), device) for cell in cells[:count]]
            for streams in sorted({1, count}):
                rate = _rate(runs, device, seconds, apart=streams > 1)
                names = " ".join(map(str, cells[:count]))
                rows.append({"cells": names, "streams": streams, "images_per_s": round(rate, 1)})
    return rows


def _rate(runs: Sequence[Run], device: torch.device, seconds: float, *, apart: bool) -> float:
    """Train the runs for a while; return images a second of all together."""
    places = [_stream(device) if apart else contextlib.nullcontext() for _ in runs]

    def round_of_steps() -> None:
        for run, place in zip(runs, places, strict=True):
            with place:
                run.step()

    synchronise(device)
    # A graph is captured alone on the device.
    for run, place in zip(runs, places, strict=True):
        with place:
            run.step()
        synchronise(device)
    rounds, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(_ROUNDS_TOGETHER):
            round_of_steps()
        synchronise(device)
        rounds += _ROUNDS_TOGETHER
    spent = time.perf_counter() - began
    images = sum(run.setup.stack * run.setup.batch_size for run in runs)
    return rounds * images / spent


def _stream(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Return what makes a new stream the current one; a processor has none."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]  # torch
