"""Recipes that were trained directly on a surface's cells: what they gain, and how they re-rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rebench.analysis.concordance import MIN_CELLS
from rebench.analysis.rate_ranking import moved_intervals, resampled, tau_between_seeds
from rebench.analysis.surface import Surface, at_rates
from rebench.intervals import mean_interval

__all__ = ["direct_check", "direct_reranking"]


def direct_check(
    surface: Surface,
    table: pd.DataFrame,
    *,
    reference: float,
    split: str = "ori-test",
    level: float = 0.95,
) -> pd.DataFrame:
    """Hold the surface against recipes that were trained directly, cell by cell.

    Returns:
        A row per recipe without a `rate` of its own: `recipe`, `n_cells`, `trained` and
        `interpolated` (means over cells, at the rates they were trained with), `difference` of
        these, and `gain` over the rate `reference` for all, both with `_low` and `_high`
        (Student's, over cells).
    """
    start = surface.column(reference)
    rows: list[dict[str, Any]] = []
    for label, one in _trained_directly(surface, table, split):
        place = np.searchsorted(surface.cells, one["index"].to_numpy())
        seed = np.searchsorted(surface.seeds, one["seed"].to_numpy())
        own = surface.accuracy[place, :, seed]
        expected, _ = at_rates(own, surface.rates, one["learning_rate"].to_numpy(dtype=np.float64))
        both = one.assign(expected=expected, reference=own[:, start])
        means = both.groupby("index")[["accuracy", "expected", "reference"]].mean()
        row: dict[str, Any] = {
            "recipe": label,
            "n_cells": len(means),
            "trained": float(means["accuracy"].mean()),
            "interpolated": float(means["expected"].mean()),
        }
        for name, other in (("difference", "expected"), ("gain", "reference")):
            found = mean_interval((means["accuracy"] - means[other]).to_numpy(), level)
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def direct_reranking(
    surface: Surface,
    table: pd.DataFrame,
    *,
    reference: float,
    split: str = "ori-test",
    top_percent: Sequence[float] = (100.0, 50.0, 20.0),
    draws: int = 200,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return tau between the ranking at one rate for all and that of recipes trained directly.

    Tau is between runs of different seeds, the mean over their pairs. If a recipe re-ranked
    nothing, it would be the geometric mean of the two rankings' own (`noise`).

    Returns:
        A row per recipe and K: `recipe`, `top_percent`, `n_cells`, `tau`, `noise` and `reranked`
        (noise less tau), each with `_low` and `_high` (bootstrap over functional classes).
    """
    start = surface.column(reference)
    rows: list[dict[str, Any]] = []
    for label, one in _trained_directly(surface, table, split):
        runs = one.pivot_table(index="index", columns="seed", values="accuracy").dropna()
        if len(runs) < MIN_CELLS or runs.shape[1] < 2:
            continue
        place = np.searchsorted(surface.cells, runs.index.to_numpy())
        seed = np.searchsorted(surface.seeds, runs.columns.to_numpy())
        before, after = surface.accuracy[np.ix_(place, [start], seed)][:, 0], runs.to_numpy()
        sample = resampled(len(runs), draws, rng)
        tau, noise, taken = tau_between_seeds(before, after, sample, top_percent)
        for column, percent in enumerate(top_percent):
            row = {"recipe": label, "top_percent": percent, "n_cells": int(taken[column])}
            rows.append(row | moved_intervals(tau[:, column], noise[:, column], level))
    return pd.DataFrame(rows)


def _trained_directly(
    surface: Surface, table: pd.DataFrame, split: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield recipes without a `rate` of their own, and their runs on the surface's cells."""
    if not {"learning_rate", "recipe", "rate", "accuracy", "seed"} <= set(table):
        return
    ours = table[(table["dataset"] == surface.dataset) & (table["epochs"] == surface.epochs)]
    ours = ours[(ours["split"] == split) & ours["seed"].isin(surface.seeds) & ours["rate"].isna()]
    ours = ours[ours["index"].isin(surface.cells)]
    for label in sorted(map(str, ours["recipe"].unique())):
        yield label, ours[ours["recipe"] == label]
