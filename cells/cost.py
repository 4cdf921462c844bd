"""Parameters and FLOPs in closed form, as the benchmark counts them.

Every convolution counts, dead ones included; FLOPs are multiply-adds of convolutions and the
classifier. Derived from the network's layers; equal to the benchmark's records to the last digit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cells.cell import Cell
from cells.errors import CellError
from cells.ops import CONV_1X1, CONV_3X3

__all__ = ["IMAGE_SHAPES", "Cost", "CostModel", "cost"]

# data set -> (side of its images in pixels, classes)
IMAGE_SHAPES: Final[dict[str, tuple[int, int]]] = {
    "cifar10": (32, 10),
    "cifar100": (32, 100),
    "ImageNet16-120": (16, 120),
}

_STAGES = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one network costs: parameters and multiply-adds of one image's forward pass."""

    params: int
    flops: int

    @property
    def params_m(self) -> float:
        """Millions of parameters."""
        return self.params / 1e6

    @property
    def mflops(self) -> float:
        """Millions of multiply-adds."""
        return self.flops / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cost as a linear function of the numbers of 3x3 and 1x1 convolutions in the cell."""

    image_side: int
    classes: int
    channels: int = 16
    cells_per_stage: int = 5

    @classmethod
    def for_dataset(cls, dataset: str, channels: int = 16, cells_per_stage: int = 5) -> CostModel:
        """Return the model for one of the benchmark's data sets."""
        if dataset not in IMAGE_SHAPES:
            raise CellError(f"unknown data set {dataset!r}; known: {', '.join(IMAGE_SHAPES)}")
        side, classes = IMAGE_SHAPES[dataset]
        return cls(
            image_side=side, classes=classes, channels=channels, cells_per_stage=cells_per_stage
        )

    def params(self, count3: NDArray[np.int64], count1: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the parameters of networks with that many 3x3 and 1x1 convolutions a cell."""
        widths = [self.channels * 2**stage for stage in range(_STAGES)]
        square, linear = sum(width**2 for width in widths), sum(widths)
        per3 = self.cells_per_stage * (9 * square + 2 * linear)
        per1 = self.cells_per_stage * (square + 2 * linear)
        last = widths[-1]
        fixed = 3 * 9 * self.channels + 2 * self.channels + 2 * last
        fixed += last * self.classes + self.classes
        for narrow, wide in itertools.pairwise(widths):
            fixed += 9 * narrow * wide + 2 * wide + 9 * wide * wide + 2 * wide + narrow * wide
        total: NDArray[np.int64] = fixed + per3 * count3 + per1 * count1
        return total

    def flops(self, count3: NDArray[np.int64], count1: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the multiply-adds of networks with that many 3x3 and 1x1 convolutions a cell."""
        sides = [self.image_side]
        for _ in range(_STAGES - 1):
            sides.append((sides[-1] + 1) // 2)
        widths = [self.channels * 2**stage for stage in range(_STAGES)]
        per1 = self.cells_per_stage * sum(
            (width * side) ** 2 for width, side in zip(widths, sides, strict=True)
        )
        fixed = 3 * 9 * self.channels * sides[0] ** 2 + widths[-1] * self.classes + self.classes
        for stage in range(1, _STAGES):
            narrow, wide, area = widths[stage - 1], widths[stage], sides[stage] ** 2
            fixed += (9 * narrow * wide + 9 * wide * wide + narrow * wide) * area
        total: NDArray[np.int64] = fixed + per1 * (9 * count3 + count1)
        return total


def cost(cell: Cell, dataset: str, channels: int = 16, cells_per_stage: int = 5) -> Cost:
    """Return what the network of `cell` costs on one of the benchmark's data sets."""
    model = CostModel.for_dataset(dataset, channels, cells_per_stage)
    count3 = np.array(cell.ops.count(CONV_3X3), dtype=np.int64)
    count1 = np.array(cell.ops.count(CONV_1X1), dtype=np.int64)
    return Cost(int(model.params(count3, count1)), int(model.flops(count3, count1)))
