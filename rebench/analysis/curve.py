"""How far a ranking moved at each K: agreement, p-values, and notes on what to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.common_scale import FEW_CELLS, LEAST_SD, means_and_noise, on_scale_of
from rebench.analysis.concordance import Floats
from rebench.analysis.doubts import FEWEST_SEEDS, doubts_of
from rebench.analysis.exchange import exchange_p_values
from rebench.analysis.left_out import without_gaps, without_outliers
from rebench.analysis.p_values import bootstrap_p_values
from rebench.analysis.paired import Paired
from rebench.analysis.ranking import (
    agreement_frame,
    between_seeds,
    resampled_agreement,
    seed_jackknife,
    top_masks,
)
from rebench.analysis.replicates import shared_seed_bias, with_replicates
from rebench.analysis.seed_noise import Rng, SeedNoise, pooled_sd
from rebench.errors import InputError

__all__ = ["rank_curve"]

_COVERED: Final = 0.95
# So many draws and what was seen make a p-value of .05.
_FEWEST_DRAWS: Final = 19
# Cells that the effect of unequal noise is simulated with.
_MODELLED: Final = 2000


def rank_curve(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 1000,
    rng: Rng = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return `agreement` and p-values at each K, and notes on what to doubt.

    `p_value` and `p_family` are those of no change by `exchange_p_values`; NaN where they are
    refused (`doubts_of`). The interval of `drop` allows for unequal noise (`_excess`). Where a
    table has one run of each cell, equal cells are second runs (`with_replicates`), and p-values
    are those of a bootstrap. Where the effect of a seed differs between cells, p-values are the
    larger ones of `seed_jackknife`, and the interval of `drop` is the wider one; those of
    `_of_few_seeds` with fewer than three seeds.
    """
    if draws and draws < _FEWEST_DRAWS:
        raise InputError(
            f"draws must be at least {_FEWEST_DRAWS}, or 0 for no intervals, got {draws}"
        )
    rng = np.random.default_rng(rng)
    paired, lacking = without_gaps(paired)
    paired, collapsed = without_outliers(paired)
    notes = lacking + collapsed
    single = sum(not table.has_seeds for table in (paired.before, paired.after))
    cells, told = with_replicates(paired, rng.spawn(1)[0] if single else None)
    replicated = cells is not paired
    agreed, classes = resampled_agreement(cells, top_percent, by=by, draws=draws, rng=rng)
    curve = agreement_frame(agreed, classes, top_percent)
    notes += told
    if not (cells.before.has_seeds or cells.after.has_seeds):
        return curve.assign(p_value=np.nan, p_family=np.nan), notes
    if len(cells) < FEW_CELLS:
        notes.append(f"with {len(cells)} cells the test of movement sees only large changes")
        # Percentiles of few cells are skewed, like `drop` of few cells.
        half = np.fmax(curve["drop"] - curve["drop_low"], curve["drop_high"] - curve["drop"])
        curve["drop_low"], curve["drop_high"] = curve["drop"] - half, curve["drop"] + half
    if (known := len(cells.repeated)) < len(cells):
        notes.append(f"tau and noise are of the {known} cells that have two seeds in both tables")
    excess = _excess(cells, top_percent, by, rng.spawn(1)[0])
    if replicated:
        excess += shared_seed_bias(top_percent, single)
    curve["drop_low"] -= excess
    if replicated:
        curve["p_value"], curve["p_family"] = bootstrap_p_values(agreed.drop, excess)
        return curve, notes
    found = doubts_of(paired, rng)
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
    if paired.fewest_seeds >= FEWEST_SEEDS:
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
    means, noise = means_and_noise(a, on_scale_of(a, b))
    seeds = [a.shape[1], b.shape[1]]
    wanted = np.maximum(noise[0] / seeds[0] + noise[1] / seeds[1], LEAST_SD**2)
    squares = (means[0] - means[1]) ** 2 / wanted
    middle = [np.median(squares[rows]) for rows in top_masks(whole, top_percent, by)]
    ratio = np.maximum(middle, LEAST_SD) / special.chdtri(1, 0.5)
    freedom = sum(seeds) - 2
    return special.fdtri(1, freedom, _COVERED) / ratio, special.fdtrc(1, freedom, ratio)


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
    tables = [paired.before.centred, on_scale_of(paired.before.centred, paired.after.centred)]
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
