"""Tau-b of bootstrap samples of cells: the cells keep their order, only their weights change.

A bootstrap sample is a table in which a cell stands as often as it was drawn. All that depends on
order alone is therefore worked out once, and a draw costs a few gathers and one cumulative sum: no
sorting. `rebench.analysis.concordance` does tables that differ from draw to draw;
`docs/explanation/analysis.md` says how both count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebench.analysis.choices import Selection
from rebench.analysis.concordance import Floats, Ints, tau_of_sums

__all__ = ["resampled_tau"]

Small = NDArray[np.int32]


def resampled_tau(
    first: Ints,
    second: Ints,
    sizes: Sequence[int],
    by: Selection,
    *,
    draws: int,
    classes: Ints | None = None,
    rng: np.random.Generator,
) -> Floats:
    """Return tau-b [draws, sizes] of tables of cells, or classes, drawn with replacement.

    Args:
        first: [n] codes (integers that order as the values do) of the benchmark.
        second: [n] codes of the re-trained table.
        sizes: how many cells are the top K %; a draw's own cells are the best of its sample, with
            those that tie with the last one.
        by: which table decides the top K %.
        draws: how many samples.
        classes: [n] numbers from 0 of the classes of cells; every cell its own if None. A class is
            drawn with all its cells, so samples differ in size: the tops grow and shrink with them.
        rng: source of the samples.
    """
    n = len(first)
    groups = np.arange(n) if classes is None else classes
    n_groups = int(groups.max()) + 1
    tables = _Tables.build(first, second)
    wanted = np.asarray(sizes, dtype=np.float64)
    found = np.empty((draws, len(sizes)))
    for row in range(draws):
        times = np.bincount(rng.integers(0, n_groups, size=n_groups), minlength=n_groups)
        weights = times.astype(np.int32)[groups]
        reached = np.ceil(wanted * (int(weights.sum()) / n) - 1e-9).astype(np.int64)
        found[row] = tables.tau(weights, reached, by)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    """Cells sorted by one column, best first, and among equals by the other, best first."""

    cells: Ints
    """[n] the cell at each place."""
    starts: Ints
    """[n] first place of the run of equal values that the place belongs to."""
    ends: Ints
    """[n] last place of that run."""

    @classmethod
    def build(cls, values: Ints, then: Ints) -> _Order:
        cells = np.lexsort((-then, -values))
        ordered = values[cells]
        edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        bounds = np.concatenate([[0], edges, [len(values)]])
        lengths = np.diff(bounds)
        return cls(
            cells=cells,
            starts=np.repeat(bounds[:-1], lengths),
            ends=np.repeat(bounds[1:] - 1, lengths),
        )

    def levels(self, reached: Small, sizes: Ints) -> Ints:
        """Return, per place, the first of the ascending `sizes` whose top has it.

        `reached` are the weights up to and with each place; a size that none has is len(sizes).
        """
        last = self.ends[np.searchsorted(reached, sizes)]
        lengths = np.diff(last, prepend=-1, append=len(reached) - 1)
        return np.repeat(np.arange(len(sizes) + 1), lengths)

    def equals_before(self, reached: Small) -> Small:
        """Return, per place, the weight of the equal values before it."""
        up_to = np.concatenate([np.zeros(1, dtype=np.int32), reached])
        return up_to[:-1] - up_to[self.starts]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tables:
    """Two columns of the same cells, with everything about their order."""

    by_first: _Order
    by_second: _Order
    second_to_first: Ints
    """[n] the place by the second column of the cell at each place by the first."""
    both: Ints
    """[n] first place, by the first column, of the run of cells equal in both."""
    better: _BetterBefore

    @classmethod
    def build(cls, first: Ints, second: Ints) -> _Tables:
        n = len(first)
        by_first, by_second = _Order.build(first, second), _Order.build(second, first)
        place = np.empty(n, dtype=np.int64)
        place[by_second.cells] = np.arange(n)
        # Among equals of the second column the later place comes first, so that no equal counts.
        ordered = second[by_first.cells]
        rank = np.empty(n, dtype=np.int64)
        rank[np.lexsort((-np.arange(n), -ordered))] = np.arange(n)
        return cls(
            by_first=by_first,
            by_second=by_second,
            second_to_first=place[by_first.cells],
            both=_Order.build(first * n + second, np.zeros(n, dtype=np.int64)).starts,
            better=_BetterBefore.build(rank),
        )

    def tau(self, weights: Small, sizes: Ints, by: Selection) -> Floats:
        """Return tau-b [sizes] of the table in which each cell stands `weights` [n] times."""
        ordered = weights[self.by_first.cells]
        reached = np.cumsum(ordered, dtype=np.int32)
        other_reached = np.cumsum(weights[self.by_second.cells], dtype=np.int32)
        ascending, back = np.unique(sizes, return_inverse=True)
        level = self._levels(reached, other_reached, ascending, by)

        tied_first = self.by_first.equals_before(reached)
        tied_second = self.by_second.equals_before(other_reached)[self.second_to_first]
        up_to = np.concatenate([np.zeros(1, dtype=np.int32), reached])
        tied_both = up_to[:-1] - up_to[self.both]
        # What comes before a cell and beats it by the second column, less equals by the first.
        concordant = self.better.count(ordered) - (tied_first - tied_both)

        times = ordered.astype(np.float64)
        copies = times * (times - 1) / 2  # a cell ties with itself, drawn again
        sums = [
            np.cumsum(np.bincount(level, values, minlength=len(ascending) + 1)[:-1])
            for values in (
                times,
                times * (2 * concordant + tied_first + tied_second - tied_both) + copies,
                times * tied_first + copies,
                times * tied_second + copies,
            )
        ]
        return tau_of_sums(*sums)[back]

    def _levels(self, reached: Small, other_reached: Small, sizes: Ints, by: Selection) -> Ints:
        """Return, for each place by the first column, the first of `sizes` whose top has it."""
        if by == "benchmark":
            return self.by_first.levels(reached, sizes)
        other = self.by_second.levels(other_reached, sizes)[self.second_to_first]
        if by == "retrained":
            return other
        return np.minimum(self.by_first.levels(reached, sizes), other)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BetterBefore:
    """For a fixed permutation: the weight of the smaller values before each value.

    Ranks share their bits down to some bit, where the smaller one has 0 and the larger one 1. So
    each 1 in a rank asks for one stretch of places: those before it, of ranks with the same higher
    bits and a 0 there. Laid side by side, all stretches of all bits lie in one array, and are
    differences of its cumulative sum.
    """

    zeros: Ints
    """The places of the ranks with a 0, for each bit, sorted by higher bits, then place."""
    start: Ints
    """[questions] where in `zeros` each question's stretch starts, in order of places."""
    stop: Ints
    """[questions] and where it ends."""
    first_question: Ints
    """[places with a question] where in `start` the questions of each place begin."""
    places: Ints
    """[places with a question]; rank 0 alone asks nothing."""

    @classmethod
    def build(cls, rank: Ints) -> _BetterBefore:
        n = len(rank)
        zeros, asked, start, stop = [], [], [], []
        offset = 0
        for bit in range(max(1, (n - 1).bit_length())):
            order = np.argsort(rank >> (bit + 1), kind="stable")
            higher, is_one = rank[order] >> (bit + 1), (rank[order] >> bit & 1).astype(bool)
            block = np.searchsorted(higher, higher[is_one])
            before = np.concatenate([[0], np.cumsum(~is_one)])
            zeros.append(order[~is_one])
            asked.append(order[is_one])
            start.append(offset + before[block])
            stop.append(offset + before[:-1][is_one])
            offset += len(zeros[-1])
        place = np.concatenate(asked)
        by_place = np.argsort(place, kind="stable")
        places, first_question = np.unique(place[by_place], return_index=True)
        return cls(
            zeros=np.concatenate(zeros),
            start=np.concatenate(start)[by_place],
            stop=np.concatenate(stop)[by_place],
            first_question=first_question,
            places=places,
        )

    def count(self, weights: Small) -> Ints:
        """Return, per place, the weight before it of smaller ranks; `weights` are per place."""
        total = np.zeros(len(self.zeros) + 1, dtype=np.int32)
        np.cumsum(weights[self.zeros], out=total[1:])
        found = np.zeros(len(weights), dtype=np.int64)
        if len(self.places):
            stretches = total[self.stop] - total[self.start]
            found[self.places] = np.add.reduceat(stretches, self.first_question)
        return found
