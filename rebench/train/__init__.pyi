from .checkpoint import Checkpoint, CheckpointStore
from .device import Speed
from .loop import Sources, StackRun, rate_factor, step_seconds
from .optimizer import StackedSGD
from .record import EpochReport
from .stack import Stack, build_net
from .trials import Interrupted, train
from .weights import KeptNetwork, copy_networks, kept_networks, network, save_network

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "EpochReport",
    "Interrupted",
    "KeptNetwork",
    "Sources",
    "Speed",
    "Stack",
    "StackRun",
    "StackedSGD",
    "build_net",
    "copy_networks",
    "kept_networks",
    "network",
    "rate_factor",
    "save_network",
    "step_seconds",
    "train",
]
