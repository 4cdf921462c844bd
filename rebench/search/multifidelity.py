"""Hyperband (Li et al., JMLR 2018) and BOHB (Falkner et al., ICML 2018) on a table's fidelities.

The rungs are the numbers of epochs in the table, not powers of a chosen factor. The number of cells
that survive a rung makes every rung cost the same total number of epochs. A run with more
epochs in the table is a separate run, because the learning-rate schedule depends on its length. So
a promoted cell is charged its full training.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from rebench.errors import InputError
from rebench.search.base import Problem, Query, Searcher, register

__all__ = ["Bohb", "Hyperband"]

_NARROWEST = 1e-3


@register("hyperband")
class Hyperband(Searcher):
    """Successive halving of random cells, in brackets from the shortest training to the longest."""

    def __init__(self, problem: Problem, generator: np.random.Generator) -> None:
        super().__init__(problem, generator)
        self._steps = self._brackets()
        self._next = next(self._steps)

    def ask(self) -> Query:
        """Return the next cell of the current bracket."""
        return self._next

    def tell(self, query: Query, value: float) -> None:  # noqa: ARG002 - the bracket knows
        """Pass the accuracy to the current bracket."""
        self._next = self._steps.send(value)

    def propose(self) -> int:
        """Return a new cell for the first rung of a bracket."""
        return self.space.sample(self.generator)

    def _brackets(self) -> Generator[Query, float, None]:
        epochs = self.problem.epochs
        top = len(epochs) - 1
        while True:
            for start in range(top + 1):
                share = (top + 1) / (top - start + 1)
                width = math.ceil(share * epochs[top] / epochs[start])
                survivors: list[int] = []
                for level in range(start, top + 1):
                    keep = max(1, width * epochs[start] // epochs[level])
                    told: list[tuple[float, int]] = []
                    for place in range(keep):
                        position = self.propose() if level == start else survivors[place]
                        value = yield Query(position, level)
                        told.append((value, position))
                    told.sort(reverse=True)
                    survivors = [position for _, position in told]


@register("bohb")
class Bohb(Hyperband):
    """Hyperband with new cells from kernel densities of good and bad cells.

    The settings are the benchmark's: 4 samples per proposal, no random fraction; the best 15 % are
    the good cells, and the densities are those of the highest fidelity with enough observations.
    The kernel is Aitchison and Aitken's for categories. Its bandwidth is the normal reference rule
    on the categorical variance, at most 4/5 for five values (there the kernel is uniform). The
    released code applies this rule to the numbers of the operations, which have no order, and
    allows bandwidths above 1. It then never keeps an observed operation, and is no better than
    random search.
    """

    def __init__(
        self,
        problem: Problem,
        generator: np.random.Generator,
        samples: int = 4,
        random_fraction: float = 0.0,
        top_percent: float = 15.0,
    ) -> None:
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        self.samples = samples
        self.random_fraction = random_fraction
        self.top_share = top_percent / 100
        self.told: list[list[tuple[float, int]]] = [[] for _ in problem.epochs]
        super().__init__(problem, generator)

    def tell(self, query: Query, value: float) -> None:
        """Store the accuracy for the densities, and pass it to the current bracket."""
        self.told[query.level].append((value, query.position))
        super().tell(query, value)

    def propose(self) -> int:
        """Return the sample with the largest ratio of the good density to the bad density."""
        fewest = len(self.space.levels) + 1
        rich = [told for told in self.told if len(told) >= fewest + 2]
        if not rich or self.generator.random() < self.random_fraction:
            return self.space.sample(self.generator)
        best_first = sorted(rich[-1], reverse=True)
        ranked = [position for _, position in best_first]
        n_good = max(fewest, int(self.top_share * len(ranked)))
        n_bad = max(fewest, len(ranked) - n_good)
        levels = np.array(self.space.levels)
        good = _Density(self.space.ops[ranked[:n_good]], levels)
        bad = _Density(self.space.ops[ranked[-n_bad:]], levels)
        ops = good.draw(self.samples, self.generator)
        ratio = good.log_at(ops) - bad.log_at(ops)
        return self._nearest(ops[ratio.argmax()])

    def _nearest(self, ops: NDArray[np.int64]) -> int:
        """Return the cell that shares the most of these operations; ties are broken at random."""
        if self.space.is_whole:
            return self.space.position_of(ops)
        shared = (self.space.ops == ops).sum(1)
        best = np.flatnonzero(shared == shared.max())
        place = int(self.generator.random() * len(best))
        return int(best[place])


class _Density:
    """A product of Aitchison-Aitken kernels over the choices, around observed items."""

    def __init__(self, ops: NDArray[np.int64], levels: NDArray[np.int64]) -> None:
        self.ops = ops
        self.levels = levels
        shares = (ops[:, :, None] == np.arange(levels.max())).mean(0)
        spread = np.sqrt(1 - (shares**2).sum(1))
        width = 1.06 * spread * len(ops) ** (-1 / (4 + len(levels)))
        self.width = np.clip(width, _NARROWEST, (levels - 1) / levels)

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return choices (count, choices): of an observed item, each kept or replaced at random."""
        places = (generator.random(count) * len(self.ops)).astype(int)
        kept = self.ops[places]
        moved = generator.random(kept.shape) < self.width
        shift = 1 + (generator.random(kept.shape) * (self.levels - 1)).astype(int)
        return np.where(moved, (kept + shift) % self.levels, kept)

    def log_at(self, ops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log density at (m, choices) choices."""
        same = ops[:, None] == self.ops[None]
        kernel = np.where(same, 1 - self.width, self.width / (self.levels - 1))
        density = kernel.prod(axis=2).mean(axis=1)
        return np.log(density)
