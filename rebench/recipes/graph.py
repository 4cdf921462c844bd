"""Graph facts for recipes: the base graph, paths and in-degrees.

The module also defines the learning rates of the benchmark and of the paper's released code.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, Final, Literal, TypeAlias

from cells import Cell, DagCode
from cells.dag import LAYER
from cells.graph import Edge, Graph
from cells.paths import Polynomial
from rebench.errors import InputError

__all__ = [
    "BASE_CODE",
    "BENCHMARK_LR",
    "DEFAULT_BASE_LR",
    "Architecture",
    "Degree",
    "NetworkGraph",
    "NoPathError",
    "base_of",
    "edge_degree",
    "is_residual",
    "require_path",
]

BASE_CODE: Final = "1_01_001"
"""Base graph: its only path is a chain of skips. The rates of all rules are relative to it."""

BENCHMARK_LR: Final = 0.1
"""Learning rate of the benchmark."""

DEFAULT_BASE_LR: Final = 0.46
"""Base learning rate of the paper's released code, tuned for the base network."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkGraph(Graph):
    """Graph of a whole network, stem included.

    `arcs` are (target, source, operation), ordered by target; two vertices may share several arcs.
    `degrees` are the numbers of terms added at vertices 1, 2, ... `joins` says whether the network
    has a concatenation, which adds no terms and has the degree of its parts. `normalised` says
    whether normalisation follows all layers (None: some). Rates are relative to `base`.
    """

    LAYERS: ClassVar[frozenset[int]] = frozenset((LAYER,))

    title: str = "a network"
    arcs: tuple[Edge, ...]
    degrees: tuple[int, ...]
    joins: bool = False
    normalised: bool | None = False
    base: NetworkGraph | None = None

    def __post_init__(self) -> None:
        for target, source, _ in self.arcs:
            if not 0 <= source < target <= len(self.degrees):
                raise InputError(f"an edge must lead to a later vertex, got {source} -> {target}")

    @property
    def n_vertices(self) -> int:
        """Number of vertices, input and output included."""
        return len(self.degrees) + 1

    def _edges(self) -> tuple[Edge, ...]:
        return self.arcs

    def in_degrees(self, *, live: bool = False) -> tuple[int, ...]:  # noqa: ARG002 - all are live
        """Return the numbers of terms added at vertices 1, 2, ..."""
        return self.degrees


Architecture: TypeAlias = Cell | DagCode | NetworkGraph
"""Argument of a recipe."""

# Vertex with the in-degree that divides the init of an edge; "-live" ignores dead edges.
Degree: TypeAlias = Literal["source", "target", "source-live", "target-live"]


class NoPathError(InputError):
    """Graph without a path from input to output, for which a rule has no value."""

    def __init__(self, recipe: str, graph: Architecture) -> None:
        super().__init__(
            f"recipe {recipe!r} has no learning rate for {graph.title}: no path from input to "
            "output; the recipes nb201 and fixed need no path"
        )


def base_of(graph: Architecture) -> Architecture:
    """Return the base graph: `base` of a network, otherwise the base code in the graph's class."""
    if isinstance(graph, NetworkGraph):
        return graph.base or graph
    return type(graph).parse(BASE_CODE)


def require_path(recipe: str, graph: Architecture) -> Polynomial:
    """Return the depth polynomial; raise `NoPathError` if the graph has no path."""
    polynomial = _polynomial(graph)
    if not polynomial:
        raise NoPathError(recipe, graph)
    return polynomial


@functools.lru_cache(maxsize=64)  # called for every layer of a network
def _polynomial(graph: Architecture) -> Polynomial:
    return graph.depth_polynomial()


def is_residual(graph: Architecture) -> bool:
    """Return whether the graph has a path without convolutions and a path with convolutions."""
    polynomial = graph.depth_polynomial()
    return len(polynomial) > 1 and polynomial[0] > 0


def edge_degree(graph: Architecture, edge: tuple[int, int], degree: Degree) -> int:
    """Return the in-degree for the init of an edge (target, source).

    Vertex 0, the output of the stem, has in-degree 1. An edge with a dead source can have 0.
    """
    target, source = edge
    if not 0 <= source < target < graph.n_vertices:
        raise InputError(
            "edge must be (target, source) with 0 <= source < target < "
            f"{graph.n_vertices}, got {edge}"
        )
    degrees = (1, *graph.in_degrees(live=degree.endswith("-live")))
    return degrees[source if degree.startswith("source") else target]
