"""What seed noise alone does to a ranking: the baseline that a change of recipe is held against.

Two runs of the same recipe do not rank cells alike: seeds differ, and choosing the top K % by a
noisy mean keeps cells that were lucky, whose order a second run does not confirm. Tau therefore
falls with K although nothing changed. `noise_curve` says by how much, `seed_agreement` shows it
between the seeds of one table, and `seed_test` asks whether a re-trained table disagrees with the
benchmark by more than that. What is drawn is `SeedNoise`'s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from rebench.analysis.concordance import TIE_WIDTH, Floats
from rebench.analysis.ranks import MIN_CELLS, TOP_PERCENT, Selection, cell_means, tau_curves
from rebench.analysis.seed_noise import SeedNoise
from rebench.errors import InputError

__all__ = ["noise_curve", "seed_agreement", "seed_test"]

_BLOCK: Final = 1 << 22


def noise_curve(
    values: ArrayLike,
    seeds: tuple[int, int],
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 400,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the tau that two independent means of `seeds` runs of one recipe would show.

    One row per K: `top_percent`, `tau` (median over draws), `tau_low`, `tau_high`.
    """
    model = SeedNoise.fit(values)
    blocks = []
    for size in _blocks(draws, len(model.means)):
        true = model.true_means(size, rng)
        first, second = (
            true + rng.standard_normal(true.shape) * model.run_sd / math.sqrt(k) for k in seeds
        )
        blocks.append(_curve(first, second, top_percent, by))
    return _summary(np.concatenate(blocks), top_percent, level)


