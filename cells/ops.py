"""The search space's constants: five operations on the six edges of a four-vertex graph."""

from __future__ import annotations

from typing import Final

__all__ = ["AVG_POOL", "CONV_1X1", "CONV_3X3", "EDGES", "NONE", "OP_NAMES", "SKIP", "SPACE_SIZE"]

OP_NAMES: Final = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NONE, SKIP, CONV_1X1, CONV_3X3, AVG_POOL = range(5)

# (target, source) of every edge, in the order of architecture strings.
EDGES: Final = ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2))

SPACE_SIZE: Final = len(OP_NAMES) ** len(EDGES)
