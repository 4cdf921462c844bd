"""From trials to records: the benchmark's protocol, resumable at any step, several at a time."""

from rebench.train.checkpoint import Checkpoint, CheckpointStore
from rebench.train.copies import Copies, build_net, stack_key
from rebench.train.loop import Interrupted, Sources, StackRun
from rebench.train.optimizer import StackedSGD
from rebench.train.protocol import rate_factor
from rebench.train.record import EpochReport
from rebench.train.speed import Speed
from rebench.train.stacking import pick_stack
from rebench.train.trials import train

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "Copies",
    "EpochReport",
    "Interrupted",
    "Sources",
    "Speed",
    "StackRun",
    "StackedSGD",
    "build_net",
    "pick_stack",
    "rate_factor",
    "stack_key",
    "train",
]
