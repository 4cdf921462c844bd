"""A permutation test of no change: the runs of each cell are exchanged between two tables.

The test assumes no distribution of noise. Under the null hypothesis all runs of a cell have the
same distribution in both tables. The assignment of the runs to the tables is then random. New
random assignments, cell by cell, give tables that differ only by seeds and are equally likely.
`docs/explanation/test.md` describes the test and its conditions (one scale, noise of one size).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.common_scale import on_scale_of, unchanged
from rebench.analysis.p_values import p_values_of
from rebench.analysis.paired import Chooser, Paired, measured
from rebench.analysis.seed_noise import Rng
from rebench.analysis.tau import (
    MIN_CELLS,
    Floats,
    Ints,
    dense_codes,
    top_mask,
    top_sizes,
    top_tau,
)
from rebench.tables.seed_effects import centred, means_of

__all__ = ["Exchange", "exchange_p_values"]

# With more assignments of the runs of a cell than this, a random sample is used.
_MAX_DEALS: Final = 2000
# The same for all cells together: the codes of all assignments need 80 bytes each.
_MAX_CODES: Final = 1 << 22
_AT_ONCE: Final = 1 << 20
# With more cells than this among the best K %, the test uses a random sample of them. Without a
# change, tau of 2,000 cells then has a standard deviation of 0.002 to 0.006.
_MOST_CELLS: Final = 2000


def exchange_p_values(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    draws: int = 999,
    rng: Rng = None,
) -> tuple[Floats, Floats]:
    """Return one-sided p-values [K] of no change: raw, and adjusted for all K.

    The null hypothesis: on some common scale, every cell has one true accuracy in both tables. The
    statistic is tau of the means over seeds, which has the most power. Of many cells, a sample is
    used (`_MOST_CELLS`). The adjustment uses the distribution of the largest drop over all K
    (Westfall & Young 1993). If runs of the baseline select the top K %, each of them gives a test
    without this run, and the p-value is the geometric mean over these tests. P-values are NaN for
    fewer than `MIN_CELLS` cells, and if no table has two seeds of a cell, since noise is then
    unknown.
    """
    percents = np.asarray(top_percent, dtype=np.float64)
    p_values = np.full((2, len(percents)), np.nan)
    if not (paired.baseline.has_seeds or paired.other.has_seeds):
        return p_values[0], p_values[1]
    rng = np.random.default_rng(rng)
    runs = [paired.baseline.centred, paired.other.centred]
    whole = percents >= 100
    if len(paired.choosers) < 2 or whole.all():
        third = None if paired.third is None else Chooser(paired.third)
        tests = [_exchanged(runs, paired.classes, percents, third, draws, rng)]
    else:
        tests = []
        of_all = _exchanged(runs, paired.classes, percents[whole], None, draws, rng)
        for chooser in paired.choosers:
            kept = [centred(own) for own in measured(paired.choosing.columns, chooser)]
            classes = paired.choosing.classes
            chosen = _exchanged(kept, classes, percents[~whole], chooser, draws, rng)
            both = np.empty((2 + draws, len(percents)))
            both[:, whole] = of_all
            both[:, ~whole] = chosen
            tests.append(both)
    enough = tests[0][0] >= MIN_CELLS
    if enough.any():
        found = [p_values_of(test[1, enough], test[2:, enough]) for test in tests]
        p_values[:, enough] = np.prod(found, axis=0) ** (1 / len(found))
    return p_values[0], p_values[1]


def _exchanged(
    runs: Sequence[Floats],
    classes: Ints,
    top_percent: Floats,
    chooser: Chooser | None,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return [2 + draws, K]: numbers of cells, tau of the means, and tau after each exchange."""
    found = np.empty((2 + draws, len(top_percent)))
    if not len(top_percent):
        return found
    n_cells = len(classes)
    masks = [np.ones(n_cells, dtype=bool)]
    sizes = top_sizes(n_cells, top_percent.tolist())
    if chooser is not None or top_percent.min() >= 100:
        scores = np.zeros(n_cells) if chooser is None else chooser.scores
        masks = [_best(scores, percent, rng) for percent in top_percent]
        sizes = [n_cells]
    first, second = (dense_codes(means_of(own)[None]) for own in runs)
    dealt = Exchange.build(runs[0], runs[1], classes, rng).draw(draws, rng)
    at = 1
    for a, b in itertools.chain([(first, second)], dealt):
        rows = slice(at, at + len(a))
        at += len(a)
        curves = [top_tau(a[:, own], b[:, own], sizes) for own in masks]
        found[rows] = np.hstack([tau for tau, _ in curves])
        if rows.start == 1:
            found[0] = np.hstack([taken[0] for _, taken in curves])
    return found


