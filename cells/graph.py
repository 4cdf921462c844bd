"""What a cell and a graph code have in common: `Graph`; and the same for many cells at once.

An edge or vertex is *live* if it lies on some path from the first vertex to the last; an edge that
is not `none` can still be dead. Everything is one pass over the edges, so a complete 40-vertex
graph with its 10^11 paths is instant and exact. The functions work on operations as an int array
[cells, 6].
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells.ops import NONE
from cells.paths import Polynomial, moment

__all__ = ["Fact", "Graph", "joined", "live_edge_mask"]

Fact: TypeAlias = int | float | str | None


class Graph(abc.ABC):
    """An acyclic graph from vertex 0, the input, to the last vertex, the output."""

    __slots__ = ()

    # The operations that have weights; every other one but `none` is a skip or a pool.
    LAYERS: ClassVar[frozenset[int]]

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What messages call it."""

    @property
    @abc.abstractmethod
    def n_vertices(self) -> int:
        """Number of vertices, input and output included."""

    @abc.abstractmethod
    def _edges(self) -> tuple[tuple[int, int, int], ...]:
        """Return (target, source, operation) of every edge that is not `none`, by target."""

    def edges(self, *, live: bool = False) -> tuple[tuple[int, int, int], ...]:
        """Return (target, source, operation) of every edge that is not `none`, or of the live."""
        edges = self._edges()
        if not live:
            return edges
        kept = self.live_vertices()
        return tuple(edge for edge in edges if edge[0] in kept and edge[1] in kept)

    def live_vertices(self) -> frozenset[int]:
        """Return the vertices on paths from the first to the last; none without a path."""
        edges, last = self._edges(), self.n_vertices - 1
        reached, leading = {0}, {last}
        for target, source, _ in edges:
            if source in reached:
                reached.add(target)
        if last not in reached:
            return frozenset()
        for target, source, _ in reversed(edges):
            if target in leading:
                leading.add(source)
        return frozenset(reached & leading)

    def in_degrees(self, *, live: bool = False) -> tuple[int, ...]:
        """Return the number of edges into vertices 1, 2, ...: all, or the live ones."""
        counts = [0] * (self.n_vertices - 1)
        for target, _, _ in self.edges(live=live):
            counts[target - 1] += 1
        return tuple(counts)

    def depth_polynomial(self) -> Polynomial:
        """Return the polynomial whose coefficient k is the number of paths with k layers."""
        depths: list[list[int]] = [[1], *([] for _ in range(self.n_vertices - 1))]
        for target, source, op in self._edges():
            into, shift = depths[target], op in self.LAYERS
            into.extend([0] * (len(depths[source]) + shift - len(into)))
            for depth, count in enumerate(depths[source], start=shift):
                into[depth] += count
        last = depths[-1]
        while last and not last[-1]:
            last.pop()
        return tuple(last)

    @property
    def n_paths(self) -> int:
        """Number of paths from the first vertex to the last."""
        return sum(self.depth_polynomial())

    def describe(self) -> dict[str, Fact]:
        """Facts of the graph, each a plain value."""
        polynomial, degrees = self.depth_polynomial(), self.in_degrees()
        cubed = moment(polynomial, 3, offset=1)
        return {
            "n_paths": sum(polynomial),
            "sum_cubed_depths": cubed,
            "lr_multiplier": cubed**-0.5 if cubed else None,
            # The released code's list: 1 for the input, and 1 for what follows the output.
            "in_degree_source": joined((1, *degrees, 1)),
            "in_degree_target": joined(degrees),
            "in_degree_target_live": joined(self.in_degrees(live=True)),
        }


def joined(numbers: Iterable[int]) -> str:
    """Return numbers as one text, as facts and columns hold them."""
    return ";".join(map(str, numbers))


def live_edge_mask(ops: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return, as [cells, 6], which edges lie on a path from vertex 0 to vertex 3."""
    on10, on20, on21, on30, on31, on32 = (ops != NONE).T
    reached2 = on20 | (on21 & on10)
    leads1 = on31 | (on21 & on32)
    live = [on10 & leads1, on20 & on32, on21 & on10 & on32, on30, on31 & on10, on32 & reached2]
    return np.stack(live, axis=1)
