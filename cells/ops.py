"""Constants of the search space: five operations on six edges between four vertices."""

from __future__ import annotations

import functools
import random
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AVG_POOL",
    "CONV_1X1",
    "CONV_3X3",
    "EDGES",
    "NONE",
    "OP_NAMES",
    "SKIP",
    "SPACE_SIZE",
    "index_order",
]

OP_NAMES: Final = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
"""The operations. A cell stores the position of an operation in this tuple."""

NONE, SKIP, CONV_1X1, CONV_3X3, AVG_POOL = range(5)

EDGES: Final = ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))
"""(target, source) of every edge, in the order of architecture strings."""

SPACE_SIZE: Final = len(OP_NAMES) ** len(EDGES)
"""Number of cells: 15,625."""


@functools.cache
def index_order() -> NDArray[np.int64]:
    """Return, for every benchmark index, the position of its cell in the list before the shuffle.

    The benchmark lists the product of the operations over the six edges; the last edge varies
    fastest. It then shuffles the list with Python's ``random.Random(88)``.
    """
    order = list(range(SPACE_SIZE))
    random.Random(88).shuffle(order)  # noqa: S311 - the benchmark's own shuffle
    ranks = np.array(order, dtype=np.int64)
    ranks.setflags(write=False)
    return ranks
