"""From trials to records: the benchmark's protocol, resumable at any step, several at a time.

Names are looked up when they are asked for: steps and optimiser are tensors alone, and whoever
uses only those need not have what trials and records need.
"""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

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

load_on_demand(__name__)
