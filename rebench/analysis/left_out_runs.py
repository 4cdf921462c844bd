"""Omission of runs from a comparison: one table lacks bad runs, or contains collapsed runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from rebench.analysis.common_scale import LEAST_SD
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_noise import pooled, reach
from rebench.tables.seed_effects import means_of

__all__ = ["differ", "without_gaps", "without_outliers"]

# Level of the test of `differ`: 1 % false alarms.
_SURE: Final = 0.01
# Level of the test for missing bad runs; it is higher because the consequence costs little power.
_LIKELY: Final = 0.05
# Variances below this share of the usual variance are too small.
_QUIETER: Final = 0.8
# Distance of a collapsed run from the best run of its cell, in standard deviations of a run.
_FAR: Final = 7.0


def without_gaps(paired: Paired) -> tuple[Paired, list[str]]:
    """Return the pair; keep only cells without gaps if one table seems to lack its bad runs."""
    tables = (paired.baseline, paired.other)
    sizes = [table.side_by_side[0].size for table in tables]
    lacking = [
        max(size - int(table.counts.sum()), 0) for size, table in zip(sizes, tables, strict=True)
    ]
    if not differ(lacking, sizes):
        return paired, []
    note = " and ".join(
        f"{count} runs of {table.name}"
        for count, table in zip(lacking, tables, strict=True)
        if count
    )
    if not _best_are_left(tables[int(np.argmax(lacking))]):
        return paired, [
            f"{note} are missing: if these are bad runs, the means of their cells are too high"
        ]
    told = "The other runs of these cells differ less than usual, as if the worst runs were missing"
    return paired.whole, [
        f"{note} are missing. {told}: all figures are of the cells without missing runs"
    ]


def _best_are_left(table: Accuracies) -> bool:
    """Return whether cells with missing runs vary too little, as if the worst runs are missing."""
    counts, means = table.counts, table.means
    fewer = (counts >= 2) & (counts < table.side_by_side[0].shape[1])
    freedom = np.maximum(counts - 1, 0)
    squares = np.nansum((table.centred - table.centred_means[:, None]) ** 2, axis=1)
    usual = pooled(np.where(fewer, 0, squares), np.where(fewer, 0, freedom), means)
    known = fewer & (usual > LEAST_SD**2)
    spread, n = float((squares[known] / usual[known]).sum()), int(freedom[known].sum())
    return bool(n and spread < _QUIETER * n and special.chdtr(n, spread) <= _LIKELY)


def without_outliers(paired: Paired) -> tuple[Paired, list[str]]:
    """Omit collapsed runs if one table has significantly more of them than the other.

    A collapsed run did not diverge, but is far below the best run of its cell, compared with the
    noise of similar cells. The permutation test would count it as a change of the ranking.
    """
    tables = (paired.baseline, paired.other)
    outlying = [_outlying(table) for table in tables]
    counts = [int(own.sum()) for own in outlying]
    runs = [int(table.counts.sum()) for table in tables]
    if not (all(table.has_seeds for table in tables) and differ(counts, runs)):
        return paired, []
    baseline, other = (
        replace(table, runs=np.where(own, np.nan, table.runs))
        for table, own in zip(tables, outlying, strict=True)
    )
    note = (
        f"{counts[0]} of {runs[0]} runs of {tables[0].name} and {counts[1]} of {runs[1]} of "
        f"{tables[1].name} are more than {_FAR:g} standard deviations below the best run of their "
        "cell: these runs are omitted from tau, seed tau, `drop` and the test"
    )
    return replace(paired, baseline=baseline, other=other), [note]


def _outlying(table: Accuracies) -> NDArray[np.bool_]:
    """Return a mask [cells, seeds] of runs far below the best run of their cell, not diverged."""
    runs = table.centred
    best = np.nanmax(runs, axis=1)
    several = table.counts >= 2
    if not several.any():
        return np.zeros(runs.shape, dtype=bool)
    freedom = np.maximum(table.counts - 1, 1)
    squares = np.nansum((runs - means_of(runs)[:, None]) ** 2, axis=1)
    # Divide by the median of chi-squared. The median over similar cells ignores collapsed runs.
    variance = squares / special.chdtri(freedom, 0.5)
    order = np.argsort(np.where(several, best, np.inf), kind="stable")[: several.sum()]
    sd = np.full(len(runs), np.inf)
    size = 2 * reach(len(order)) + 1
    sd[order] = np.sqrt(ndimage.median_filter(variance[order], size=size, mode="mirror"))
    far: NDArray[np.bool_] = best[:, None] - runs > _FAR * np.maximum(sd, LEAST_SD)[:, None]
    return far if table.diverged is None else far & ~table.diverged


def differ(counts: list[int], of: list[int]) -> bool:
    """Return whether two shares differ significantly, by an exact one-sided conditional test."""
    if min(of) == 0:
        return False
    high = int(counts[1] * of[0] > counts[0] * of[1])
    # Given the sum, the larger count is binomial if the shares are equal.
    share = of[high] / sum(of)
    return bool(special.bdtrc(counts[high] - 1, sum(counts), share) <= _SURE) and counts[high] > 0
