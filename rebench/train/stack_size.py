"""How many trials should share a network: measured on a few steps, then remembered."""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from rebench.errors import RebenchError
from rebench.runs import Trial, write_atomically
from rebench.train.device import Speed, device_name
from rebench.train.loop import Sources, StackRun

__all__ = ["pick_stack_size"]

_log = logging.getLogger("rebench.train")

_SIZES = (1, 2, 3, 6, 12, 24)
_TIMED_STEPS = 3
# A larger stack must be this much faster per trial to be worth its memory.
_WORTH_IT = 1.05
_FILE = "stacks.json"


def pick_stack_size(
    trials: Sequence[Trial],
    sources: Sources,
    device: torch.device,
    speed: Speed,
    folder: Path | None,
) -> int:
    """Return the stack size with the most images a second, among those that `trials` can fill.

    The choice is kept in `folder`, so that a run that is taken up stacks as it did before.
    """
    if len(trials) == 1 or trials[0].network != "rebench":
        return 1
    # As the stack key is spelt in the files of earlier versions.
    alike = trials[0].model_dump_json(exclude={"recipe", "seed"})
    key = f"{alike} {len(trials)} {device_name(device)}"
    known = _known(folder)
    if key not in known:
        known[key] = _measure(trials, sources, device, speed)
        if folder is not None:
            write_atomically(folder / _FILE, json.dumps(known).encode())
    return known[key]


def _known(folder: Path | None) -> dict[str, int]:
    try:
        content = json.loads((folder / _FILE).read_text()) if folder is not None else {}
    except (OSError, ValueError):
        return {}
    valid = isinstance(content, dict) and all(
        isinstance(size, int) and size > 0 for size in content.values()
    )
    return content if valid else {}


def _measure(trials: Sequence[Trial], sources: Sources, device: torch.device, speed: Speed) -> int:
    best, best_rate, measured = 1, 0.0, {}
    for size in [size for size in _SIZES if size <= len(trials)]:
        try:
            rate = size / _seconds_a_step(trials[:size], sources, device, speed)
        except (MemoryError, RuntimeError, RebenchError) as error:
            _log.info("stack of %s: %s", size, error)
            break
        measured[size] = rate
        if rate < best_rate * _WORTH_IT:
            break
        best, best_rate = size, rate
    shown = ", ".join(f"{size}: {rate / measured[1]:.2f}x" for size, rate in measured.items())
    _log.info("stack auto: %s trials a network (steps a second per trial, %s)", best, shown)
    return best


def _seconds_a_step(
    trials: Sequence[Trial], sources: Sources, device: torch.device, speed: Speed
) -> float:
    """Return the fastest of a few steps, after one that warms up."""
    run = StackRun(trials, sources, device, speed)
    times: list[float] = []

    def timed_enough() -> bool:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter())
        return len(times) > _TIMED_STEPS

    run.train_epoch(timed_enough, lambda: False)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return min(gaps) if gaps else 1.0
