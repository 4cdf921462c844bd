"""How far a ranking moved at each K, with p-values, and what the data show against trusting them.

The test has no model behind its null. If a cell's runs in both tables have one true accuracy and
one distribution of noise, whatever its shape, it is chance which of them stand in which table.
Dealing them out anew, cell by cell, gives tables that differ by seeds alone and could as well have
been seen. What it takes to get there (one scale, noise of one size) is in
`docs/explanation/analysis.md`, with what is lost on the way and how often what is said is wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, special

from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.concordance import (
    MIN_CELLS,
    Floats,
    Ints,
    dense_codes,
    top_sizes,
    top_tau,
)
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.ranking import (
    agreement_frame,
    between_seeds,
    resampled_agreement,
    seed_jackknife,
    top_masks,
)
from rebench.analysis.replicates import bootstrap_p_values, shared_seed_bias, with_replicates
from rebench.analysis.seed_noise import Rng, SeedNoise, means_of, pooled, pooled_sd, reach
from rebench.errors import InputError

__all__ = ["Exchange", "exchange_p_values", "holm", "rank_curve", "unchanged"]

# With fewer, the test rarely sees a change as large as the noise of a run; how rarely is in
# `docs/explanation/analysis.md`.
_FEW_CELLS: Final = 50
# What is said of a table is wrong of one clean table in a hundred.
_SURE: Final = 0.01
# But a seed that favours some cells is believed sooner: three seeds, the fewest that show it, do so
# late, and the jackknife that follows costs few findings.
_FAVOURED: Final = 0.05
_FEWEST_SEEDS: Final = 3
_MARKED: Final = 1.1
_COVERED: Final = 0.95
_DEALS: Final = 199
# So many draws and what was seen make a p-value of .05.
_FEWEST_DRAWS: Final = 19
# Variances below this share of what is usual are too small.
_QUIETER: Final = 0.8
# A run is far below the best run of its cell: so far in standard deviations of a run.
_FAR: Final = 7.0
# Differences between tables beyond so many median distances count as these, not to hide others.
_CLIPPED: Final = 4.0
# Cells that the effect of unequal noise is simulated with.
_MODELLED: Final = 2000
# Noise that differs by less than this is not mentioned.
_UNEQUAL: Final = 1.5
# The same of noise that differs by rank: by how much, from the cells in which one table is the
# noisier one to those in which the other is, as a logarithm. Without a change it is .2 to .8, up to
# 2.7 between recipes of the table `mini`.
_UNEVEN: Final = 3.0
_LEAST_SD: Final = 1e-3
# More ways to deal out the runs of a cell than this are sampled.
_MAX_DEALS: Final = 2000
_AT_ONCE: Final = 1 << 20
# Knots of the map between the two scales: one for so many cells, and no more than these.
_CELLS_A_KNOT: Final = 8
_MAX_KNOTS: Final = 12
_SCORES: Final = special.ndtri((np.arange(16) + 0.5) / 16)


def rank_curve(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 1000,
    rng: Rng = None,
) -> tuple[pd.DataFrame, list[str]]:
    """`agreement` and p-values at each K, and notes on what to doubt.

    `p_value` and `p_family` are those of no change by `exchange_p_values`; NaN where they are
    refused (`_doubts`). The interval of `drop` allows for unequal noise (`_excess`). Where the
    effect of a seed differs between cells, p-values are the larger ones of `seed_jackknife`, and
    the interval of `drop` is the wider one; those of `_of_few_seeds` with fewer than three seeds.
    """
    if draws and draws < _FEWEST_DRAWS:
        raise InputError(
            f"draws must be at least {_FEWEST_DRAWS}, or 0 for no intervals, got {draws}"
        )
    rng = np.random.default_rng(rng)
    paired, lacking = _without_gaps(paired)
    paired, collapsed = _without_outliers(paired)
    notes = lacking + collapsed
    single = sum(not table.has_seeds for table in (paired.before, paired.after))
    cells, told = with_replicates(paired, rng.spawn(1)[0] if single else None)
    replicated = cells is not paired
    agreed, classes = resampled_agreement(cells, top_percent, by=by, draws=draws, rng=rng)
    curve = agreement_frame(agreed, classes, top_percent)
    notes += told
    if not (cells.before.has_seeds or cells.after.has_seeds):
        return curve.assign(p_value=np.nan, p_family=np.nan), notes
    if len(cells) < _FEW_CELLS:
        notes.append(f"with {len(cells)} cells the test of movement sees only large changes")
    if (known := len(cells.repeated)) < len(cells):
        notes.append(f"tau and noise are of the {known} cells that have two seeds in both tables")
    if len(cells) < _FEW_CELLS:  # percentiles of few cells are skewed, as less of them is
        half = np.fmax(curve["drop"] - curve["drop_low"], curve["drop_high"] - curve["drop"])
        curve["drop_low"], curve["drop_high"] = curve["drop"] - half, curve["drop"] + half
    excess = _excess(cells, top_percent, by, rng.spawn(1)[0])
    if replicated:
        excess += shared_seed_bias(top_percent, single)
    curve["drop_low"] -= excess
    if replicated:
        curve["p_value"], curve["p_family"] = bootstrap_p_values(agreed.drop, excess)
        return curve, notes
    found = _doubts(paired, rng)
    p_values = exchange_p_values(
        paired, top_percent, by=by, draws=max(draws, _FEWEST_DRAWS), rng=rng
    )
    for name, exchanged in zip(("p_value", "p_family"), p_values, strict=True):
        curve[name] = np.nan if found.refused else exchanged
    if found.by_seed:
        curve = _widened_by_seeds(curve, paired, top_percent, by)
    return curve, [*notes, *found.notes]


def _widened_by_seeds(
    curve: pd.DataFrame, paired: Paired, top_percent: Sequence[float], by: Selection
) -> pd.DataFrame:
    """Allow for seeds whose effect differs between cells: wider intervals, larger p-values."""
    if _fewest_seeds(paired) >= _FEWEST_SEEDS:
        by_seed = seed_jackknife(paired, top_percent, by=by)
        half = (by_seed["drop_high"] - by_seed["drop"]).to_numpy()
        p_value = by_seed["p_value"].fillna(0).to_numpy()
    else:
        share, p_value = _of_few_seeds(paired, top_percent, by)
        half = share * np.abs(curve["drop"].to_numpy())
    return curve.assign(
        drop_low=np.fmin(curve["drop_low"], curve["drop"] - half),
        drop_high=np.fmax(curve["drop_high"], curve["drop"] + half),
        p_value=np.maximum(curve["p_value"], p_value),
        p_family=np.maximum(curve["p_family"], p_value),
    )


def _of_few_seeds(
    paired: Paired, top_percent: Sequence[float], by: Selection
) -> tuple[Floats, Floats]:
    """What share of `drop` seeds may explain, and p-values, both [K], if all noise were theirs.

    If all that a seed adds were one pattern over cells, the squared difference between the tables,
    in units of what noise alone gives, would follow F with 1 and as many degrees of freedom as
    seeds leave.
    """
    whole = paired.whole
    a, b = whole.before.centred, whole.after.centred
    means, noise = _means_and_noise(a, _on_scale_of(a, b))
    seeds = [a.shape[1], b.shape[1]]
    wanted = np.maximum(noise[0] / seeds[0] + noise[1] / seeds[1], _LEAST_SD**2)
    squares = (means[0] - means[1]) ** 2 / wanted
    middle = [np.median(squares[rows]) for rows in top_masks(whole, top_percent, by)]
    ratio = np.maximum(middle, _LEAST_SD) / special.chdtri(1, 0.5)
    freedom = sum(seeds) - 2
    return special.fdtri(1, freedom, _COVERED) / ratio, special.fdtrc(1, freedom, ratio)


def _without_gaps(paired: Paired) -> tuple[Paired, list[str]]:
    """The pair, or its cells that lack no run if the bad runs of one table seem to be missing."""
    tables = (paired.before, paired.after)
    sizes = [table.side_by_side[0].size for table in tables]
    lacking = [
        max(size - int(table.counts.sum()), 0) for size, table in zip(sizes, tables, strict=True)
    ]
    if not _differ(lacking, sizes):
        return paired, []
    note = f"{lacking[0]} runs of {tables[0].name} are missing and {lacking[1]} of {tables[1].name}"
    if not _best_are_left(tables[int(np.argmax(lacking))]):
        return paired, [f"{note}: if the bad ones are, their cells look better than they are"]
    told = "the runs of cells that lack one lie closer together than those of other cells"
    return paired.whole, [f"{note}, and {told}: all figures are of the cells that lack none"]


def _best_are_left(table: Accuracies) -> bool:
    """Whether runs of cells that lack some spread less than noise, as if the worst were missing."""
    counts, means = table.counts, table.means
    fewer = (counts >= 2) & (counts < table.side_by_side[0].shape[1])
    freedom = np.maximum(counts - 1, 0)
    squares = np.nansum((table.centred - table.centred_means[:, None]) ** 2, axis=1)
    usual = pooled(np.where(fewer, 0, squares), np.where(fewer, 0, freedom), means)
    known = fewer & (usual > _LEAST_SD**2)
    spread, n = float((squares[known] / usual[known]).sum()), int(freedom[known].sum())
    return bool(n and spread < _QUIETER * n and special.chdtr(n, spread) <= _FAVOURED)


def _without_outliers(paired: Paired) -> tuple[Paired, list[str]]:
    """The pair without runs that collapsed, if one table has more of them than chance explains.

    Such a run lies far below the best run of its cell, compared with the noise of similar cells,
    but has not diverged. The exchange of runs would take it for a change of the ranking.
    """
    tables = (paired.before, paired.after)
    outlying = [_outlying(table) for table in tables]
    counts = [int(own.sum()) for own in outlying]
    runs = [int(table.counts.sum()) for table in tables]
    if not (all(table.has_seeds for table in tables) and _differ(counts, runs)):
        return paired, []
    before, after = (
        replace(table, runs=np.where(own, np.nan, table.runs))
        for table, own in zip(tables, outlying, strict=True)
    )
    note = (
        f"{counts[0]} of {runs[0]} runs of {tables[0].name} and {counts[1]} of {runs[1]} of "
        f"{tables[1].name} lie more than {_FAR:g} standard deviations below the best run of their "
        "cell: these runs are left out of tau, noise, `drop` and the test"
    )
    return replace(paired, before=before, after=after), [note]


def _outlying(table: Accuracies) -> NDArray[np.bool_]:
    """Which runs [cells, seeds] lie far below the best run of their cell, and did not diverge."""
    runs = table.centred
    best = np.nanmax(runs, axis=1)
    several = table.counts >= 2
    if not several.any():
        return np.zeros(runs.shape, dtype=bool)
    freedom = np.maximum(table.counts - 1, 1)
    squares = np.nansum((runs - means_of(runs)[:, None]) ** 2, axis=1)
    # The median of a variance of so many degrees of freedom; collapsed runs do not move it.
    variance = squares / special.chdtri(freedom, 0.5)
    order = np.argsort(np.where(several, best, np.inf), kind="stable")[: several.sum()]
    sd = np.full(len(runs), np.inf)
    size = 2 * reach(len(order)) + 1
    sd[order] = np.sqrt(ndimage.median_filter(variance[order], size=size, mode="mirror"))
    far: NDArray[np.bool_] = best[:, None] - runs > _FAR * np.maximum(sd, _LEAST_SD)[:, None]
    return far if table.diverged is None else far & ~table.diverged


def _excess(
    paired: Paired, top_percent: Sequence[float], by: Selection, rng: np.random.Generator
) -> Floats:
    """By how much seed tau exceeds tau [K] without a change, where noise is unequal.

    Of two cells a run of one table tells the better one with some certainty g, a run of the other
    with h; tau is the mean of g h over pairs of cells, and the geometric mean of the means of g^2
    and h^2 is more than that (Cauchy-Schwarz). How much more is simulated (`SeedNoise`).
    """
    if not (paired.before.has_seeds and paired.after.has_seeds):
        return np.zeros(len(top_percent))
    tables = [paired.before.centred, _on_scale_of(paired.before.centred, paired.after.centred)]
    rows = np.arange(len(paired))
    if len(rows) > _MODELLED:
        rows = rng.choice(rows, _MODELLED, replace=False)
    draws = int(np.clip(10 * _MODELLED // len(rows), 10, 100))
    true = SeedNoise.fit(tables[0][rows]).true_means(draws, rng).reshape(-1, 1)
    first, second = (
        true + np.tile(pooled_sd(own)[rows], draws)[:, None] * rng.standard_normal((len(true), 2))
        for own in tables
    )
    sample = np.arange(len(true)).reshape(draws, -1)
    parts = [(sample, list(top_percent))]
    if paired.third is not None:  # which chooses the same cells in every draw
        masks = top_masks(paired, top_percent)
        parts = [(sample[:, own[rows]], [100.0]) for own in masks if own[rows].any()]
    less = [
        between_seeds(first, second, own, top, by=by, seeds=((0, 1), (2, 3))).drop
        for own, top in parts
    ]
    found = np.nan_to_num(np.concatenate(less, axis=1).mean(axis=0))
    return np.maximum(found, 0)


class _Doubts(NamedTuple):
    """What to say, and what follows from it."""

    notes: tuple[str, ...]
    refused: bool
    """Whether no p-value can be given."""
    by_seed: bool
    """Whether the effect of a seed differs between cells: these are then not independent."""


def _doubts(paired: Paired, rng: np.random.Generator) -> _Doubts:
    """Look for one-sided divergence, unequal noise, missing runs and seeds that favour cells."""
    tables = (paired.before, paired.after)
    notes = []
    failed = [_failed_by_chance(table) for table in tables]
    runs = [int(table.counts.sum()) for table in tables]
    diverged = _differ(failed, runs)
    if diverged:
        notes.append(
            f"{failed[0]} of {runs[0]} runs of {tables[0].name} diverged where other seeds of the "
            f"cell did not, and {failed[1]} of {runs[1]} of {tables[1].name}: which cells fail is "
            "chance of a kind that the other table does not show, so no p-value is given; leave "
            "these runs out of both to compare the others"
        )
    several = [table for table in tables if table.has_seeds]
    sds = [float(np.median(table.run_sd)) for table in several]
    if len(sds) == 2 and max(sds) > _UNEQUAL * min(sds):
        notes.append(
            f"standard deviations of a run: {several[0].name} {sds[0]:.2g}, {several[1].name} "
            f"{sds[1]:.2g}; the interval of `drop` allows for it"
        )
    uneven = len(several) == 2 and _noise_by_rank(paired) > _UNEVEN
    if uneven:
        notes.append(
            f"where {several[0].name} is noisy {several[1].name} is not, and the other way round, "
            "on a scale that makes their accuracies alike: one of them saturates, so runs cannot "
            "be exchanged: no p-value is given, and `drop` may differ from 0 where nothing changed"
        )
    favoured = _favoured(paired, rng) <= _FAVOURED
    if not favoured and _fewest_seeds(paired) == 2 and len(paired) < _FEW_CELLS:
        notes.append(
            f"with two seeds and {len(paired)} cells it cannot be checked whether the effect of a "
            "seed differs between cells: intervals may be too narrow"
        )
    if favoured:
        notes.append(
            f"seeds of {tables[0].name} or of {tables[1].name} seem to favour some cells: "
            + (
                "p-values and intervals of `drop` allow for it by a jackknife"
                if _fewest_seeds(paired) >= _FEWEST_SEEDS
                else "p-values and intervals of `drop` allow for all noise to be of this kind, "
                "which is much; three seeds of each table would say how much is"
            )
        )
    return _Doubts(tuple(notes), diverged or uneven, favoured)


def _failed_by_chance(table: Accuracies) -> int:
    """How many runs diverged of cells that have runs that did not."""
    if table.diverged is None:
        return 0
    failed = table.diverged & np.isfinite(table.runs)
    return int(failed[failed.sum(axis=1) < table.counts].sum())


def _noise_by_rank(paired: Paired) -> float:
    """How much the two tables' noise differs from cell to cell, on one scale, as a logarithm."""
    scaled = _on_scale_of(paired.before.centred, paired.after.centred)
    own, other = paired.before.run_sd, pooled_sd(scaled)
    known = (own > _LEAST_SD) & (other > _LEAST_SD)
    if not known.any():
        return 0.0
    low, high = np.quantile(np.log(other[known] / own[known]), [0.1, 0.9])
    return float(high - low)


