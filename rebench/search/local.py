"""Local search (White et al., UAI 2021): climb to a local optimum, then start at a new cell."""

from __future__ import annotations

import math

import numpy as np

from rebench.search.base import Problem, Query, Searcher, register

__all__ = ["LocalSearch"]


@register("local")
class LocalSearch(Searcher):
    """Hill climbing over one-edge changes with random restarts; no cell is trained twice.

    The search moves to the first better neighbour ("query until lower"), and restarts if no
    neighbour is better. Cells are trained again only after all cells were trained.
    """

    def __init__(self, problem: Problem, generator: np.random.Generator) -> None:
        super().__init__(problem, generator)
        self.known: dict[int, float] = {}
        self.height = -math.inf
        self.untried: list[int] = []

    def ask(self) -> Query:
        """Return the next neighbour that was not trained yet, or a new random cell."""
        while self.untried:
            position = self.untried.pop()
            if position not in self.known:
                return Query(position, self.problem.signal)
            if self.known[position] > self.height:
                self._climb(position)
        self.height = -math.inf
        return Query(self._new_start(), self.problem.signal)

    def tell(self, query: Query, value: float) -> None:
        """Store the accuracy, and move to the cell if it is better."""
        self.known[query.position] = value
        if value > self.height:
            self._climb(query.position)

    def _climb(self, position: int) -> None:
        self.height = self.known[position]
        near = self.space.neighbours(position)
        self.untried = self.generator.permutation(near).tolist()

    def _new_start(self) -> int:
        if len(self.known) >= len(self.space):
            return self.space.sample(self.generator)
        while (position := self.space.sample(self.generator)) in self.known:
            pass
        return position
