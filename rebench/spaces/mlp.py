"""Multi-layer perceptrons of HPOBench (Eggensperger et al., 2021): depth and width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rebench.spaces.grid import Grid

__all__ = ["SPACE", "Perceptrons"]


class Perceptrons(Grid):
    """30 networks: 1 to 3 hidden layers, all of one of ten widths."""

    name = "mlp"
    item = "network"
    values: ClassVar[Mapping[str, Sequence[object]]] = {
        "depth": (1, 2, 3),
        "width": (16, 25, 40, 64, 101, 161, 256, 406, 645, 1024),
    }


SPACE = Perceptrons()
