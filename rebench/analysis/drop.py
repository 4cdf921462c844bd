"""Change of a ranking at each K: agreement, p-values, and notes with warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.common_scale import FEW_CELLS
from rebench.analysis.conditions import doubts_of
from rebench.analysis.left_out_runs import without_gaps, without_outliers
from rebench.analysis.overlap import transfer
from rebench.analysis.p_values import bootstrap_p_values
from rebench.analysis.paired import Chooser, Paired
from rebench.analysis.permutation_test import exchange_p_values
from rebench.analysis.replicates import shared_seed_bias, with_replicates
from rebench.analysis.seed_noise import Rng, SeedNoise, pooled_sd
from rebench.analysis.seed_tau import (
    MOST_FOR_P_VALUES,
    agreement_frame,
    between_seeds,
    resampled_agreement,
    seed_jackknife,
)
from rebench.analysis.tau import Floats, top_sizes
from rebench.errors import InputError
from rebench.tables.seed_effects import means_of

__all__ = ["exchanged", "rank_curve"]

# With 19 draws the smallest p-value is 1 / 20 = 0.05.
_FEWEST_DRAWS: Final = 19
# Largest number of cells in the simulation of unequal noise.
_MODELLED: Final = 2000


def rank_curve(
    paired: Paired,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    draws: int = 1000,
    rng: Rng = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return `agreement` and p-values at each K, and notes with warnings.

    `p_value` and `p_family` come from the permutation test (`exchanged`). The interval of `drop`
    allows for unequal noise (`_excess`) and for effects of a seed that differ between cells. If a
    table has one run of each cell, equal cells are second runs (`with_replicates`). The p-values
    are then those of a bootstrap. `drop_error` is the standard error of `drop`. Overlap and regret
    are those of `transfer`.
    """
    top_sizes(len(paired), top_percent)  # refuses wrong percentages
    if draws and draws < _FEWEST_DRAWS:
        raise InputError(
            f"draws must be at least {_FEWEST_DRAWS}, or 0 for no intervals, got {draws}"
        )
    rng = np.random.default_rng(rng)
    paired, few = _with_two_seeds(paired)
    paired, lacking = without_gaps(paired)
    paired, collapsed = without_outliers(paired)
    notes = few + lacking + collapsed
    single = sum(not table.has_seeds for table in (paired.baseline, paired.other))
    cells, told = with_replicates(paired, rng.spawn(1)[0] if single else None)
    replicated = cells is not paired
    most = {"most": MOST_FOR_P_VALUES} if replicated else {}
    agreed, classes = resampled_agreement(cells, top_percent, draws=draws, rng=rng, **most)
    curve = agreement_frame(agreed, classes, top_percent)
    if cells.choosing_note and min(top_percent, default=100) < 100:
        notes.append(cells.choosing_note)
    notes += told
    if np.isnan(agreed.seed_tau[0]).all():
        curve = curve.assign(drop_error=np.nan, p_value=np.nan, p_family=np.nan)
        return curve.join(transfer(cells, top_percent, draws=draws, rng=rng.spawn(1)[0])), notes
    if len(cells) < FEW_CELLS:
        notes.append(f"with {len(cells)} cells the test detects only large changes")
        # With few cells `drop` and its percentiles are skewed, so the interval is made symmetric.
        half = np.fmax(curve["drop"] - curve["drop_low"], curve["drop_high"] - curve["drop"])
        curve["drop_low"], curve["drop_high"] = curve["drop"] - half, curve["drop"] + half
    known, alone = len(cells.repeated), cells.alone_repeated
    if known < len(cells):
        which = alone.name if alone else "both tables"
        notes.append(f"tau and seed tau are of {known} cells: those with two seeds in {which}")
    if alone and cells.baseline.has_seeds and cells.other.has_seeds:
        notes.append(f"seed tau is that of {alone.name}: too few cells of the other have two seeds")
    excess = _excess(cells, top_percent, rng.spawn(1)[0])
    if replicated:
        excess += shared_seed_bias(top_percent, single)
    curve["drop_low"] -= excess
    if replicated:
        p_values = np.array(bootstrap_p_values(agreed.drop, excess))
    else:
        drop = curve["drop"].to_numpy()
        p_values, half, said = exchanged(paired, top_percent, draws=draws, rng=rng)
        curve["drop_low"] = np.fmin(curve["drop_low"], drop - half)  # NaN is ignored
        curve["drop_high"] = np.fmax(curve["drop_high"], drop + half)
        notes += said
    # The upper half of the interval is 1.96 standard errors.
    curve["drop_error"] = (curve["drop_high"] - curve["drop"]) / special.ndtri(0.975)
    # Tau is between -1 and 1, so `drop` cannot be further from seed tau.
    curve["drop_low"] = np.fmax(curve["drop_low"], curve["seed_tau_low"] - 1)
    curve["drop_high"] = np.fmin(curve["drop_high"], curve["seed_tau_high"] + 1)
    curve["p_value"], curve["p_family"] = p_values
    return curve.join(transfer(cells, top_percent, draws=draws, rng=rng.spawn(1)[0])), notes


