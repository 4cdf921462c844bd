"""Did the ranking move by more than seed noise explains? One test: p-values and effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.concordance import MIN_CELLS, Floats, Ints, tau_curves, top_sizes, top_tau
from rebench.analysis.exchange import Exchange
from rebench.analysis.noise import rerun_curves, summary
from rebench.analysis.ranks import Rng, aligned, cell_means
from rebench.analysis.seed_noise import centred
from rebench.errors import InputError

__all__ = ["exchange_p_values", "holm", "seed_test"]

# Simulated runs behind the baseline: its median and its interval need no more.
_BASELINE_DRAWS: Final = 400


def seed_test(
    a: ArrayLike,
    b: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 999,
    level: float = 0.95,
    classes: ArrayLike | None = None,
    rng: Rng = None,
) -> pd.DataFrame:
    """Test whether `b` ranks cells differently from `a` by more than seed noise explains.

    The null hypothesis: on some common scale, every cell has one true accuracy in both tables. Its
    p-values come from dealing out the runs of every cell anew (`Exchange`), which assumes no shape
    of the noise or of the accuracies; the baseline that is shown beside tau, and the effect, from
    simulated runs (`rerun_curves`). Where one table has one seed a cell its noise is taken to be
    the other's; where both have one, there is no baseline.

    Args:
        a: accuracies of the benchmark, [cells] or [cells, seeds]; see `ranks.aligned`.
        b: accuracies of the re-trained table, of the same cells.
        top_percent: the values of K.
        by: which table decides the top K %.
        draws: how often the runs are dealt out.
        level: coverage of the baseline's interval.
        classes: a number [cells] for each cell, the same for cells that are one function: their
            runs are dealt alike, as one observation.
        rng: generator, or the seed of one, of the draws.

    Returns:
        One row per K: `top_percent`, `n_cells`, `tau`, `null_tau` (median of the baseline),
        `null_low`, `null_high`, `effect` (null_tau - tau: agreement lost beyond noise),
        `effect_sd` (the same in standard deviations of the baseline), `p_value` (one-sided),
        `p_family` (adjusted for looking at every K, by the distribution of the largest drop over
        all K; Westfall & Young 1993). NaN where fewer than `MIN_CELLS` cells are left.
    """
    rng = np.random.default_rng(rng)
    first, second = aligned(a, b)
    means = cell_means(first)[None], cell_means(second)[None]
    observed, taken = tau_curves(*means, top_percent, by=by)
    groups = None if classes is None else cell_means(aligned(a, classes)[1]).astype(np.int64)
    tables = centred(first), centred(second)
    p_value, p_family = exchange_p_values(
        *tables, top_percent, by=by, draws=draws, classes=groups, rng=rng
    )
    baseline = rerun_curves(*tables, top_percent, by=by, draws=min(draws, _BASELINE_DRAWS), rng=rng)
    table: pd.DataFrame = summary(baseline, top_percent, level).rename(
        columns={"tau": "null_tau", "tau_low": "null_low", "tau_high": "null_high"}
    )
    table.insert(1, "n_cells", taken[0])
    table.insert(2, "tau", observed[0])
    table["effect"] = table["null_tau"] - table["tau"]
    spread = np.ma.masked_invalid(baseline).std(axis=0).filled(np.nan)
    table["effect_sd"] = table["effect"] / np.maximum(spread, 1e-12)
    table["p_value"], table["p_family"] = p_value, p_family
    few = taken[0] < MIN_CELLS
    table.loc[few, [c for c in table.columns if c not in {"top_percent", "n_cells"}]] = np.nan
    return table


def exchange_p_values(
    a: Floats,
    b: Floats,
    top_percent: Sequence[float],
    *,
    by: Selection,
    draws: int,
    classes: Ints | None = None,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return `seed_test`'s p-values [K] of centred [cells, seeds], single and for all K."""
    several = [(np.isfinite(x).sum(axis=1) >= 2).any() for x in (a, b)]
    if not any(several):
        raise InputError(
            "the noise baseline needs two seeds of at least one table; both have one seed a cell"
        )
    observed, taken = tau_curves(cell_means(a)[None], cell_means(b)[None], top_percent, by=by)
    enough = taken[0] >= MIN_CELLS
    p_value, p_family = np.full((2, len(enough)), np.nan)
    if enough.any():
        sizes = np.array(top_sizes(len(a), top_percent))[enough].tolist()
        exchange = Exchange.build(a, b, rng, classes=classes)
        dealt = [top_tau(one, other, sizes, by)[0] for one, other in exchange.draw(draws, rng)]
        p_value[enough], p_family[enough] = _p_values(observed[0, enough], np.concatenate(dealt))
    return p_value, p_family


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