def _best(scores: Floats, percent: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of the top K % by `scores` [cells], or of a random sample of `_MOST_CELLS`."""
    best = top_mask(scores, percent)
    rows = np.flatnonzero(best)
    if len(rows) > _MOST_CELLS:
        best[rng.permutation(rows)[_MOST_CELLS:]] = False
    return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Assignments of the runs of each cell to two tables, as codes in the order of the means."""

    n_deals: Ints
    """[cells] number of possible assignments of the runs of each cell."""
    blocks: Ints
    """[cells] number of the block of each cell; the cells of a block get the same assignment."""
    first: Ints
    """[cells, deals] codes of the means of the runs that the first table gets."""
    second: Ints
    """[cells, deals] codes of the means of the other runs."""

    @classmethod
    def build(cls, a: Floats, b: Floats, classes: Ints, rng: np.random.Generator) -> Exchange:
        """Prepare `centred` [cells, seeds] of the same cells, NaN where a seed is missing.

        `rng` is used only if there are too many assignments to list. Cells with the same class
        (`classes`, numbers [cells]) and the same numbers of runs get the same assignment.
        """
        b = on_scale_of(a, b)
        counts = np.stack([np.isfinite(a).sum(axis=1), np.isfinite(b).sum(axis=1)], axis=1)
        runs = np.concatenate([a, b], axis=1)
        centre, apart = unchanged(a, b, counts)
        kinds = np.unique(counts, axis=0)
        most = min(_MAX_DEALS, _MAX_CODES // len(a))
        listed = [_deals(int(k_a), int(k_b), most, rng) for k_a, k_b in kinds]
        means = np.zeros((2, len(a), max(len(deals) for deals in listed)))
        n_deals = np.empty(len(a), dtype=np.int64)
        for kind, deals in zip(kinds, listed, strict=True):
            rows = np.flatnonzero((counts == kind).all(axis=1))
            seen = runs[rows]
            values = seen[np.isfinite(seen)].reshape(len(rows), kind.sum())
            n_deals[rows] = len(deals)
            difference = values @ (deals / kind[0] - ~deals / kind[1]).T
            for side in (0, 1):
                dealt = centre[rows, None] + apart[side, rows, None] * difference
                means[side, rows, : len(deals)] = dealt
        first, second = (dense_codes(table.reshape(1, -1)).reshape(table.shape) for table in means)
        alike = np.column_stack([classes, counts])
        blocks = np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1)
        return cls(n_deals=n_deals, blocks=blocks, first=first, second=second)

    def draw(self, draws: int, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
        """Yield codes [some draws, cells] of both tables, for `draws` random assignments."""
        cells = np.arange(len(self.n_deals))
        _, one_of_each = np.unique(self.blocks, return_index=True)
        step = max(1, _AT_ONCE // len(cells))
        for start in range(0, draws, step):
            size = (min(step, draws - start), len(one_of_each))
            deal = rng.integers(0, self.n_deals[one_of_each], size=size)[:, self.blocks]
            yield self.first[cells, deal], self.second[cells, deal]


def _deals(k_a: int, k_b: int, most: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return masks [deals, k_a + k_b] of the runs that the first table gets: all, or a sample."""
    total = k_a + k_b
    if math.comb(total, k_a) > most:
        order = np.argsort(rng.random((most, total)), axis=1)
        return np.asarray(order < k_a)
    chosen = list(itertools.combinations(range(total), k_a))
    deals = np.zeros((len(chosen), total), dtype=bool)
    for row, places in enumerate(chosen):
        deals[row, places] = True
    return deals
