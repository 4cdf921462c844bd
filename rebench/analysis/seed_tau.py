"""Agreement of two rankings between runs of different seeds, compared with seed tau.

`tau` is Kendall's tau-b between a run of each cell under one recipe and a run under the other, with
different seeds. It is the mean over pairs of seeds. `seed_tau` is the same tau between runs of one
recipe: the geometric mean of both recipes. If both recipes rank all cells equally, tau is about
seed tau. `drop` is seed tau minus tau. The drop shrinks as noise grows. Therefore `corrected_tau`,
tau divided by seed tau, is reported too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.paired import Chooser, Columns, Paired, choosers_of, measured
from rebench.analysis.seed_noise import Rng
from rebench.analysis.tau import (
    MIN_CELLS,
    Floats,
    Ints,
    chosen_curves,
    resampled_curves,
    tau_curves,
    top_mask,
    top_sizes,
)
from rebench.intervals import student_reach
from rebench.tables.seed_effects import TIE_WIDTH, means_of

__all__ = [
    "MOST_FOR_P_VALUES",
    "TauSamples",
    "affordable",
    "agreement",
    "agreement_frame",
    "at_k",
    "between_seeds",
    "of_both_recipes",
    "of_means",
    "resampled",
    "resampled_agreement",
    "run_pairs",
    "seed_agreement",
    "seed_jackknife",
    "with_interval",
]

# Largest number of resampled cells in all draws together. Large tables have narrow intervals, so
# fewer draws are made.
_MOST_RESAMPLED: Final = 1 << 21
MOST_FOR_P_VALUES: Final = 1 << 24
"""The same limit if the draws give the p-values: 1,496 draws of all cells with an equal cell."""
_FEWEST_DRAWS: Final = 100
"""Fewest samples of a percentile interval; with fewer, the interval is Student's."""
_FEWEST_CHOSEN: Final = 40
# Coverage of every interval.
_LEVEL: Final = 0.95
# Corrected tau is computed only if seed tau is above this value.
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
    baseline: Floats,
    other: Floats,
    sample: Ints,
    top_percent: Sequence[float],
    *,
    seeds: tuple[Sequence[int] | Ints, Sequence[int] | Ints] | None = None,
    choosers: Sequence[Chooser] = (),
    chosen_draws: int = _FEWEST_DRAWS,
) -> TauSamples:
    """Return tau and seed tau of two tables in samples of their cells.

    Below K = 100, the values are means over the choosers.

    Args:
        baseline: [cells, seeds] accuracies; NaN where a cell has fewer runs.
        other: [cells, seeds] accuracies of the same cells. If one table has a single seed, seed tau
            is that of the other table.
        sample: [samples, cells] rows of both tables.
        top_percent: the values of K.
        seeds: the seeds of both tables, [seeds] or [cells, seeds]; if None, the numbers of the
            columns.
        choosers: rankings that select the top K %; if empty, the first column of each pair selects.
        chosen_draws: number of samples, after the first, in which the choosers select. The values
            of further samples are NaN.
    """
    given = seeds or (range(baseline.shape[1]), range(other.shape[1]))
    names = [np.broadcast_to(own, x.shape) for own, x in zip(given, (baseline, other), strict=True)]
    tables = ((baseline, names[0]), (other, names[1]))
    return _averaged(tables, sample, top_percent, choosers, chosen_draws)


def _averaged(
    tables: Sequence[tuple[Floats, Ints]],
    sample: Ints,
    top_percent: Sequence[float],
    choosers: Sequence[Chooser],
    chosen_draws: int,
) -> TauSamples:
    """Return `between_seeds` of runs and seeds [cells, seeds] of two tables, or of one table."""
    if not choosers:
        return _agreement(tables, sample, top_percent)
    whole = np.asarray(top_percent) >= 100
    parts = []
    if whole.any():
        parts.append(_agreement(tables, sample, [100.0] * whole.sum()))
    if not whole.all():
        some = sample[: 1 + chosen_draws]
        smaller = [percent for percent in top_percent if percent < 100]
        by_each = [_agreement(tables, some, smaller, chooser) for chooser in choosers]
        parts.append(
            TauSamples(
                np.mean([part.tau for part in by_each], axis=0),
                np.mean([part.seed_tau for part in by_each], axis=0),
                np.min([part.n_cells for part in by_each], axis=0),
            )
        )
    return _joined(parts, whole)


