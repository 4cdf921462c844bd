"""Parameters and FLOPs in closed form, as the benchmark counts them.

Every convolution counts, dead convolutions included. FLOPs are the multiply-adds of convolutions
and of the classifier. The results equal the benchmark's records to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cells.cell import Cell
from cells.errors import CellError, shown
from cells.ops import CONV_1X1, CONV_3X3

__all__ = ["Cost", "CostModel"]

_SCALES = 2 ** np.arange(3)  # of width and image side, by stage


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
        fixed = sum(weights + norms for weights, norms, _ in self._outside_cells())
        widths = self._widths
        square = int((widths**2).sum())
        linear = 2 * int(widths.sum())
        inside = (9 * square + linear) * count3 + (square + linear) * count1
        return np.asarray(fixed + self.cells_per_stage * inside)

    def flops(self, ops: ArrayLike) -> NDArray[np.int64]:
        """Return the multiply-adds of the networks of cells, given as operations [..., edges]."""
        count3, count1 = _convolutions(ops)
        fixed = sum(weights * pixels for weights, _, pixels in self._outside_cells())
        square = int(((self._widths * self._sides) ** 2).sum())
        return np.asarray(fixed + self.cells_per_stage * square * (9 * count3 + count1))

    @property
    def _widths(self) -> NDArray[np.int64]:
        return self.channels * _SCALES

    @property
    def _sides(self) -> NDArray[np.int64]:
        """Sides of the images in each stage; a reduction rounds up."""
        return -(-self.image_side // _SCALES)

    def _outside_cells(self) -> Iterator[tuple[int, int, int]]:
        """Yield (weights, gains and shifts, output pixels) of stem, reductions and classifier."""
        widths = self._widths.tolist()
        sides = self._sides.tolist()
        narrow = self.channels
        yield 3 * 9 * narrow, 2 * narrow, self.image_side**2
        for wide, side in zip(widths[1:], sides[1:], strict=True):
            convolutions = 9 * narrow * wide + 9 * wide**2
            yield convolutions + narrow * wide, 4 * wide, side**2
            narrow = wide
        yield (narrow + 1) * self.classes, 2 * narrow, 1


def _convolutions(ops: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of 3x3 and of 1x1 convolutions of each cell."""
    listed = np.asarray(ops)
    count3 = np.count_nonzero(listed == CONV_3X3, axis=-1)
    count1 = np.count_nonzero(listed == CONV_1X1, axis=-1)
    return np.asarray(count3), np.asarray(count1)
