"""Parameters and FLOPs in closed form, as the benchmark counts them.

Every convolution counts, dead convolutions included. FLOPs are the multiply-adds of convolutions
and of the classifier. The results equal the benchmark's records to the last digit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cells.cell import Cell
from cells.errors import CellError, shown
from cells.ops import CONV_1X1, CONV_3X3

__all__ = ["Cost", "CostModel"]

_STAGES = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one network: parameters, and multiply-adds of a forward pass on one image."""

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
    """Cost of the networks of one skeleton: linear in a cell's numbers of convolutions."""

    image_side: int
    classes: int
    channels: int = 16
    cells_per_stage: int = 5

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise CellError(f"{name} must be a whole number of at least 1, got {shown(value)}")

    def of(self, cell: Cell | int | str) -> Cost:
        """Return the cost of a cell's network; `cell` is anything that `Cell.find` accepts."""
        ops = Cell.find(cell).ops
        return Cost(int(self.params(ops)), int(self.flops(ops)))

    def params(self, ops: ArrayLike) -> NDArray[np.int64]:
        """Return the parameters of the networks of cells, given as operations [..., edges]."""
        count3, count1 = _convolutions(ops)
        widths = [self.channels * 2**stage for stage in range(_STAGES)]
        square, linear = sum(width**2 for width in widths), sum(widths)
        per3 = self.cells_per_stage * (9 * square + 2 * linear)
        per1 = self.cells_per_stage * (square + 2 * linear)
        last = widths[-1]
        fixed = 3 * 9 * self.channels + 2 * self.channels + 2 * last
        fixed += last * self.classes + self.classes
        for narrow, wide in itertools.pairwise(widths):
            fixed += 9 * narrow * wide + 2 * wide + 9 * wide * wide + 2 * wide + narrow * wide
        return np.asarray(fixed + per3 * count3 + per1 * count1)

    def flops(self, ops: ArrayLike) -> NDArray[np.int64]:
        """Return the multiply-adds of the networks of cells, given as operations [..., edges]."""
        count3, count1 = _convolutions(ops)
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
        return np.asarray(fixed + per1 * (9 * count3 + count1))


def _convolutions(ops: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of 3x3 and of 1x1 convolutions of each cell."""
    listed = np.asarray(ops)
    return (listed == CONV_3X3).sum(axis=-1), (listed == CONV_1X1).sum(axis=-1)