def _agreement(
    tables: Sequence[tuple[Floats, Ints]],
    sample: Ints,
    top_percent: Sequence[float],
    chooser: Chooser | None = None,
) -> TauSamples:
    """Return `_averaged` with one chooser, or with none. Tau of one table is NaN."""
    tau, seed_tau = np.full((2, len(sample), len(top_percent)), np.nan)
    n_cells = np.array(top_sizes(sample.shape[1], top_percent))
    known = []
    for side in range(len(tables)):
        own = _curves(tables, (side, side), sample, top_percent, chooser)
        if own:
            known.append(np.array([tau for tau, _ in own]))
            n_cells = own[0][1][0]
    if known:
        alike = len(known) == 1 or np.array_equal(tables[0][1], tables[1][1])
        seed_tau = of_both_recipes(known[0], known[-1], alike=alike)
    if len(tables) == 2:
        crossed = _curves(tables, (0, 1), sample, top_percent, chooser)
        tau = np.mean([tau for tau, _ in crossed], axis=0)
        n_cells = crossed[0][1][0]
    return TauSamples(tau, seed_tau, n_cells)


def _curves(
    tables: Sequence[tuple[Floats, Ints]],
    sides: tuple[int, int],
    sample: Ints,
    top_percent: Sequence[float],
    chooser: Chooser | None,
) -> list[tuple[Floats, Ints]]:
    """Return tau and numbers of cells, [samples, K], for each pair of columns of two tables."""
    a, b = sides
    (first, mine), (second, its) = tables[a], tables[b]
    left_out = ((), ()) if chooser is None else (chooser.left_out[a], chooser.left_out[b])
    pairs = run_pairs(first, second, mine, its, same=a == b, left_out=left_out)
    runs = [(x, y) for _, x, y in pairs]
    return _best_curves(runs, sample, top_percent, chooser)


def _best_curves(
    runs: Sequence[tuple[Floats, Floats]],
    sample: Ints,
    top_percent: Sequence[float],
    chooser: Chooser | None,
) -> list[tuple[Floats, Ints]]:
    """Return tau among the best cells of a chooser, or of the first column of each pair."""
    if chooser is None:
        return resampled_curves(runs, sample, top_percent)
    return chosen_curves(runs, sample, top_percent, chooser.scores)