def seed_agreement(
    values: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    seeds: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Return tau between single seeds of one table, for each ordered pair, at each K.

    The first seed of a pair decides the top K %; only cells that have both count. Rows:
    `first`, `second`, `top_percent`, `n_cells`, `tau`.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise InputError(f"seed agreement needs accuracies [cells, seeds], got {array.shape}")
    names = list(seeds) if seeds is not None else list(range(array.shape[1]))
    tables = []
    for one, other in itertools.permutations(range(array.shape[1]), 2):
        both = np.isfinite(array[:, one]) & np.isfinite(array[:, other])
        if not both.any():
            continue
        tau, taken = tau_curves(array[both, one][None], array[both, other][None], top_percent)
        table = pd.DataFrame({"top_percent": list(top_percent), "n_cells": taken[0]})
        table["tau"] = np.where(taken[0] >= MIN_CELLS, tau[0], np.nan)
        table.insert(0, "second", names[other])
        table.insert(0, "first", names[one])
        tables.append(table)
    if not tables:
        raise InputError("no two seeds have a cell in common")
    joined: pd.DataFrame = pd.concat(tables, ignore_index=True)
    return joined


def seed_test(
    a: ArrayLike,
    b: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 999,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Test whether `b` ranks cells differently from `a` by more than seed noise explains.

    The null hypothesis: `b` has the true ranking of `a`. The means of `a` stay as they are, with
    the cells that they select; `b` is replaced by draws of runs of the same cells, with as many
    seeds as `b` has and, where `b` has several, with its own noise (brought to the scale of `a`
    where the two tables spread differently). So a recipe that is noisier, or shifts or stretches
    all accuracies, is not taken for one that ranks differently. Where `a` has one seed a cell and
    `b` more, the roles are exchanged; where both have one, there is no baseline.

    Args:
        a: accuracies of the benchmark, [cells] or [cells, seeds].
        b: accuracies of the re-trained table, rows as in `a`.
        top_percent: the values of K.
        by: which table decides the top K %.
        draws: simulated tables.
        level: coverage of the null's interval.
        rng: source of the draws.

    Returns:
        One row per K: `top_percent`, `n_cells`, `tau`, `null_tau` (median), `null_low`,
        `null_high`, `effect` (null_tau - tau: agreement lost beyond noise), `effect_sd` (the same
        in standard deviations of the null), `p_value` (one-sided), `p_family` (adjusted for
        looking at every K, by the distribution of the largest effect over all K; Westfall & Young
        1993). NaN where fewer than `MIN_CELLS` cells are left.
    """
    first, second = _as_columns(a), _as_columns(b)
    observed, taken = tau_curves(
        cell_means(first)[None], cell_means(second)[None], top_percent, by=by
    )
    enough = taken[0] >= MIN_CELLS
    null = _null(first, second, top_percent, by=by, draws=draws, rng=rng)
    table: pd.DataFrame = _summary(null, top_percent, level).rename(
        columns={"tau": "null_tau", "tau_low": "null_low", "tau_high": "null_high"}
    )
    table.insert(1, "n_cells", taken[0])
    table.insert(2, "tau", observed[0])
    p_value, p_family, scale = _p_values(observed[0], null, enough)
    table["effect"] = table["null_tau"] - table["tau"]
    table["effect_sd"] = table["effect"] / scale
    table["p_value"], table["p_family"] = p_value, p_family
    table.loc[~enough, [c for c in table.columns if c not in {"top_percent", "n_cells"}]] = np.nan
    return table


def _as_columns(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _null(
    a: Floats,
    b: Floats,
    top_percent: Sequence[float],
    *,
    by: Selection,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Simulate taus [draws, K] of tables that rank truly alike, with the noise of these two."""
    several_a, several_b = ((np.isfinite(x).sum(axis=1) >= 2).any() for x in (a, b))
    if not (several_a or several_b):
        raise InputError(
            "the noise baseline needs two seeds of at least one table; both have one seed a cell"
        )
    fixed, other = (a, b) if several_a else (b, a)
    model = SeedNoise.fit(fixed)
    seeds = np.isfinite(other).sum(axis=1)
    run_sd, unit = model.run_sd, model.unit
    if several_a and several_b:
        run_sd, unit = _noise_on_scale_of(model, SeedNoise.fit(other))
    blocks = []
    for size in _blocks(draws, len(model.means)):
        kept = model.means[None]
        drawn = model.rerun(seeds, size, rng, run_sd=run_sd, unit=unit)
        first, second = (kept, drawn) if several_a else (drawn, kept)
        blocks.append(_curve(first, second, top_percent, by))
    return np.concatenate(blocks)


def _noise_on_scale_of(model: SeedNoise, other: SeedNoise) -> tuple[Floats, float]:
    """Return the noise of a run of `other` [cells of `model`] and its unit, on `model`'s scale.

    Tau knows only ranks, so noise counts relative to how far apart neighbours in rank are: the
    noise at each rank of `other` is multiplied by the ratio of the two tables' spreads there.
    """
    n = len(model.means)
    reach = max(5, n // 10)
    low, high = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach, n - 1)
    spreads = [np.sort(x.means)[high] - np.sort(x.means)[low] for x in (model, other)]
    ratio = np.maximum(spreads[0], TIE_WIDTH) / np.maximum(spreads[1], TIE_WIDTH)
    run_sd = np.empty(n)
    by_rank = other.run_sd[np.argsort(other.means, kind="stable")] * ratio
    run_sd[np.argsort(model.means, kind="stable")] = by_rank
    return run_sd, other.unit * float(np.median(ratio))


def _curve(a: Floats, b: Floats, top_percent: Sequence[float], by: Selection) -> Floats:
    tau, taken = tau_curves(a, b, top_percent, by=by)
    return np.where(taken >= MIN_CELLS, tau, np.nan)


def _p_values(observed: Floats, null: Floats, enough: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """One-sided p-values [K] (tau lower than the null's), raw and for the whole family of K."""
    usable = np.where(np.isfinite(null), null, np.nanmedian(np.where(enough, null, 0), axis=0))
    # The observed curve is one of the draws in every step, or few draws would reject too often.
    curves = np.vstack([usable, np.nan_to_num(observed)])
    scale = np.maximum(curves.std(axis=0), 1e-12)
    drops = (np.median(curves, axis=0) - curves) / scale
    p_value = (drops >= drops[-1] - 1e-9).mean(axis=0)
    largest = drops[:, enough].max(axis=1) if enough.any() else np.zeros(len(curves))
    p_family = (largest[:, None] >= drops[-1] - 1e-9).mean(axis=0)
    return p_value, p_family, scale


def _summary(null: Floats, top_percent: Sequence[float], level: float) -> pd.DataFrame:
    tail = (1 - level) / 2
    known = np.isfinite(null).any(axis=0)
    quantiles = np.full((3, null.shape[1]), np.nan)
    quantiles[:, known] = np.nanquantile(null[:, known], [0.5, tail, 1 - tail], axis=0)
    middle, low, high = quantiles
    table: pd.DataFrame = pd.DataFrame(
        {"top_percent": list(top_percent), "tau": middle, "tau_low": low, "tau_high": high}
    )
    return table


def _blocks(draws: int, n_cells: int) -> list[int]:
    step = max(1, _BLOCK // n_cells)
    return [min(step, draws - start) for start in range(0, draws, step)]
