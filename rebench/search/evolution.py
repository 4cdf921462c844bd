"""Regularised evolution (Real et al., AAAI 2019): mutants of good cells replace old cells."""

from __future__ import annotations

from collections import deque

import numpy as np

from rebench.errors import InputError
from rebench.search.base import Problem, Query, Searcher, register

__all__ = ["RegularisedEvolution"]


@register("rea")
class RegularisedEvolution(Searcher):
    """Regularised evolution with population 10 and sample 3, as in the benchmark's papers.

    A mutant is one of the 24 one-edge changes, with equal probability. The authors' script draws a
    vertex first and then one of its edges. Its final accuracy is a little lower:
    `docs/explanation/search.md`.
    """

    def __init__(
        self,
        problem: Problem,
        generator: np.random.Generator,
        population: int = 10,
        sample: int = 3,
    ) -> None:
        super().__init__(problem, generator)
        if not 1 <= sample <= population:
            raise InputError(f"sample must be in 1..population, got {sample} of {population}")
        self.population: deque[tuple[float, int]] = deque(maxlen=population)
        self.size = population
        self.sample = sample

    def ask(self) -> Query:
        """Return a random cell until the population is full, then a mutant of a good cell."""
        if len(self.population) < self.size:
            return Query(self.space.sample(self.generator), self.problem.signal)
        # Drawn with replacement, as in the benchmark's released code.
        drawn = (self.generator.random(self.sample) * self.size).astype(int)
        _, parent = max(self.population[place] for place in drawn)
        child = self.space.mutate(parent, self.generator)
        return Query(child, self.problem.signal)

    def tell(self, query: Query, value: float) -> None:
        """Add the new cell to the population, and remove the oldest cell."""
        self.population.append((value, query.position))