def _with_two_seeds(paired: Paired) -> tuple[Paired, list[str]]:
    """Return the pair, and a note; keep only cells with two seeds if most cells have one."""
    known = paired.repeated
    if not paired.mostly_single:
        return paired, []
    told = f"{len(known)} of {len(paired)} cells have two seeds"
    return known, [f"{told}: tau, seed tau, `drop` and the test are of these cells"]


def exchanged(
    paired: Paired,
    top_percent: Sequence[float],
    *,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Return p-values [2, K], raw and adjusted for all K, half widths [K], and notes.

    The p-values are those of `exchange_p_values`, or NaN if `doubts_of` refuses the test. If the
    effect of a seed differs between cells, p-values are raised by `seed_jackknife`. The interval of
    `drop` [K] then has at least the half width, else NaN.
    """
    found = doubts_of(paired, rng)
    draws = max(draws, _FEWEST_DRAWS)
    p_values = np.array(exchange_p_values(paired, top_percent, draws=draws, rng=rng))
    half = np.full(len(top_percent), np.nan)
    p_least = np.zeros(len(top_percent))
    if found.by_seed:
        by_seed = seed_jackknife(paired, top_percent)
        half = (by_seed["drop_high"] - by_seed["drop"]).to_numpy()
        p_least = by_seed["p_value"].fillna(0).to_numpy()
    if found.refused:
        p_values[:] = np.nan
    return np.maximum(p_values, p_least), half, found.notes


def _excess(paired: Paired, top_percent: Sequence[float], rng: np.random.Generator) -> Floats:
    """Return the drop [K] that unequal noise causes without a change of the ranking.

    For two cells, let g and h be the expected concordance of a run of each table with the true
    order. Tau is the mean of g h over pairs of cells. Seed tau is the geometric mean of the means
    of g^2 and h^2, which is larger (Cauchy-Schwarz). The difference is simulated: each table keeps
    its true accuracies and its noise (`SeedNoise`), but both have the same ranking. The noise of a
    cell is that of its rank, because a cell that has changed its rank can be noisier or less noisy
    there.
    """
    if not (paired.baseline.has_seeds and paired.other.has_seeds):
        return np.zeros(len(top_percent))
    rows = np.arange(len(paired))
    if len(rows) > _MODELLED:
        rows = rng.choice(rows, _MODELLED, replace=False)
    draws = int(np.clip(10 * _MODELLED // len(rows), 10, 100))
    tables, models = [], []
    for runs in (paired.baseline.centred, paired.other.centred):
        counts = np.isfinite(runs).sum(axis=1)
        noise = SeedNoise.of(means_of(runs)[rows], counts[rows], pooled_sd(runs)[rows])
        true = np.sort(noise.true_means(draws, rng), axis=1).mean(axis=0)[:, None]
        run_sd = noise.run_sd[np.argsort(noise.means, kind="stable")][:, None]
        drawn = true + run_sd * rng.standard_normal((draws, len(rows), 2))
        tables.append(drawn.reshape(-1, 2))
        models.append((true[:, 0], run_sd[:, 0]))
    sample = np.arange(len(tables[0])).reshape(draws, -1)
    choosers = []
    if paired.third is not None:  # the third table selects the same cells in every draw
        ranked = rows[np.argsort(means_of(paired.baseline.centred)[rows], kind="stable")]
        choosers = [Chooser(np.tile(paired.third[ranked], draws))]
    elif (
        paired.choosers and min(top_percent, default=100) < 100
    ):  # another run of the baseline selects
        true, run_sd = models[0]
        chosen = true + run_sd * rng.standard_normal((draws, len(rows)))
        choosers = [Chooser(chosen.reshape(-1))]
    first, second = tables
    agreed = between_seeds(
        first,
        second,
        sample,
        top_percent,
        seeds=((0, 1), (2, 3)),
        choosers=choosers,
        chosen_draws=draws,
    )
    found = np.nan_to_num(agreed.drop.mean(axis=0))
    return np.maximum(found, 0)
