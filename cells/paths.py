"""Paths from input to output, counted by depth without listing them.

The depths of all paths are kept as a polynomial: coefficient k is the number of paths with k
convolutions. Parallel branches add, consecutive ones multiply, so a graph's polynomial follows
from one pass over its vertices and a network's is a product. Coefficients of one cell fit int64;
a network's are Python integers, exact at any size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Polynomial", "depth_array", "moment", "multiply", "network_polynomial"]

Polynomial: TypeAlias = tuple[int, ...]

# What an edge does to a polynomial evaluated at 8: none, skip, the two convolutions, pooling.
_OCTAL = np.array([0, 1, 8, 8, 1], dtype=np.int64)

# Between two stages: two convolutions beside a shortcut with one.
_REDUCTION = (0, 1, 1)


def depth_array(ops: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return, as [cells, 4], how many paths of each cell hold 0, 1, 2, 3 convolutions.

    A cell has at most four paths, so its polynomial, evaluated at 8, still shows every coefficient
    as an octal digit: one integer per cell goes through the graph instead of an array.
    """
    into1, into2, from1to2, into3, from1to3, from2to3 = _OCTAL[ops.T]
    evaluated = into3 + from1to3 * into1 + from2to3 * (into2 + from1to2 * into1)
    return np.stack([evaluated >> 3 * depth & 7 for depth in range(4)], axis=1)


@functools.lru_cache(maxsize=4096)
def network_polynomial(cell: Polynomial, cells_per_stage: int = 5) -> Polynomial:
    """Return the polynomial of the whole network from that of its cell.

    Stem, three stages of cells, and a reduction block between stages.
    """
    outside = multiply((0, 1), _power(_REDUCTION, 2))
    return multiply(outside, _power(cell, 3 * cells_per_stage))


def moment(polynomial: Sequence[int], power: int, offset: int = 0) -> int:
    """Return the sum over all paths of ``(depth + offset) ** power``, exactly."""
    return sum(
        int(count) * (depth + offset) ** power for depth, count in enumerate(polynomial) if count
    )


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product of two polynomials of Python integers."""
    if not left or not right:
        return ()
    product = np.convolve(np.array(left, dtype=object), np.array(right, dtype=object))
    return tuple(product.tolist())


def _power(polynomial: Polynomial, exponent: int) -> Polynomial:
    return functools.reduce(multiply, [polynomial] * exponent, (1,))