def of_both_recipes(first: Floats, second: Floats, *, alike: bool) -> Floats:
    """Return seed tau from tau (or overlap) between the runs of each table, [pairs of seeds, ...].

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


def run_pairs(
    first: Floats,
    second: Floats,
    mine: Ints,
    its: Ints,
    same: bool,
    left_out: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Iterator[tuple[tuple[int, int], Floats, Floats]]:
    """Yield pairs of columns and their runs [cells] with different seeds.

    Up to nine columns, these are all pairs. More columns are placed on a circle, and only near
    columns are paired, so the number of pairs does not grow with the square of the number of seeds.

    Some cells have no run in one of the two columns, or the same seed in both. For such a cell,
    its least used pair of runs is taken instead. `same`: both arguments are the same table.
    Columns that are `left_out` only serve cells that have no other pair of runs.
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
    out = np.array([i in left_out[0] or j in left_out[1] for i, j in pairs])
    kept = np.flatnonzero((share >= often) & (share > 0) & ~out)
    used = np.where(seen, np.where(fair, 0, len(first)), np.inf)
    used[out] += 2 * len(first)
    used[kept] += fair[kept]
    cells = np.arange(len(first))
    places = np.array(pairs)
    for pair in kept if len(kept) else np.flatnonzero(~out)[:1]:
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
        One row per K: `top_percent`, `n_cells`, `corrected_tau`, and `tau`, `seed_tau` and `drop`
        with `_low` and `_high` (bootstrap over functional classes; each draw selects its top K %).
        NaN for fewer than `MIN_CELLS` cells; `seed_tau` is also NaN if no table has two seeds.
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
) -> tuple[TauSamples, int]:
    """Return the agreement in all cells and in bootstrap samples, and the number of classes.

    `most` limits the number of resampled cells in all draws together.
    """
    compared = paired.repeated
    n = len(compared)
    rng = np.random.default_rng(rng)
    whole = np.asarray(top_percent) >= 100
    if paired.choosers and len(paired.choosing) < n and not whole.all():
        smaller = [percent for percent in top_percent if percent < 100]
        parts = []
        for part, percents in ((paired, [100.0] * whole.sum()), (paired.choosing, smaller)):
            if percents:
                found, _ = resampled_agreement(part, percents, draws=draws, rng=rng, most=most)
                parts.append(found)
        return _joined(parts, whole), int(compared.classes.max()) + 1
    sample = resampled(compared.classes, affordable(draws, n, most), rng)
    (first, mine), (second, its) = paired.columns
    agreed = between_seeds(
        first,
        second,
        sample,
        top_percent,
        seeds=(mine, its),
        choosers=paired.choosers,
        chosen_draws=_affordable_chosen(draws, n, top_percent, most),
    )
    return agreed, int(compared.classes.max()) + 1


def _joined(parts: Sequence[TauSamples], whole: NDArray[np.bool_]) -> TauSamples:
    """Return one result for all K from those of K = 100 and of smaller K, in this order.

    One part may be missing. Samples that only one part has are NaN in the other.
    """
    tau, seed_tau = np.full((2, max(len(part.tau) for part in parts), len(whole)), np.nan)
    n_cells = np.zeros(len(whole), dtype=np.int64)
    columns = [own for own in (whole, ~whole) if own.any()]
    for part, own in zip(parts, columns, strict=True):
        tau[: len(part.tau), own] = part.tau
        seed_tau[: len(part.tau), own] = part.seed_tau
        n_cells[own] = part.n_cells
    return TauSamples(tau, seed_tau, n_cells)


