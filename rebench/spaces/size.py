"""The size space of NATS-Bench: five numbers of channels for one fixed cell (Dong et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from cells import Cell
from rebench.spaces.base import Floats, Ints
from rebench.spaces.grid import Grid

if TYPE_CHECKING:
    from rebench.data import DataSpec

__all__ = ["CELL", "SPACE", "SizeSpace"]

CELL: Final = Cell.parse(
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)
"""The cell of all networks: five 3x3 convolutions and a skip."""

_CHANNELS: Final = tuple(range(8, 65, 8))
_BLOCKS: Final = tuple(f"block_{block}" for block in range(1, 6))
_KERNEL: Final = 9


class SizeSpace(Grid):
    """32,768 networks: the channels of five blocks, each one of 8, 16, ..., 64.

    Blocks 1, 3 and 5 are the cell. Blocks 2 and 4 halve the image, as in NAS-Bench-201. A label is
    NATS-Bench's, such as ``8:24:24:64:64``.
    """

    name = "size"
    item = "network"
    separator = ":"
    values: ClassVar[Mapping[str, Sequence[object]]] = dict.fromkeys(_BLOCKS, _CHANNELS)

    def channels(self, indices: Ints) -> Ints:
        """Return the channels of the five blocks, [networks, 5]."""
        return np.array(_CHANNELS)[self.choices(indices)]

    def graph(self, index: int) -> Cell:  # noqa: ARG002 - all networks have this cell
        """Return the cell, which all networks share."""
        return CELL

    def work(self, index: int, data: DataSpec, skeleton: tuple[int, int]) -> tuple[float, int]:
        """Return millions of multiply-adds for an image, and the number of layers."""
        _, mflops = self.cost(np.array([index]), data, skeleton)
        convolutions_of_a_cell = 5
        return float(mflops[0]), 3 * convolutions_of_a_cell + 8

    def cost(
        self,
        indices: Ints,
        data: DataSpec,
        skeleton: tuple[int, int] = (16, 5),  # noqa: ARG002 - each network has its own channels
    ) -> tuple[Floats, Floats]:
        """Return millions of parameters and of multiply-adds."""
        width = self.channels(indices)
        inputs = np.concatenate([width[:, :1], width[:, :-1]], axis=1)
        sides = np.array([data.size, -(-data.size // 2), -(-data.size // 4)])
        pixels = (sides**2)[[0, 1, 1, 2, 2]]
        is_cell = np.array([True, False, True, False, True])
        # A cell has two convolutions of its input, three inside, and a projection in place of the
        # skip if its numbers of channels differ. A halving block has one of each kind.
        projects = np.where(is_cell, inputs != width, True)
        outer = np.where(is_cell, 2, 1) * _KERNEL * inputs * width
        inner = np.where(is_cell, 3, 1) * _KERNEL * width**2
        weights = outer + inner + projects * inputs * width
        norms = 2 * width * np.where(is_cell, 5 + projects, 2)
        stem = 3 * _KERNEL * width[:, 0]
        last = width[:, -1]
        params = weights.sum(axis=1) + norms.sum(axis=1) + stem + 2 * width[:, 0]
        params += 2 * last + (last + 1) * data.classes
        flops = (weights * pixels).sum(axis=1) + stem * sides[0] ** 2 + last * data.classes
        return params / 1e6, flops / 1e6


SPACE = SizeSpace()
