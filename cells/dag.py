"""General graph codes of the MLP and CNN experiments, such as ``2_02_002``.

Group v holds one digit for each edge into vertex v, from vertex 0 up: 0 none, 1 skip, 2 layer.
The graph is acyclic by construction. Everything is one pass over the vertices, so a complete
40-vertex graph with its 10^11 paths is instant and exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from cells.errors import CellError
from cells.paths import Polynomial

__all__ = ["LAYER", "MAX_VERTICES", "NO_EDGE", "SKIP_EDGE", "DagCode"]

NO_EDGE, SKIP_EDGE, LAYER = range(3)
MAX_VERTICES = 256


@dataclass(frozen=True, slots=True)
class DagCode:
    """A graph from vertex 0 (input) to the last vertex (output).

    `operations[v - 1][u]` is the operation on the edge into vertex v from vertex u < v.
    """

    operations: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.operations) < MAX_VERTICES:
            found = len(self.operations) + 1
            raise CellError(f"a graph code has 2 to {MAX_VERTICES} vertices, got {found}")
        for target, group in enumerate(self.operations, start=1):
            if len(group) != target or not all(op in (NO_EDGE, SKIP_EDGE, LAYER) for op in group):
                raise CellError(f"vertex {target} needs {target} digits of 0, 1, 2, got {group!r}")

    @classmethod
    def parse(cls, text: str) -> DagCode:
        """Read a code; an edge from a vertex to itself or to an earlier one cannot be written."""
        groups = text[: MAX_VERTICES**2].split("_")
        position = 0
        for target, group in enumerate(groups, start=1):
            for offset, digit in enumerate(group):
                if digit not in ("0", "1", "2"):
                    raise CellError(
                        f"not a graph code: expected 0 (none), 1 (skip) or 2 (layer) at position "
                        f"{position + offset}, found {digit!a}; example: 2_02_002"
                    )
            if len(group) != target:
                source = " (an edge into a vertex comes from an earlier one)"
                raise CellError(
                    f"not a graph code: expected {target} digits for vertex {target} at position "
                    f"{position}, found {len(group)}{source if len(group) > target else ''}; "
                    "example: 2_02_002"
                )
            position += len(group) + 1
        return cls(tuple(tuple(int(digit) for digit in group) for group in groups))

    def __str__(self) -> str:
        """Return the code."""
        return "_".join("".join(map(str, group)) for group in self.operations)

    @property
    def n_vertices(self) -> int:
        """Number of vertices, input and output included."""
        return len(self.operations) + 1

    def edges(self, *, live: bool = False) -> tuple[tuple[int, int, int], ...]:
        """Return (target, source, operation) of every edge, or of those on some path."""
        kept = self.live_vertices() if live else frozenset(range(self.n_vertices))
        return tuple(
            (target, source, op)
            for target, group in enumerate(self.operations, start=1)
            for source, op in enumerate(group)
            if op != NO_EDGE and target in kept and source in kept
        )

    def live_vertices(self) -> frozenset[int]:
        """Return the vertices on paths from the first to the last; none without a path."""
        last = self.n_vertices - 1
        reached = {0}
        for target, source, _ in self.edges():
            if source in reached:
                reached.add(target)
        leading = {last}
        for target, source, _ in reversed(self.edges()):
            if target in leading:
                leading.add(source)
        live = reached & leading
        return frozenset(live if last in live else ())

    def pruned(self) -> DagCode:
        """Return the graph with its dead edges turned to none; the vertices stay."""
        live = {(target, source) for target, source, _ in self.edges(live=True)}
        return DagCode(
            tuple(
                tuple(op if (v, u) in live else NO_EDGE for u, op in enumerate(group))
                for v, group in enumerate(self.operations, start=1)
            )
        )

    def in_degrees(self, *, live: bool = False) -> tuple[int, ...]:
        """Return the number of edges into vertices 1, 2, ...: all, or those on some path."""
        counts = [0] * (self.n_vertices - 1)
        for target, _, _ in self.edges(live=live):
            counts[target - 1] += 1
        return tuple(counts)

    def depth_polynomial(self) -> Polynomial:
        """Return the polynomial whose coefficient k is the number of paths with k layers."""
        depths: list[list[int]] = [[1], *([] for _ in self.operations)]
        for target, source, op in self.edges():
            into, shift = depths[target], int(op == LAYER)
            into.extend([0] * (len(depths[source]) + shift - len(into)))
            for depth, count in enumerate(depths[source]):
                into[depth + shift] += count
        last = depths[-1]
        while last and not last[-1]:
            last.pop()
        return tuple(last)

    @property
    def n_paths(self) -> int:
        """Number of paths from the first vertex to the last."""
        return sum(self.depth_polynomial())
