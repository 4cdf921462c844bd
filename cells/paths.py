"""Counts of the paths from input to output by depth, without a list of the paths.

A polynomial stores the depths: coefficient k is the number of paths with k convolutions. For
parallel branches the polynomials are added; for consecutive branches they are multiplied. One
pass over the vertices gives the polynomial of a graph. The polynomial of a network is a product.
Coefficients of a cell fit int64; those of a network are Python integers, exact at any size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Polynomial", "depth_array", "moment", "multiply", "network_polynomial"]

Polynomial: TypeAlias = tuple[int, ...]

# Value at t = 8 of the polynomial of each operation, in the order of `OP_NAMES`. A convolution is
# t; a skip or pooling is 1.
_OCTAL = np.array([0, 1, 8, 8, 1], dtype=np.int64)

# Block between two stages: a path with two convolutions and a shortcut with one.
_REDUCTION = (0, 1, 1)


def depth_array(ops: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers of paths of each cell with 0, 1, 2, 3 convolutions, as [cells, 4].

    A cell has at most four paths. Its polynomial, evaluated at 8, therefore shows every coefficient
    as an octal digit. One integer for each cell replaces an array of coefficients.
    """
    into1, into2, from1to2, into3, from1to3, from2to3 = _OCTAL[ops.T]
    evaluated = into3 + from1to3 * into1 + from2to3 * (into2 + from1to2 * into1)
    return np.stack([evaluated >> 3 * depth & 7 for depth in range(4)], axis=1)


@functools.lru_cache(maxsize=4096)
def network_polynomial(cell: Polynomial, cells_per_stage: int) -> Polynomial:
    """Return the polynomial of the whole network from the polynomial of its cell.

    The network is a stem, three stages of cells, and a reduction block between stages.
    """
    factors = [(0, 1), _REDUCTION, _REDUCTION]  # the stem and the two blocks
    factors += [cell] * (3 * cells_per_stage)
    return functools.reduce(multiply, factors)


def moment(polynomial: Sequence[int], power: int, offset: int = 0) -> int:
    """Return the sum over all paths of ``(depth + offset) ** power``, exactly."""
    total = 0
    for depth, count in enumerate(polynomial, start=offset):
        if count:
            total += int(count) * depth**power
    return total


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the product of two polynomials of Python integers."""
    if not left or not right:
        return ()
    exact_left = np.array(left, dtype=object)
    exact_right = np.array(right, dtype=object)
    return tuple(np.convolve(exact_left, exact_right).tolist())
