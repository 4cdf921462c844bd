"""What rules ask of a graph: the base it is compared with, its paths, its in-degrees.

With the two learning rates that papers and their code state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from cells import Cell, DagCode
from cells.paths import Polynomial
from rebench.errors import InputError

__all__ = [
    "BASE_CODE",
    "BENCHMARK_LR",
    "DEFAULT_BASE_LR",
    "Architecture",
    "Degree",
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

Architecture: TypeAlias = Cell | DagCode
"""What a recipe is asked about."""

# Whose in-degree an edge's init divides by; with dead edges, or live ones only.
Degree: TypeAlias = Literal["source", "target", "source-live", "target-live"]


class NoPathError(InputError):
    """The rule has no value for a graph without a path from input to output."""

    def __init__(self, recipe: str, graph: Architecture) -> None:
        super().__init__(f"recipe {recipe!r} has no learning rate for {graph.title}: no path")


def base_of(graph: Architecture) -> Architecture:
    """Return the base graph, as a cell for a cell and as a graph code for a graph code."""
    return _BASES[type(graph)]


_BASES: Final[Mapping[type, Architecture]] = {
    kind: kind.parse(BASE_CODE) for kind in (Cell, DagCode)
}


def require_path(recipe: str, graph: Architecture) -> Polynomial:
    """Return the depth polynomial; raise `NoPathError` where there is no path."""
    polynomial = graph.depth_polynomial()
    if not polynomial:
        raise NoPathError(recipe, graph)
    return polynomial


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
