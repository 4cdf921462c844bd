"""`Graph`, the common base of cells and graph codes, and the live edges of many cells at once.

An edge or vertex is *live* if it is part of a path from the first vertex to the last. An edge that
is not `none` can still be dead. Every method takes one pass over the edges, so it is exact and
fast even for a complete graph of 40 vertices with 10^11 paths.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells.ops import NONE
from cells.paths import Polynomial, moment

__all__ = ["Edge", "Fact", "Graph", "joined", "live_edge_mask"]

Fact: TypeAlias = int | float | str | None
Edge: TypeAlias = tuple[int, int, int]
"""Target, source and operation."""


class Graph(abc.ABC):
    """Acyclic graph from vertex 0, the input, to the last vertex, the output."""

    __slots__ = ()

    # Operations with weights. Other operations, except `none`, are skips or pools.
    LAYERS: ClassVar[frozenset[int]]

    @property
    def title(self) -> str:
        """Name in messages, such as ``graph CODE``."""
        return f"graph {self}"

    @property
    @abc.abstractmethod
    def n_vertices(self) -> int:
        """Number of vertices, input and output included."""

    @abc.abstractmethod
    def _edges(self) -> tuple[Edge, ...]:
        """Return (target, source, operation) of all edges except `none`, ordered by target."""

    def edges(self, *, live: bool = False) -> tuple[Edge, ...]:
        """Return (target, source, operation) of all edges except `none`, or of live edges only."""
        edges = self._edges()
        if not live:
            return edges
        kept = self.live_vertices()
        return tuple(edge for edge in edges if edge[0] in kept and edge[1] in kept)

    def live_vertices(self) -> frozenset[int]:
        """Return the vertices on paths from the first vertex to the last; empty without a path."""
        edges = self._edges()
        reached = {0}
        leading = {self.n_vertices - 1}
        for target, source, _ in edges:
            if source in reached:
                reached.add(target)
        for target, source, _ in reversed(edges):
            if target in leading:
                leading.add(source)
        return frozenset(reached & leading)

    def in_degrees(self, *, live: bool = False) -> tuple[int, ...]:
        """Return the number of edges, or of live edges, into each of the vertices 1, 2, ..."""
        counts = [0] * (self.n_vertices - 1)
        for target, _, _ in self.edges(live=live):
            counts[target - 1] += 1
        return tuple(counts)

    def depth_polynomial(self) -> Polynomial:
        """Return the polynomial in which coefficient k is the number of paths with k layers."""
        depths: list[list[int]] = [[] for _ in range(self.n_vertices)]
        depths[0] = [1]
        for target, source, op in self._edges():
            into = depths[target]
            shift = op in self.LAYERS
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
        """Return facts of the graph: name to number or text."""
        polynomial, degrees = self.depth_polynomial(), self.in_degrees()
        cubed = moment(polynomial, 3, offset=1)
        return {
            "n_paths": sum(polynomial),
            "sum_cubed_depths": cubed,
            "lr_multiplier": cubed**-0.5 if cubed else None,
            # As in the paper's released code, the first 1 is for the input and the last
            # for the classifier.
            "in_degree_source": joined((1, *degrees, 1)),
            "in_degree_target": joined(degrees),
            "in_degree_target_live": joined(self.in_degrees(live=True)),
        }


def joined(numbers: Iterable[int]) -> str:
    """Return numbers as one text, separated by semicolons."""
    return ";".join(map(str, numbers))


def live_edge_mask(ops: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return a mask [cells, 6] of the live edges of cells with operations [cells, 6]."""
    on10, on20, on21, on30, on31, on32 = (ops != NONE).T
    live10 = on10 & (on31 | (on21 & on32))
    live20 = on20 & on32
    live21 = on21 & on10 & on32
    live31 = on31 & on10
    live32 = on32 & (on20 | (on21 & on10))
    return np.stack([live10, live20, live21, on30, live31, live32], axis=1)
