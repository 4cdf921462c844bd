"""Agreement of two rankings between runs of different seeds, compared with seed tau.

`tau` is Kendall's tau-b between a run of each cell under one recipe and a run under the other, with
different seeds. It is the mean over pairs of seeds. `seed_tau` is the same tau between runs of one
recipe: the geometric mean of both recipes. If both recipes rank all cells equally, tau is about
seed tau. `drop` is seed tau minus tau. The drop shrinks as noise grows. Therefore `ratio`, tau
divided by seed tau, is reported too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.concordance import (
    MIN_CELLS,
    Floats,
    Ints,
    resampled_curves,
    tau_curves,
    top_mask,
    top_sizes,
)
from rebench.analysis.paired import Paired
from rebench.analysis.seed_noise import Rng
from rebench.intervals import student_reach
from rebench.tables.seed_effects import TIE_WIDTH

__all__ = [
    "MOST_FOR_P_VALUES",
    "TauSamples",
    "affordable",
    "agreement",
    "agreement_frame",
    "at_k",
    "between_seeds",
    "of_means",
    "resampled",
    "resampled_agreement",
    "seed_agreement",
    "seed_jackknife",
    "top_masks",
    "with_interval",
]

# Largest number of resampled cells in all draws together. Large tables have narrow intervals, so
# fewer draws are made.
_MOST_RESAMPLED: Final = 1 << 21
MOST_FOR_P_VALUES: Final = 1 << 24
"""The same limit if the draws give the p-values: 1,496 draws of all cells with an equal cell."""
_FEWEST_DRAWS: Final = 100
# Coverage of every interval.
_LEVEL: Final = 0.95
# The ratio is computed only if seed tau is above this value.
_LEAST: Final = 0.1
# A pair of columns of runs is used if at least this share of the cells has two runs of different
# seeds there. `_MOST` applies if both columns have the same number.
_SOME: Final = 0.1
_MOST: Final = 0.5
# Largest number of pairs of runs in one table, for up to 36 seeds: that of all pairs of nine seeds.
_MOST_PAIRS: Final = 36


class TauSamples(NamedTuple):
    """Tau between two tables and seed tau, in samples of their cells."""

    tau: Floats
    """[samples, K]"""
    seed_tau: Floats
    """[samples, K]; NaN where neither table has two seeds."""
    n_cells: Ints
    """[K] of the first sample."""

    @property
    def drop(self) -> Floats:
        """Return seed tau minus tau [samples, K]."""
        return self.seed_tau - self.tau


def between_seeds(
    before: Floats,
    after: Floats,
    sample: Ints,
    top_percent: Sequence[float],
    *,
    seeds: tuple[Sequence[int] | Ints, Sequence[int] | Ints] | None = None,
) -> TauSamples:
    """Return tau and seed tau of two tables in samples of their cells.

    Args:
        before: [cells, seeds] accuracies; NaN where a cell has fewer runs.
        after: [cells, seeds] accuracies of the same cells. If one table has a single seed, seed tau
            is that of the other table.
        sample: [samples, cells] rows of both tables.
        top_percent: the values of K.
        seeds: the seeds of both tables, [seeds] or [cells, seeds]; if None, the numbers of the
            columns.
    """
    given = seeds or (range(before.shape[1]), range(after.shape[1]))
    names = [np.broadcast_to(own, x.shape) for own, x in zip(given, (before, after), strict=True)]

    def curves(first: int, second: int) -> list[tuple[Floats, Ints]]:
        runs, own = (before, after), names
        pairs = _run_pairs(runs[first], runs[second], own[first], own[second], first == second)
        return resampled_curves([(x, y) for _, x, y in pairs], sample, top_percent)

    crossed = curves(0, 1)
    tau: Floats = np.mean([tau for tau, _ in crossed], axis=0)
    own = [np.array([tau for tau, _ in curves(side, side)]) for side in (0, 1)]
    known = [taus for taus in own if len(taus)]
    seed_tau: Floats = np.full(tau.shape, np.nan)
    if known:
        alike = len(known) == 1 or np.array_equal(names[0], names[1])
        seed_tau = _seed_tau(known[0], known[-1], alike=alike)
    return TauSamples(tau, seed_tau, crossed[0][1][0])


def _seed_tau(first: Floats, second: Floats, *, alike: bool) -> Floats:
    """Return seed tau from tau between the runs of each table, [pairs of seeds, ...].

    If both tables have the same seeds (`alike`), their equal pairs of seeds are combined.
    Otherwise each pair of one table is combined with each pair of the other.
    """
    first, second = np.clip(first, 0, 1), np.clip(second, 0, 1)
    if alike and len(first) == len(second):
        both: Floats = np.sqrt(first * second).mean(axis=0)
        return both
    # The mean over all combinations is a product of two means.
    separate: Floats = np.sqrt(first).mean(axis=0) * np.sqrt(second).mean(axis=0)
    return separate


def _run_pairs(
    first: Floats, second: Floats, mine: Ints, its: Ints, same: bool
) -> Iterator[tuple[tuple[int, int], Floats, Floats]]:
    """Yield pairs of columns and their runs [cells] with different seeds.

    Up to nine columns, these are all pairs. More columns are placed on a circle, and only near
    columns are paired, so the number of pairs does not grow with the square of the number of seeds.

    Some cells have no run in one of the two columns, or the same seed in both. For such a cell,
    its least used pair of runs is taken instead. `same`: both arguments are the same table.
    """
    columns = min(first.shape[1], second.shape[1])
    near = max(1, _MOST_PAIRS // columns)
    pairs = []
    for i, j in itertools.product(range(first.shape[1]), range(second.shape[1])):
        distance = min((i - j) % columns, (j - i) % columns)
        if distance <= near and (i < j or not same):
            pairs.append((i, j))
    if not pairs:
        return
    seen = np.array([np.isfinite(first[:, i] + second[:, j]) for i, j in pairs])
    fair = np.array([mine[:, i] != its[:, j] for i, j in pairs]) & seen
    share = fair.mean(axis=1)
    often = np.array([_MOST if i == j else _SOME for i, j in pairs])
    kept = np.flatnonzero((share >= often) & (share > 0))
    used = np.where(seen, np.where(fair, 0, len(first)), np.inf)
    used[kept] += fair[kept]
    cells = np.arange(len(first))
    places = np.array(pairs)
    for pair in kept if len(kept) else [0]:
        taken = np.full(len(first), pair)
        lacking = np.flatnonzero(~fair[pair])
        taken[lacking] = used[:, lacking].argmin(axis=0)
        used[taken[lacking], lacking] += 1
        i, j = places[taken].T
        yield pairs[pair], first[cells, i], second[cells, j]


def agreement(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    draws: int = 1000,
    rng: Rng = None,
) -> pd.DataFrame:
    """Return tau, seed tau and drop of two tables at each K.

    Returns:
        One row per K: `top_percent`, `n_cells`, `ratio`, and `tau`, `seed_tau` and `drop` with
        `_low` and `_high` (bootstrap over functional classes; each draw selects its top K %). NaN
        for fewer than `MIN_CELLS` cells; `seed_tau` is also NaN if no table has two seeds.
    """
    agreed, classes = resampled_agreement(paired, top_percent, draws=draws, rng=rng)
    return agreement_frame(agreed, classes, top_percent)


def resampled_agreement(
    paired: Paired,
    top_percent: Sequence[float],
    *,
    draws: int,
    rng: Rng,
    most: int = _MOST_RESAMPLED,
) -> tuple[TauSamples, list[int]]:
    """Return the agreement in all cells and in bootstrap samples, and the number of classes [K].

    `most` limits the number of resampled cells in all draws together.
    """
    rng = np.random.default_rng(rng)
    if paired.third is not None:
        several = []
        for rows in top_masks(paired.third, top_percent):
            part = replace(paired.take(rows), third=None)
            several.append(resampled_agreement(part, (100.0,), draws=draws, rng=rng, most=most))
        taus = np.full((2, max(len(agreed.tau) for agreed, _ in several), len(several)), np.nan)
        for column, (agreed, _) in enumerate(several):  # a selection of fewer cells has more draws
            taus[:, : len(agreed.tau), column] = agreed.tau[:, 0], agreed.seed_tau[:, 0]
        n_cells = np.concatenate([agreed.n_cells for agreed, _ in several])
        return TauSamples(taus[0], taus[1], n_cells), [classes[0] for _, classes in several]
    compared = paired.repeated
    sample = resampled(compared.classes, affordable(draws, len(compared), most), rng)
    (first, mine), (second, its) = paired.columns
    agreed = between_seeds(first, second, sample, top_percent, seeds=(mine, its))
    return agreed, [int(compared.classes.max()) + 1] * len(top_percent)


def affordable(draws: int, n_cells: int, most: int = _MOST_RESAMPLED) -> int:
    """Return the number of draws, limited by the number of resampled cells in all draws."""
    return min(draws, max(_FEWEST_DRAWS, most // n_cells))


def seed_agreement(
    paired: Paired, top_percent: Sequence[float], *, draws: int, rng: Rng = None
) -> pd.DataFrame:
    """Return seed tau of one table, paired with itself, among the best cells of each run.

    Returns:
        One row per K: `top_percent`, `n_cells`, and `seed_tau` with `_low` and `_high` (bootstrap
        over functional classes, each draw with its own top K %). NaN where no cell has two seeds.
    """
    own = paired.repeated
    sample = resampled(own.classes, affordable(draws, len(own)), np.random.default_rng(rng))
    runs, seeds = own.before.side_by_side
    pairs = _run_pairs(runs, runs, seeds, seeds, same=True)
    curves = resampled_curves([(x, y) for _, x, y in pairs], sample, top_percent)
    shape = (len(sample), len(top_percent))
    tau = np.mean([np.clip(each, 0, 1) for each, _ in curves] or [np.full(shape, np.nan)], axis=0)
    n_cells = curves[0][1][0] if curves else top_sizes(len(own), top_percent)
    classes = int(own.classes.max()) + 1
    return pd.DataFrame(
        {"top_percent": percent, "n_cells": n, **with_interval("seed_tau", column, classes)}
        for percent, n, column in zip(top_percent, n_cells, tau.T, strict=True)
    )


def agreement_frame(
    agreed: TauSamples, classes: Sequence[int], top_percent: Sequence[float]
) -> pd.DataFrame:
    """Return the rows of `agreement`."""
    return pd.DataFrame(
        [
            {"top_percent": percent, **at_k(agreed, column, classes[column])}
            for column, percent in enumerate(top_percent)
        ]
    )


def at_k(
    agreed: TauSamples, column: int, n: int | None = None, level: float = _LEVEL
) -> dict[str, float]:
    """Return `n_cells`, `ratio`, and `tau`, `seed_tau` and `drop` with intervals at one K."""
    row: dict[str, float] = {"n_cells": int(agreed.n_cells[column])}
    for name, drawn in (("tau", agreed.tau), ("seed_tau", agreed.seed_tau), ("drop", agreed.drop)):
        row |= with_interval(name, drawn[:, column], n, level)
    return row | {"ratio": row["tau"] / row["seed_tau"] if row["seed_tau"] > _LEAST else math.nan}


def of_means(paired: Paired, top_percent: Sequence[float] = TOP_PERCENT) -> pd.DataFrame:
    """Return the agreement of means over seeds, as papers report it; more seeds raise it.

    Returns:
        One row per K: `top_percent`, `means_tau`, `spearman` and `weighted_tau` (of scipy; the
        best cells have the largest weights).
    """
    from scipy import stats  # seconds to load

    if paired.third is not None:
        return _at_each_top(of_means, paired, paired.third, top_percent)
    first, second = paired.before.means, paired.after.means
    taus, taken = tau_curves(first[None], second[None], top_percent)
    rows = []
    for percent, tau, size in zip(top_percent, taus[0], taken[0], strict=True):
        row = {"top_percent": percent, "means_tau": tau, "spearman": np.nan, "weighted_tau": np.nan}
        best = top_mask(first, percent)
        x, y = first[best], second[best]
        if size >= MIN_CELLS and min(np.ptp(x), np.ptp(y)) >= TIE_WIDTH:
            row["spearman"] = float(stats.spearmanr(x, y).statistic)
            row["weighted_tau"] = float(stats.weightedtau(x, y).statistic)
        rows.append(row)
    return pd.DataFrame(rows)


def seed_jackknife(paired: Paired, top_percent: Sequence[float] = TOP_PERCENT) -> pd.DataFrame:
    """Return `drop` with a jackknife over seeds: each seed is omitted once.

    Returns:
        One row per K: `top_percent`, `drop`, `drop_low`, `drop_high` and `p_value` (one-sided).
        Student's t has one degree of freedom less than the smaller number of seeds. The interval
        and `p_value` are NaN if a table has fewer than three seeds.
    """
    if paired.third is not None:
        return _at_each_top(seed_jackknife, paired, paired.third, top_percent)
    whole = paired.whole
    first, second = whole.before, whole.after
    cells = np.arange(len(whole))[None]
    names = (first.seeds, second.seeds)
    value = between_seeds(first.runs, second.runs, cells, top_percent, seeds=names).drop[0]
    k = min(len(first.seeds), len(second.seeds))
    variance = np.full(len(value), np.nan)
    if k >= 3:
        variance = _jackknife_variance(whole, cells, top_percent)
    error = np.sqrt(variance)
    half = (student_reach(k - 1) if k > 1 else math.nan) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = special.stdtr(max(k - 1, 1), -value / error)
    columns = {"drop": value, "drop_low": value - half, "drop_high": value + half}
    return pd.DataFrame({"top_percent": list(top_percent), **columns, "p_value": p_value})


def _jackknife_variance(whole: Paired, cells: Ints, top_percent: Sequence[float]) -> Floats:
    """Return the variance [K] of the drop of complete tables by a jackknife over seeds."""
    tables = (whole.before, whole.after)
    columns, taus = [], []
    for a, b in ((0, 1), (0, 0), (1, 1)):
        first, second = tables[a].runs, tables[b].runs
        mine = np.broadcast_to(tables[a].seeds, first.shape)
        its = np.broadcast_to(tables[b].seeds, second.shape)
        pairs = list(_run_pairs(first, second, mine, its, same=a == b))
        curves = resampled_curves([(x, y) for _, x, y in pairs], cells, top_percent)
        columns.append(np.array([places for places, _, _ in pairs]))
        taus.append(np.array([tau[0] for tau, _ in curves]))
    variance = np.zeros(len(top_percent))
    # If both tables have the same seeds, a seed is omitted from both at once.
    together = ((0, 1),) if whole.shared_seeds else ((0,), (1,))
    for sides in together:
        drops = []
        for omitted in range(len(tables[sides[0]].seeds)):
            crossed = (columns[0][:, sides] != omitted).all(axis=1)
            kept = [taus[0][crossed]]
            for side in (0, 1):
                own = (columns[1 + side] != omitted).all(axis=1) | (side not in sides)
                kept.append(taus[1 + side][own])
            seed_tau = _seed_tau(kept[1], kept[2], alike=whole.shared_seeds)
            drops.append(seed_tau - kept[0].mean(axis=0))
        variance += (len(drops) - 1) * np.var(drops, axis=0)
    return variance


def top_masks(third: Floats, top_percent: Sequence[float]) -> list[NDArray[np.bool_]]:
    """Return a mask of the top K % by the third table [cells], for each K."""
    return [top_mask(third, percent) for percent in top_percent]


def _at_each_top(
    function: Callable[[Paired, Sequence[float]], pd.DataFrame],
    paired: Paired,
    third: Floats,
    top_percent: Sequence[float],
) -> pd.DataFrame:
    """Apply a function of a pair to the top K % by the third table; return a row per K."""
    frames = []
    for rows in top_masks(third, top_percent):
        part = replace(paired.take(rows), third=None)
        frames.append(function(part, (100.0,)))
    return pd.concat(frames, ignore_index=True).assign(top_percent=list(top_percent))


def resampled(classes: Ints, draws: int, rng: np.random.Generator) -> Ints:
    """Return rows [1 + draws, cells]: all cells, then samples of their classes with replacement.

    A class is drawn with all its cells. Each sample is cut at the number of cells of the table.
    """
    n = len(classes)
    sizes = np.bincount(classes)
    picked = rng.integers(0, len(sizes), size=(draws, n))
    if len(sizes) == n:
        return np.concatenate([np.arange(n)[None], picked])
    members, starts = np.argsort(classes, kind="stable"), np.cumsum(sizes) - sizes
    sample = np.empty((1 + draws, n), dtype=np.int64)
    sample[0] = np.arange(n)
    for row, drawn in enumerate(picked, start=1):
        reached = np.cumsum(sizes[drawn])
        taken = drawn[: np.searchsorted(reached, n) + 1]
        first = np.repeat(starts[taken] - (np.cumsum(sizes[taken]) - sizes[taken]), sizes[taken])
        sample[row] = members[(first + np.arange(len(first)))[:n]]
    return sample


def with_interval(
    name: str, drawn: Floats, n: int | None = None, level: float = _LEVEL
) -> dict[str, float]:
    """Return the value `drawn[0]` under `name`, and the percentile interval of the other draws.

    For `n` resampled units the interval is expanded (Hesterberg, Am. Stat. 2015). The percentiles
    move outwards by the ratio of Student's interval to the bootstrap interval. Small samples need
    this for correct coverage. The ends are `_low` and `_high`. They are NaN for one unit, because
    its samples are all equal.
    """
    tail = (1 - level) / 2
    if n is not None and n > 1:
        tail = float(special.ndtr(-math.sqrt(n / (n - 1)) * student_reach(n - 1, level)))
    known = drawn[1:][np.isfinite(drawn[1:]) & np.isfinite(drawn[0]) & (n != 1)]
    low, high = np.quantile(known, [tail, 1 - tail]) if len(known) else (math.nan, math.nan)
    return {name: float(drawn[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
