"""From trials to records: the benchmark's protocol, resumable at any step, several at a time.

Names are looked up when they are asked for: steps and optimiser are tensors alone, and whoever
uses only those need not have what trials and records need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rebench.train.checkpoint import Checkpoint, CheckpointStore
    from rebench.train.loop import Interrupted, Sources, StackRun
    from rebench.train.optimizer import StackedSGD
    from rebench.train.protocol import rate_factor
    from rebench.train.record import EpochReport
    from rebench.train.speed import Speed
    from rebench.train.stack import Stack, build_net
    from rebench.train.stack_size import pick_stack_size
    from rebench.train.trials import train

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "EpochReport",
    "Interrupted",
    "Sources",
    "Speed",
    "Stack",
    "StackRun",
    "StackedSGD",
    "build_net",
    "pick_stack_size",
    "rate_factor",
    "train",
]

_MODULES = {
    "checkpoint": ("Checkpoint", "CheckpointStore"),
    "loop": ("Interrupted", "Sources", "StackRun"),
    "optimizer": ("StackedSGD",),
    "protocol": ("rate_factor",),
    "record": ("EpochReport",),
    "speed": ("Speed",),
    "stack": ("Stack", "build_net"),
    "stack_size": ("pick_stack_size",),
    "trials": ("train",),
}


def __getattr__(name: str) -> Any:
    """Import the module that holds a public name."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"rebench.train.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
