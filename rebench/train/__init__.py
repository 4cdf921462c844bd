"""From trials to records: the benchmark's protocol, resumable at any step, several at a time."""

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
