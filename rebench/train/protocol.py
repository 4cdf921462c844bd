"""The learning-rate schedule of a trial's protocol, as the benchmark steps it: once an epoch."""

from __future__ import annotations

import math

from rebench.sweep import Protocol

__all__ = ["rate_factor"]


def rate_factor(protocol: Protocol, epochs: int, epoch: int) -> float:
    """Return the factor on the learning rate in `epoch`, counted from 0.

    Cosine: 1 in the first epoch, and 0 would follow the last. A warm-up of w epochs climbs in
    equal steps, 1/(w+1) to w/(w+1), and the schedule runs over the epochs that are left.
    """
    warm_up = protocol.warmup_epochs
    if epoch < warm_up:
        return (epoch + 1) / (warm_up + 1)
    if protocol.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (epoch - warm_up) / (epochs - warm_up))) / 2
