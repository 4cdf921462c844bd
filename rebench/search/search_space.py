"""The items that an algorithm may choose from: a whole space, or the items of a table.

Algorithms name an item by its *position*, 0 to n - 1. On a sample, the neighbours of an item are
the other items at the smallest Hamming distance in the sample, so even a small sample has local
moves. On the whole space the neighbours are the changes of one choice: in NAS-Bench-201, the 24
changes of one edge. Items of a space without choices have no neighbours.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rebench.arguments import checked
from rebench.errors import InputError
from rebench.spaces import NB201, Floats, Ints, Space

__all__ = ["SearchSpace"]


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A set of items of a space, by index in ascending order."""

    indices: Ints
    of_space: Space = NB201

    @classmethod
    def whole(cls, space: Space = NB201) -> SearchSpace:
        """Return all items of a space, such as the 15,625 cells."""
        return _whole(space)

    @classmethod
    @checked
    def of(cls, indices: Iterable[int], space: Space = NB201) -> SearchSpace:
        """Return the space restricted to the items with these indices."""
        try:
            unique = np.unique(np.fromiter(map(operator.index, indices), dtype=np.int64))
        except TypeError as error:
            raise InputError(f"indices must be a list of whole numbers: {error}") from error
        if not unique.size:
            raise InputError(f"a search space needs at least one {space.item}, got none")
        if unique[0] < 0 or unique[-1] >= space.size:
            raise InputError(
                f"a {space.item}'s index must be in 0..{space.size - 1}, got "
                f"{unique[0]}..{unique[-1]}"
            )
        if unique.size == space.size:
            return _whole(space)
        return cls(unique, space)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def is_whole(self) -> bool:
        """Whether every item of the space is in it."""
        return len(self) == self.of_space.size

    @functools.cached_property
    def levels(self) -> tuple[int, ...]:
        """The number of values of each choice; an error for items without choices."""
        if not self.of_space.levels:
            raise self.of_space.lacks(
                "choices, so its items have no neighbours: use the algorithms random or hyperband"
            )
        return self.of_space.levels

    @functools.cached_property
    def ops(self) -> Ints:
        """The choices of each item, (n, choices): in NAS-Bench-201 the operations of six edges."""
        self._need_choices()
        return self.of_space.choices(self.indices)

    @functools.cached_property
    def _strides(self) -> Ints:
        """The difference of ranks between two values of each choice; the last choice is fastest."""
        later = np.append(self.levels[1:], 1)
        return np.cumprod(later[::-1])[::-1].astype(np.int64)

    @functools.cached_property
    def position_of_rank(self) -> Ints:
        """Position of the item with each rank in the product of choices; -1 if it is absent."""
        positions = np.full(int(np.prod(self.levels)), -1)
        positions[self.ops @ self._strides] = np.arange(len(self))
        return positions

    def position_of(self, ops: Ints) -> int:
        """Return the position of the item with these choices; -1 if it is absent."""
        return int(self.position_of_rank[ops @ self._strides])

    @checked
    def position(self, index: int) -> int:
        """Return the position of the item with this index."""
        place = int(np.searchsorted(self.indices, index))
        if place == len(self) or self.indices[place] != index:
            space = self.of_space
            raise InputError(
                f"{space.item} {index} is not among the {len(self):,} {space.items} of this space"
            )
        return place

    @functools.cached_property
    def _one_choice_changes(self) -> Ints:
        """Positions of every item's changes of one choice, (n, changes); -1 if not in the space."""
        own_ranks = self.ops @ self._strides
        ranks = []
        for choice, count in enumerate(self.levels):
            own = self.ops[:, choice]
            for shift in range(1, count):
                step = (own + shift) % count - own
                ranks.append(own_ranks + step * self._strides[choice])
        return np.take(self.position_of_rank, np.stack(ranks, axis=1))

    @functools.cached_property
    def _neighbours(self) -> dict[int, Ints]:
        return {}

    def neighbours(self, position: int) -> Ints:
        """Return the positions of the nearest other items (one choice apart, if there are any)."""
        near: Ints = self._one_choice_changes[position]
        if self.is_whole:
            return near
        if position not in self._neighbours:
            near = near[near >= 0]
            if not near.size and len(self) > 1:
                distance = (self.ops != self.ops[position]).sum(axis=1)
                distance[position] = len(self.levels) + 1
                near = np.flatnonzero(distance == distance.min())
            self._neighbours[position] = near
        return self._neighbours[position]

    def sample(self, generator: np.random.Generator) -> int:
        """Return a uniformly drawn position."""
        return int(generator.random() * len(self))

    def mutate(self, position: int, generator: np.random.Generator) -> int:
        """Return a uniformly drawn neighbour of a position (itself, in a space of one item)."""
        near = self.neighbours(position)
        if not len(near):
            return position
        place = int(generator.random() * len(near))
        return int(near[place])

    def mutants(self, positions: Ints, generator: np.random.Generator) -> Ints:
        """Return a mutant of each position, with the same draws as a loop over `mutate`."""
        if not self.is_whole:
            return np.array([self.mutate(position, generator) for position in positions.tolist()])
        near = self._one_choice_changes
        places = (generator.random(len(positions)) * near.shape[1]).astype(int)
        return near[positions, places]

    @functools.cached_property
    def one_hot(self) -> Floats:
        """The choices as indicators, (n, sum of levels): choice-major."""
        columns = []
        for choice, count in enumerate(self.levels):
            columns.append(np.eye(count)[self.ops[:, choice]])
        return np.hstack(columns)

    @functools.cached_property
    def features(self) -> Floats:
        """Numbers that describe each item for a predictor, (n, features)."""
        self._need_choices()
        return self.of_space.features(self.indices)

    def _need_choices(self) -> None:
        """Raise the error of `levels` if the items have no choices."""
        _ = self.levels


@functools.cache
def _whole(space: Space) -> SearchSpace:
    return SearchSpace(np.arange(space.size), space)