def _affordable_chosen(
    draws: int, n_cells: int, top_percent: Sequence[float], most: int = _MOST_RESAMPLED
) -> int:
    """Return the number of draws in which choosers select: each K costs its share of the cells."""
    together = sum(percent for percent in top_percent if percent < 100)
    cells = math.ceil(n_cells * max(together, 100) / 100)
    return min(draws, max(_FEWEST_CHOSEN, most // cells))


def affordable(draws: int, n_cells: int, most: int = _MOST_RESAMPLED) -> int:
    """Return the number of draws, limited by the number of resampled cells in all draws."""
    return min(draws, max(_FEWEST_DRAWS, most // n_cells))


def seed_agreement(
    paired: Paired, top_percent: Sequence[float], *, draws: int, rng: Rng = None
) -> pd.DataFrame:
    """Return seed tau of one table, paired with itself.

    Returns:
        One row per K: `top_percent`, `n_cells`, and `seed_tau` with `_low` and `_high` (bootstrap
        over functional classes, each draw with its own top K %). NaN where no cell has two seeds.
    """
    own = paired.repeated
    rng = np.random.default_rng(rng)
    smaller = [percent for percent in top_percent if percent < 100]
    if paired.choosers and len(paired.choosing) < len(own) and smaller:
        frames = [seed_agreement(paired.choosing, smaller, draws=draws, rng=rng)]
        if len(smaller) < len(top_percent):
            frames.append(seed_agreement(paired, [100.0], draws=draws, rng=rng))
        return pd.concat(frames).set_index("top_percent").loc[list(top_percent)].reset_index()
    sample = resampled(own.classes, affordable(draws, len(own)), rng)
    tables = [own.baseline.side_by_side]
    few = _affordable_chosen(draws, len(own), top_percent)
    agreed = _averaged(tables, sample, top_percent, paired.choosers, few)
    classes = int(own.classes.max()) + 1
    return pd.DataFrame(
        {"top_percent": percent, "n_cells": n, **with_interval("seed_tau", column, classes)}
        for percent, n, column in zip(top_percent, agreed.n_cells, agreed.seed_tau.T, strict=True)
    )


def agreement_frame(agreed: TauSamples, classes: int, top_percent: Sequence[float]) -> pd.DataFrame:
    """Return the rows of `agreement`."""
    return pd.DataFrame(
        [
            {"top_percent": percent, **at_k(agreed, column, min(classes, agreed.n_cells[column]))}
            for column, percent in enumerate(top_percent)
        ]
    )


def at_k(
    agreed: TauSamples, column: int, n: int | None = None, level: float = _LEVEL
) -> dict[str, float]:
    """Return numbers at one K: of cells, corrected tau; tau, seed tau and drop with intervals."""
    row: dict[str, float] = {"n_cells": int(agreed.n_cells[column])}
    for name, drawn in (("tau", agreed.tau), ("seed_tau", agreed.seed_tau), ("drop", agreed.drop)):
        row |= with_interval(name, drawn[:, column], n, level)
    corrected = row["tau"] / row["seed_tau"] if row["seed_tau"] > _LEAST else math.nan
    return row | {"corrected_tau": corrected}


def of_means(paired: Paired, top_percent: Sequence[float] = TOP_PERCENT) -> pd.DataFrame:
    """Return the agreement of means over seeds, as papers report it; more seeds raise it.

    Returns:
        One row per K: `top_percent`, `means_tau`, `spearman` and `weighted_tau` (of scipy; the
        best cells have the largest weights).
    """
    tables = (paired.baseline.means, paired.other.means)
    rows = []
    for percent in top_percent:
        row: dict[str, float]
        if percent >= 100 or not paired.choosers:
            row = _means_agreement(*tables, top_mask(tables[0], percent))
        else:
            several = []
            for chooser in paired.choosers:
                first, second = map(means_of, measured(paired.choosing.columns, chooser))
                several.append(_means_agreement(first, second, top_mask(chooser.scores, percent)))
            row = pd.DataFrame(several).mean(skipna=False).to_dict()
        rows.append({"top_percent": percent, **row})
    return pd.DataFrame(rows)


def _means_agreement(first: Floats, second: Floats, best: NDArray[np.bool_]) -> dict[str, float]:
    """Return the measures of `of_means` for the best of the means [cells]."""
    from scipy import stats  # seconds to load

    x, y = first[best], second[best]
    row = {"means_tau": math.nan, "spearman": math.nan, "weighted_tau": math.nan}
    if len(x) >= MIN_CELLS and min(np.ptp(x), np.ptp(y)) >= TIE_WIDTH:
        row["means_tau"] = float(tau_curves(x[None], y[None], [100.0])[0][0, 0])
        row["spearman"] = float(stats.spearmanr(x, y).statistic)
        row["weighted_tau"] = float(stats.weightedtau(x, y).statistic)
    return row


def seed_jackknife(paired: Paired, top_percent: Sequence[float] = TOP_PERCENT) -> pd.DataFrame:
    """Return `drop` with a jackknife over seeds: each seed is omitted once.

    Returns:
        One row per K: `top_percent`, `drop`, `drop_low`, `drop_high` and `p_value` (one-sided).
        Student's t has one degree of freedom less than the smaller number of seeds. The interval
        and `p_value` are NaN if a table has fewer than three seeds.
    """
    whole = paired.whole
    first, second = whole.baseline, whole.other
    cells = np.arange(len(whole))[None]
    names = (first.seeds, second.seeds)
    value = between_seeds(
        first.runs, second.runs, cells, top_percent, seeds=names, choosers=whole.choosers
    ).drop[0]
    k = min(len(first.seeds), len(second.seeds))
    variance = np.full(len(value), np.nan)
    if k >= 3:
        by_run = len(whole.choosers) > 1
        chooser = whole.choosers[0] if len(whole.choosers) == 1 else None
        variance = _jackknife_variance(whole, cells, top_percent, chooser)
        smaller = [percent for percent in top_percent if percent < 100]
        if by_run and smaller:
            chosen = np.asarray(top_percent) < 100
            variance[chosen] = _chosen_variance(whole, cells, smaller)
    error = np.sqrt(variance)
    half = (student_reach(k - 1) if k > 1 else math.nan) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = special.stdtr(max(k - 1, 1), -value / error)
    columns = {"drop": value, "drop_low": value - half, "drop_high": value + half}
    return pd.DataFrame({"top_percent": list(top_percent), **columns, "p_value": p_value})


def _chosen_variance(whole: Paired, cells: Ints, top_percent: Sequence[float]) -> Floats:
    """Return `_jackknife_variance` if runs of the baseline select the cells.

    The omitted run of the baseline selects the cells: it is not measured.
    """
    first, second = whole.columns

    def drop(columns: Columns, choosers: Sequence[Chooser]) -> Floats:
        runs, seeds = columns
        agreed = between_seeds(
            first[0], runs, cells, top_percent, seeds=(first[1], seeds), choosers=choosers
        )
        return agreed.drop[0]

    drops = [drop(second, [chooser]) for chooser in whole.choosers]
    variance: Floats = (first[0].shape[1] - 1) * np.var(drops, axis=0)
    if not whole.shared_seeds:
        count = second[0].shape[1]
        drops = []
        for omitted in range(count):
            kept = (np.delete(second[0], omitted, axis=1), np.delete(second[1], omitted, axis=1))
            drops.append(drop(kept, choosers_of(first, kept)))
        variance += (count - 1) * np.var(drops, axis=0)
    return variance


def _jackknife_variance(
    whole: Paired, cells: Ints, top_percent: Sequence[float], chooser: Chooser | None
) -> Floats:
    """Return the variance [K] of the drop of complete tables by a jackknife over seeds."""
    tables = (whole.baseline, whole.other)
    columns, taus = [], []
    for a, b in ((0, 1), (0, 0), (1, 1)):
        first, second = tables[a].runs, tables[b].runs
        mine = np.broadcast_to(tables[a].seeds, first.shape)
        its = np.broadcast_to(tables[b].seeds, second.shape)
        pairs = list(run_pairs(first, second, mine, its, same=a == b))
        runs = [(x, y) for _, x, y in pairs]
        curves = _best_curves(runs, cells, top_percent, chooser)
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
            seed_tau = of_both_recipes(kept[1], kept[2], alike=whole.shared_seeds)
            drops.append(seed_tau - kept[0].mean(axis=0))
        variance += (len(drops) - 1) * np.var(drops, axis=0)
    return variance


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
    this for correct coverage. If few of the samples have a value, the interval is Student's. The
    ends are `_low` and `_high`. They are NaN for one unit, because its samples are all equal.
    """
    tail = (1 - level) / 2
    if n is not None and n > 1:
        tail = float(special.ndtr(-math.sqrt(n / (n - 1)) * student_reach(n - 1, level)))
    known = drawn[1:][np.isfinite(drawn[1:]) & np.isfinite(drawn[0]) & (n != 1)]
    if 1 < len(known) < min(_FEWEST_DRAWS, len(drawn) - 1):  # too few for percentiles
        half = student_reach(len(known) - 1, level) * known.std(ddof=1)
        low, high = drawn[0] - half, drawn[0] + half
    else:
        low, high = np.quantile(known, [tail, 1 - tail]) if len(known) else (math.nan, math.nan)
    return {name: float(drawn[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
