"""The cells that an algorithm may choose from: the whole space, or the cells of a table.

Algorithms name a cell by its *position* in the space, 0 to n - 1. On a sample, the neighbours of a
cell are the other cells at the smallest Hamming distance in the sample, so even a small sample has
local moves. On the whole space the neighbours are the 24 one-edge changes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cells import EDGES, OP_NAMES, SPACE_SIZE
from cells.table import space_ops
from rebench.arguments import checked
from rebench.errors import InputError

__all__ = ["SearchSpace"]

_POWERS = 5 ** np.arange(len(EDGES) - 1, -1, -1)
# The four routes from vertex 0 to vertex 3, as positions in EDGES.
_ROUTES = (
    (EDGES.index((3, 0)),),
    (EDGES.index((1, 0)), EDGES.index((3, 1))),
    (EDGES.index((2, 0)), EDGES.index((3, 2))),
    (EDGES.index((1, 0)), EDGES.index((2, 1)), EDGES.index((3, 2))),
)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A set of cells, by benchmark index in ascending order."""

    indices: NDArray[np.int64]

    @classmethod
    def whole(cls) -> SearchSpace:
        """Return the space of all 15,625 cells."""
        return _whole()

    @classmethod
    @checked
    def of(cls, indices: Iterable[int]) -> SearchSpace:
        """Return the space restricted to the cells with these benchmark indices."""
        try:
            unique = np.unique(np.fromiter(map(operator.index, indices), dtype=np.int64))
        except TypeError as error:
            raise InputError(f"indices must be a list of whole numbers: {error}") from error
        if not unique.size:
            raise InputError("a search space needs at least one cell, got none")
        if unique[0] < 0 or unique[-1] >= SPACE_SIZE:
            raise InputError(
                f"a cell's index must be in 0..{SPACE_SIZE - 1}, got {unique[0]}..{unique[-1]}"
            )
        if unique.size == SPACE_SIZE:
            return _whole()
        return cls(unique)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def is_whole(self) -> bool:
        """Whether every cell is in the space."""
        return bool(len(self) == SPACE_SIZE)

    @functools.cached_property
    def ops(self) -> NDArray[np.int64]:
        """The operations, (n, 6)."""
        return space_ops()[self.indices].astype(np.int64)

    @functools.cached_property
    def position_of_rank(self) -> NDArray[np.int64]:
        """Position of the cell with each rank in the product of operations; -1 if it is absent."""
        positions = np.full(SPACE_SIZE, -1)
        positions[self.ops @ _POWERS] = np.arange(len(self))
        return positions

    def position_of(self, ops: NDArray[np.int64]) -> int:
        """Return the position of the cell with these six operations; -1 if it is absent."""
        return int(self.position_of_rank[ops @ _POWERS])

    @checked
    def position(self, index: int) -> int:
        """Return the position of the cell with this benchmark index."""
        place = int(np.searchsorted(self.indices, index))
        if place == len(self) or self.indices[place] != index:
            raise InputError(f"cell {index} is not among the {len(self):,} cells of this space")
        return place

    @functools.cached_property
    def _one_edge_changes(self) -> NDArray[np.int64]:
        """Positions of every cell's 24 one-edge changes, (n, 24); -1 if not in the space."""
        shifts = np.arange(1, len(OP_NAMES))
        ops = self.ops[:, :, None]
        changed = (ops + shifts) % len(OP_NAMES) - ops
        own_ranks = self.ops @ _POWERS
        ranks = own_ranks[:, None, None] + changed * _POWERS[None, :, None]
        return np.take(self.position_of_rank, ranks.reshape(len(self), -1))

    @functools.cached_property
    def _neighbours(self) -> dict[int, NDArray[np.int64]]:
        return {}

    def neighbours(self, position: int) -> NDArray[np.int64]:
        """Return the positions of the nearest other cells (one edge apart, if there are any)."""
        near: NDArray[np.int64] = self._one_edge_changes[position]
        if self.is_whole:
            return near
        if position not in self._neighbours:
            near = near[near >= 0]
            if not near.size and len(self) > 1:
                distance = (self.ops != self.ops[position]).sum(axis=1)
                distance[position] = len(EDGES) + 1
                near = np.flatnonzero(distance == distance.min())
            self._neighbours[position] = near
        return self._neighbours[position]

    def sample(self, generator: np.random.Generator) -> int:
        """Return a uniformly drawn position."""
        return int(generator.random() * len(self))

    def mutate(self, position: int, generator: np.random.Generator) -> int:
        """Return a uniformly drawn neighbour of a position (itself, in a space of one cell)."""
        near = self.neighbours(position)
        if not len(near):
            return position
        place = int(generator.random() * len(near))
        return int(near[place])

    def mutants(
        self, positions: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return a mutant of each position, with the same draws as a loop over `mutate`."""
        if not self.is_whole:
            return np.array([self.mutate(position, generator) for position in positions.tolist()])
        near = self._one_edge_changes
        places = (generator.random(len(positions)) * near.shape[1]).astype(int)
        return near[positions, places]

    @functools.cached_property
    def one_hot(self) -> NDArray[np.float64]:
        """The operations as indicators, (n, 30): edge-major, operation-minor."""
        return np.eye(len(OP_NAMES))[self.ops].reshape(len(self), -1)

    @functools.cached_property
    def path_encoding(self) -> NDArray[np.float64]:
        """Indicators of the operation sequences on the paths of each cell, (n, 4 + 16 + 64).

        This is the path encoding of BANANAS (White et al., AAAI 2021): one indicator for each
        sequence of one, two or three operations. A sequence that contains `none` is not a path. The
        two routes with two edges share their indicators, because a path is only a sequence of
        operations.
        """
        kinds = len(OP_NAMES) - 1
        columns = [np.zeros((len(self), kinds**length)) for length in (1, 2, 3)]
        for route in _ROUTES:
            taken = self.ops[:, route] - 1
            alive = np.flatnonzero((taken >= 0).all(1))
            code = taken[alive] @ kinds ** np.arange(len(route) - 1, -1, -1)
            columns[len(route) - 1][alive, code] = 1.0
        return np.hstack(columns)

    @functools.cached_property
    def features(self) -> NDArray[np.float64]:
        """One-hot operations, then the path encoding, (n, 114)."""
        return np.hstack([self.one_hot, self.path_encoding])


@functools.cache
def _whole() -> SearchSpace:
    return SearchSpace(np.arange(SPACE_SIZE))
