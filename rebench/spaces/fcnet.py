"""Fully connected networks of HPOLib: two hidden layers (Klein and Hutter, 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rebench.spaces.grid import Grid

__all__ = ["SPACE", "FullyConnected"]


class FullyConnected(Grid):
    """1,296 networks: activation, dropout and units of both hidden layers."""

    name = "fcnet"
    item = "network"
    values: ClassVar[Mapping[str, Sequence[object]]] = {
        "activation_1": ("relu", "tanh"),
        "activation_2": ("relu", "tanh"),
        "dropout_1": (0.0, 0.3, 0.6),
        "dropout_2": (0.0, 0.3, 0.6),
        "units_1": (16, 32, 64, 128, 256, 512),
        "units_2": (16, 32, 64, 128, 256, 512),
    }


SPACE = FullyConnected()