def _differ(counts: list[int], of: list[int]) -> bool:
    """Whether two shares differ by more than chance: the exact test of one, given their sum."""
    if min(of) == 0:
        return False
    high = int(counts[1] * of[0] > counts[0] * of[1])
    # Given the sum, the larger count is binomial if the shares are equal.
    share = of[high] / sum(of)
    return bool(special.bdtrc(counts[high] - 1, sum(counts), share) <= _SURE) and counts[high] > 0


def _favoured(paired: Paired, rng: np.random.Generator) -> float:
    """P-value of a seed's favouring some cells over others, beyond what it adds to all.

    If so, what it adds is one pattern over cells, and likely the same in both tables: of the
    residuals of all runs, in standard deviations of a run, one singular value is large, larger than
    where the residuals of every class of cells are dealt to other seeds of their table. Two seeds
    leave one column of residuals: the difference between the tables is then one more.
    """
    whole = paired.whole
    tables = [table for table in (whole.before, whole.after) if len(table.seeds) > 1]
    if not tables:
        return 1.0
    residuals = [
        (table.centred - table.centred_means[:, None]) / table.run_sd[:, None] for table in tables
    ]
    columns = residuals
    if _fewest_seeds(paired) < _FEWEST_SEEDS:
        first = whole.before.centred
        means, noise = _means_and_noise(first, _on_scale_of(first, whole.after.centred))
        apart = (means[0] - means[1]) / np.sqrt(np.maximum(noise.sum(axis=0), _LEAST_SD**2))
        apart -= np.median(apart)
        most = _CLIPPED * np.median(np.abs(apart))
        apart = np.clip(apart, -most, most)
        columns = [*residuals, apart[:, None] / max(apart.std(), _LEAST_SD)]
    orders = [np.tile(np.arange(len(t.seeds)), (whole.classes.max() + 1, 1)) for t in tables]

    def squares(deals: int) -> Floats:
        dealt = [
            np.take_along_axis(
                rest[None],
                rng.permuted(np.tile(order, (deals, 1, 1)), axis=2)[:, whole.classes],
                axis=2,
            )
            for rest, order in zip(residuals, orders, strict=True)
        ]
        apart = [np.broadcast_to(x, (len(dealt[0]), *x.shape)) for x in columns[len(residuals) :]]
        together = np.concatenate([*dealt, *apart], axis=2)
        return np.swapaxes(together, 1, 2) @ together

    seen = np.concatenate(columns, axis=1)
    step = max(1, _AT_ONCE // seen.size)
    null = [squares(min(step, _DEALS - start)) for start in range(0, _DEALS, step)]
    largest = np.linalg.eigvalsh(np.concatenate([(seen.T @ seen)[None], *null]))[:, -1]
    # What large tables show of two seeds may be too little to matter.
    little = len(columns) > len(residuals) and largest[0] < _MARKED * np.median(largest[1:])
    return 1.0 if little else float((largest >= largest[0] - 1e-9).mean())


def _fewest_seeds(paired: Paired) -> int:
    return min(len(table.seeds) for table in (paired.whole.before, paired.whole.after))


def exchange_p_values(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 999,
    rng: Rng = None,
) -> tuple[Floats, Floats]:
    """P-values [K] of no change, one-sided: single, and adjusted for looking at every K.

    The null hypothesis: on some common scale, every cell has one true accuracy in both tables. The
    statistic is tau of the means over seeds, which see most. Adjusted is by the distribution of the
    largest drop over all K (Westfall & Young 1993). NaN where fewer than `MIN_CELLS` cells are
    left, and where neither table has two seeds of a cell: then nothing says what noise is.
    """
    rng = np.random.default_rng(rng)
    sizes = top_sizes(len(paired), top_percent)
    masks = None if paired.third is None else top_masks(paired, top_percent)

    def curves(first: Ints, second: Ints) -> tuple[Floats, Ints]:
        if masks is None:
            return top_tau(first, second, sizes, by)
        own = [top_tau(first[:, rows], second[:, rows], [rows.sum()]) for rows in masks]
        return np.hstack([tau for tau, _ in own]), np.hstack([taken for _, taken in own])

    means = (table.centred_means[None] for table in (paired.before, paired.after))
    observed, taken = curves(*map(dense_codes, means))
    enough = (taken[0] >= MIN_CELLS) & (paired.before.has_seeds or paired.after.has_seeds)
    p_value, p_family = np.full((2, len(enough)), np.nan)
    if enough.any():
        exchange = Exchange.build(paired.before.centred, paired.after.centred, paired.classes, rng)
        dealt = np.concatenate([curves(*tables)[0] for tables in exchange.draw(draws, rng)])
        p_value[enough], p_family[enough] = _p_values(observed[0, enough], dealt[:, enough])
    return p_value, p_family


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Every way to deal out the runs of each cell, as codes that order as the means do."""

    n_deals: Ints
    """[cells] how many ways there are."""
    blocks: Ints
    """[cells] numbers of the blocks of cells that are dealt alike."""
    first: Ints
    """[cells, deals] of the means of the runs dealt to the first table."""
    second: Ints
    """[cells, deals] of the means of the others."""

    @classmethod
    def build(cls, a: Floats, b: Floats, classes: Ints, rng: np.random.Generator) -> Exchange:
        """Prepare `centred` [cells, seeds] of the same cells, NaN where a seed is missing.

        `rng` is used only where there are too many deals to list. Cells of one of the `classes`
        (numbers [cells]) with as many runs are dealt alike, whatever their runs have in common.
        """
        b = _on_scale_of(a, b)
        counts = np.stack([np.isfinite(a).sum(axis=1), np.isfinite(b).sum(axis=1)], axis=1)
        runs = np.concatenate([a, b], axis=1)
        centre, apart = unchanged(a, b, counts)
        kinds = np.unique(counts, axis=0)
        listed = [_deals(int(k_a), int(k_b), rng) for k_a, k_b in kinds]
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
        """Deal all runs out anew `draws` times; yield codes [some draws, cells] of both tables."""
        cells = np.arange(len(self.n_deals))
        _, one_of_each = np.unique(self.blocks, return_index=True)
        step = max(1, _AT_ONCE // len(cells))
        for start in range(0, draws, step):
            size = (min(step, draws - start), len(one_of_each))
            deal = rng.integers(0, self.n_deals[one_of_each], size=size)[:, self.blocks]
            yield self.first[cells, deal], self.second[cells, deal]


def _deals(k_a: int, k_b: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[deals, k_a + k_b]: which runs the first table gets; all ways, or a sample."""
    total = k_a + k_b
    if math.comb(total, k_a) > _MAX_DEALS:
        order = np.argsort(rng.random((_MAX_DEALS, total)), axis=1)
        return np.asarray(order < k_a)
    chosen = list(itertools.combinations(range(total), k_a))
    deals = np.zeros((len(chosen), total), dtype=bool)
    for row, places in enumerate(chosen):
        deals[row, places] = True
    return deals


def _on_scale_of(a: Floats, b: Floats) -> Floats:
    """Bring `b` to the scale of `a`: equal quantiles of cell means are made equal.

    Means of noisier runs are spread wider, which is no matter of scale: where both tables show
    their noise, the quantiles are those that means would have if all were as noisy as the noisier.
    """
    plain = _matched(a, b, np.zeros((2, len(a))))
    if not all((np.isfinite(x).sum(axis=1) >= 2).any() for x in (a, b)):
        return plain
    of_a, of_b, own = (pooled_sd(x) / np.sqrt(np.isfinite(x).sum(axis=1)) for x in (a, plain, b))
    noisy = np.minimum(np.minimum(of_a, of_b), own) > _LEAST_SD
    more = np.where(noisy, of_b**2 - of_a**2, 0)
    spread = np.sqrt(np.maximum([more, -more], 0))
    return _matched(a, b, spread * [np.ones(len(a)), own / of_b])


def _matched(a: Floats, b: Floats, spread: Floats) -> Floats:
    """`b` mapped, monotone and linear between few knots, so that quantiles of means are equal.

    To the means of both tables normal noise of standard deviations `spread` [2, cells] is added.
    """
    n_knots = max(2, min(_MAX_KNOTS, len(a) // _CELLS_A_KNOT + 1))
    shares = np.linspace(0, 1, n_knots)
    to, at = (
        np.quantile(means_of(x)[:, None] + sd[:, None] * _SCORES, shares)
        for x, sd in zip((a, b), spread, strict=True)
    )
    distinct = np.concatenate([[True], np.diff(at) > 1e-9])
    to, at = to[distinct], at[distinct]
    if len(at) == 1:
        return np.asarray(b - at[0] + to[0])
    place = np.clip(np.searchsorted(at, b, side="right") - 1, 0, len(at) - 2)
    slope = np.diff(to) / np.diff(at)
    return to[place] + slope[place] * (b - at[place])  # beyond the ends too


def unchanged(a: Floats, b: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """What means look like without a change: their centre [cells], and what is added to it.

    Given a cell's true accuracy in both tables, its mean weighted by precision says all about it
    that the runs say, and the means differ with variance s_a/k_a + s_b/k_b, of which each table
    has its part. Dealt out at random they differ with S (1/k_a + 1/k_b), S the variance of all
    runs of a cell: so differences [2, cells] are multiplied by the root of the ratio. S is no more
    than chance allows: else a change of the ranking would pass for noise.
    """
    k = counts.T
    means, noise = _means_and_noise(a, b)
    parts = noise / k
    wanted = np.maximum(parts.sum(axis=0), _LEAST_SD**2)
    centre = (means * parts[::-1]).sum(axis=0) / wanted
    within = ((k - 1) * noise).sum(axis=0)
    between = wanted * k.prod(axis=0) / k.sum(axis=0)
    dealt = (within + between) / (k.sum(axis=0) - 1) * (1 / k).sum(axis=0)
    factor = np.sqrt(wanted / dealt)
    if len(a) >= _FEW_CELLS:  # the scales of fewer cells cannot be told from a change
        seen = pooled((means[0] - means[1]) ** 2 / wanted, np.ones(len(a)), centre)
        most = special.chdtri(freedom := 2 * reach(len(a)) + 1, _SURE / 10) / freedom
        beyond = (within + between * np.maximum(seen, most)) / (within + between * most)
        factor /= np.sqrt(beyond)
    return centre, np.stack([parts[0], -parts[1]]) / wanted * factor


def _means_and_noise(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Means of cells and variances of a run, both [2, cells], of tables on one scale.

    A table without noise of its own is taken to have the other's.
    """
    known = [pooled_sd(x) ** 2 for x in (a, b) if (np.isfinite(x).sum(axis=1) >= 2).any()]
    return np.stack([means_of(a), means_of(b)]), np.stack([known[0], known[-1]])


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values for having made all these tests (Holm, Scand. J. Statist. 1979).

    A test that gave no p-value (NaN) is none.
    """
    plain = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(plain.shape, np.nan)
    places = np.flatnonzero(np.isfinite(plain))
    order = places[np.argsort(plain[places], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * plain[order]), 1)
    return adjusted


def _p_values(observed: Floats, null: Floats) -> tuple[Floats, Floats]:
    """One-sided p-values [K] (tau lower than the null's), raw and for the whole family of K."""
    # A constant column has no tau: nothing is lower.
    known = np.where(np.isfinite(null), null, 1.0)
    # The observed curve is one of the draws in every step, or few draws would reject too often.
    curves = np.vstack([known, np.nan_to_num(observed, nan=1.0)])
    scale = np.maximum(curves.std(axis=0), 1e-12)
    drops = (np.median(curves, axis=0) - curves) / scale
    p_value = (drops >= drops[-1] - 1e-9).mean(axis=0)
    largest = drops.max(axis=1)
    p_family = (largest[:, None] >= drops[-1] - 1e-9).mean(axis=0)
    return p_value, p_family
