"""What rules ask of a graph: the base it is compared with, its paths, its in-degrees.

With the two learning rates that papers and their code state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, TypeAlias

from cells import Cell, DagCode
from cells.dag import LAYER
from cells.graph import Graph
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
"""The graph whose only path is a chain of skips: every rule's learning rate is relative to it."""

BENCHMARK_LR: Final = 0.1
"""The benchmark's own learning rate."""

DEFAULT_BASE_LR: Final = 0.46
"""Base learning rate of the paper's released code, found for the base network."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkGraph(Graph):
    """The graph of a whole network, stem and all, wherever it was read from.

    `arcs` are (target, source, operation) by target, as of a graph code, and two vertices may be
    joined by several; `degrees` say how many terms are added at vertices 1, 2, ... A concatenation
    (`joins`: whether there is any) adds none, so its degree is that of its parts. `normalised`
    says whether normalisation follows the layers; None: some of them. Rates are relative to `base`.
    """

    LAYERS: ClassVar[frozenset[int]] = frozenset((LAYER,))

    title: str = "a network"
    arcs: tuple[tuple[int, int, int], ...]
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

    def _edges(self) -> tuple[tuple[int, int, int], ...]:
        return self.arcs

    def in_degrees(self, *, live: bool = False) -> tuple[int, ...]:  # noqa: ARG002 - all are live
        """Return how many terms are added at vertices 1, 2, ..."""
        return self.degrees


Architecture: TypeAlias = Cell | DagCode | NetworkGraph
"""What a recipe is asked about."""

# Whose in-degree an edge's init divides by; with dead edges, or live ones only.
Degree: TypeAlias = Literal["source", "target", "source-live", "target-live"]


class NoPathError(InputError):
    """The rule has no value for a graph without a path from input to output."""

    def __init__(self, recipe: str, graph: Architecture) -> None:
        super().__init__(f"recipe {recipe!r} has no learning rate for {graph.title}: no path")


def base_of(graph: Architecture) -> Architecture:
    """Return the base graph: a network's own, else the base code as a graph of the same kind."""
    if isinstance(graph, NetworkGraph):
        return graph.base or graph
    return _BASES[type(graph)]


_BASES: Final[Mapping[type, Architecture]] = {
    kind: kind.parse(BASE_CODE) for kind in (Cell, DagCode)
}


def require_path(recipe: str, graph: Architecture) -> Polynomial:
    """Return the depth polynomial; raise `NoPathError` where there is no path."""
    polynomial = _polynomial(graph)
    if not polynomial:
        raise NoPathError(recipe, graph)
    return polynomial


@functools.lru_cache(maxsize=64)  # every layer of a network asks again
def _polynomial(graph: Architecture) -> Polynomial:
    return graph.depth_polynomial()


def is_residual(graph: Architecture) -> bool:
    """Return whether a path without convolutions runs beside one that has some."""
    polynomial = graph.depth_polynomial()
    return len(polynomial) > 1 and polynomial[0] > 0


def edge_degree(graph: Architecture, edge: tuple[int, int], degree: Degree) -> int:
    """Return the in-degree that the init of an edge (target, source) divides by.

    Vertex 0, which the stem feeds, has in-degree 1. An edge with a dead source can have 0.
    """
    target, source = edge
    if not 0 <= source < target < graph.n_vertices:
        raise InputError(
            "edge must be (target, source) with 0 <= source < target < "
            f"{graph.n_vertices}, got {edge}"
        )
    degrees = (1, *graph.in_degrees(live=degree.endswith("-live")))
    return degrees[source if degree.startswith("source") else target]
