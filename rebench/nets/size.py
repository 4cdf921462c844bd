"""Networks of NATS-Bench's size space; their state dict has the keys of the benchmark's code."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from cells import Graph
from rebench.errors import InputError
from rebench.nets.layers import LayeredNet
from rebench.nets.tiny import CellBlock, ReductionBlock, TinyNet
from rebench.spaces.size import CELL, SPACE

__all__ = ["SizeNet"]


class SizeNet(TinyNet):
    """Network with the channels of an item of the space `size`.

    `channels` and `cells_per_stage` are those of NAS-Bench-201's networks; the size space has its
    own, so they must have their defaults.
    """

    def __init__(
        self, item: Any, *, channels: int = 16, cells_per_stage: int = 5, classes: int = 10
    ) -> None:
        if (channels, cells_per_stage) != (16, 5):
            raise InputError(
                f"the networks of the space size have their own channels: leave skeleton out, got "
                f"channels = {channels}, cells_per_stage = {cells_per_stage}"
            )
        LayeredNet.__init__(self)
        self.cell = CELL
        self.widths = SPACE.channels(np.array([item.index]))[0].tolist()
        first, *_, last = self.widths
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 3, padding=1, bias=False), nn.BatchNorm2d(first)
        )
        self.cells = nn.ModuleList()
        before = first
        for number, width in enumerate(self.widths):
            if number % 2:
                self.cells.append(ReductionBlock(before, width))
            else:
                self.cells.append(CellBlock(CELL, width, before))
            before = width
        self.lastact = nn.Sequential(nn.BatchNorm2d(last), nn.ReLU(inplace=True))
        self.classifier = nn.Linear(last, classes)

    def extra_repr(self) -> str:
        """Return the channels for `repr`."""
        return f"channels={':'.join(map(str, self.widths))}"

    def sibling(self, graph: Graph) -> TinyNet:
        """Refuse another graph: all networks of the space have the same cell."""
        raise InputError(f"a network of the space size has a fixed cell, got the graph {graph}")
