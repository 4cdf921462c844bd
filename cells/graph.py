"""Which edges matter: liveness and in-degrees, for one cell or for many at once.

An edge is *live* if it lies on some path from vertex 0 to vertex 3; an edge that is not `none`
can still be dead. Functions named after an array work on operations as an int array [cells, 6];
the others take one cell.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells.cell import Cell
from cells.ops import EDGES, NONE

__all__ = [
    "Convention",
    "edge_degree_array",
    "edge_degrees",
    "in_degree_array",
    "in_degrees",
    "live_edge_mask",
    "live_edges",
    "live_vertices",
    "source_degrees",
]

Convention: TypeAlias = Literal["source", "target"]

_SOURCES = np.array([source for _, source in EDGES])
# [6, 3]: 1 where an edge leads into vertex 1, 2 or 3.
_INTO = np.array(
    [[target == vertex for vertex in (1, 2, 3)] for target, _ in EDGES], dtype=np.int64
)
_TARGETS = np.array([target for target, _ in EDGES])


def live_edge_mask(ops: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return, as [cells, 6], which edges lie on a path from vertex 0 to vertex 3."""
    on10, on20, on21, on30, on31, on32 = (ops != NONE).T
    reached2 = on20 | (on21 & on10)
    leads1 = on31 | (on21 & on32)
    live = [on10 & leads1, on20 & on32, on21 & on10 & on32, on30, on31 & on10, on32 & reached2]
    return np.stack(live, axis=1)


def in_degree_array(ops: NDArray[np.integer], *, live: bool = False) -> NDArray[np.int64]:
    """Return, as [cells, 3], the number of edges into vertices 1, 2, 3: not `none`, or live."""
    counted = (live_edge_mask(ops) if live else ops != NONE).astype(np.int64)
    return counted @ _INTO


def edge_degree_array(
    ops: NDArray[np.integer], convention: Convention, *, live: bool = False
) -> NDArray[np.int64]:
    """Return, as [cells, 6], the in-degree that each edge's init divides by.

    `source` takes the in-degree of the edge's source vertex, 1 for vertex 0 (Chen et al.,
    equation 4 and released code); `target` that of its target vertex (their appendix).
    """
    inner = in_degree_array(ops, live=live)
    degrees = np.concatenate([np.ones_like(inner[:, :1]), inner], axis=1)
    return degrees[:, _SOURCES if convention == "source" else _TARGETS]


def live_edges(cell: Cell) -> tuple[bool, ...]:
    """Return for each edge whether it lies on a path from vertex 0 to vertex 3."""
    return tuple(live_edge_mask(_row(cell))[0].tolist())


def live_vertices(cell: Cell) -> tuple[int, ...]:
    """Return the vertices on paths from vertex 0 to vertex 3, ascending; none without a path."""
    touched = {
        vertex
        for edge, live in zip(EDGES, live_edges(cell), strict=True)
        for vertex in edge
        if live
    }
    return tuple(sorted(touched))


def in_degrees(cell: Cell, *, live: bool = False) -> tuple[int, int, int]:
    """Return the number of edges into vertices 1, 2, 3 that are not `none`, or that are live."""
    first, second, third = in_degree_array(_row(cell), live=live)[0].tolist()
    return first, second, third


def source_degrees(cell: Cell, *, live: bool = False) -> tuple[int, int, int, int, int]:
    """Return the released code's list: 1 for the input, vertices 1 to 3, 1 for what follows."""
    return (1, *in_degrees(cell, live=live), 1)


def edge_degrees(
    cell: Cell, convention: Convention, *, live: bool = False
) -> tuple[int, int, int, int, int, int]:
    """Return, for each edge, the in-degree that its init divides by (see `edge_degree_array`)."""
    return tuple(edge_degree_array(_row(cell), convention, live=live)[0].tolist())


def _row(cell: Cell) -> NDArray[np.int8]:
    return np.array([cell.ops], dtype=np.int8)
