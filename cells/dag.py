"""Codes of general graphs, such as ``2_02_002``, for the MLP and CNN experiments.

Group v contains one digit for each edge into vertex v, starting with the edge from vertex 0:
0 none, 1 skip, 2 layer. Such a graph is always acyclic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cells.errors import CellError, shown
from cells.graph import Edge, Graph

__all__ = ["LAYER", "MAX_VERTICES", "NO_EDGE", "SKIP_EDGE", "DagCode"]

NO_EDGE, SKIP_EDGE, LAYER = range(3)
MAX_VERTICES = 256


@dataclass(frozen=True, slots=True)
class DagCode(Graph):
    """A graph from vertex 0 (input) to the last vertex (output).

    `operations[v - 1][u]` is the operation on the edge into vertex v from vertex u < v.
    """

    LAYERS: ClassVar[frozenset[int]] = frozenset((LAYER,))

    operations: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.operations, Sequence):
            raise CellError(f"operations must be a tuple of tuples, got {shown(self.operations)}")
        if not 1 <= len(self.operations) < MAX_VERTICES:
            found = len(self.operations) + 1
            raise CellError(f"a graph code must have 2 to {MAX_VERTICES} vertices, got {found}")
        for target, group in enumerate(self.operations, start=1):
            if len(group) != target or not all(op in (NO_EDGE, SKIP_EDGE, LAYER) for op in group):
                raise CellError(f"vertex {target} needs {target} digits of 0, 1, 2, got {group!r}")

    @classmethod
    def parse(cls, text: str) -> DagCode:
        """Read a code, such as ``2_02_002``."""
        if not isinstance(text, str):
            raise CellError(f"a graph code must be a text such as 2_02_002, got {shown(text)}")
        groups = text[: MAX_VERTICES**2].split("_")
        for vertex, group in enumerate(groups, start=1):
            if len(group) != vertex or set(group) - set("012"):
                raise CellError(
                    f"not a graph code: expected {vertex} digits of 0 (none), 1 (skip), 2 (layer) "
                    f"for the edges into vertex {vertex} from earlier vertices, found "
                    f"{shown(group)}; example: 2_02_002"
                )
        return cls(tuple(tuple(map(int, group)) for group in groups))

    def __str__(self) -> str:
        """Return the code."""
        return "_".join("".join(map(str, group)) for group in self.operations)

    @property
    def n_vertices(self) -> int:
        """Number of vertices, input and output included."""
        return len(self.operations) + 1

    def _edges(self) -> tuple[Edge, ...]:
        edges = []
        for target, group in enumerate(self.operations, start=1):
            for source, op in enumerate(group):
                if op != NO_EDGE:
                    edges.append((target, source, op))
        return tuple(edges)

    def pruned(self) -> DagCode:
        """Return the graph without its dead edges; all vertices stay."""
        groups = [[NO_EDGE] * len(group) for group in self.operations]
        for target, source, op in self.edges(live=True):
            groups[target - 1][source] = op
        return DagCode(tuple(map(tuple, groups)))
