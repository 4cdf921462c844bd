"""How well a cell's best rate is predicted: by rules, and by a fit that never saw the cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats
from rebench.analysis.surface import (
    Surface,
    at_rates,
    class_shares,
    log_best_rates,
    with_interval,
)
from rebench.intervals import mean_interval

__all__ = ["direct_check", "rate_predictions"]


def rate_predictions(
    surface: Surface,
    rules: Mapping[str, Floats],
    *,
    draws: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Say how well rules predict the logarithm of the cells' best rates.

    Returns:
        A row per rule: `rule`, `slope` of log best rate on the rule's log rate (the identity line
        has 1), `correlation`, both with `_low` and `_high`; `octaves` (root mean square distance
        from the identity line at its best base rate) and `octaves_constant` (from one rate for
        all); `explained` (1 - the ratio of their squares), with `_low` and `_high`.
    """
    best = log_best_rates(surface.accuracy.mean(axis=2), surface.rates)
    shares = class_shares(len(best), draws, rng)

    def spread(one: Floats, other: Floats) -> Floats:
        """Return the covariance of two columns [cells] in every draw."""
        product: Floats = shares @ (one * other) - (shares @ one) * (shares @ other)
        return product

    rows: list[dict[str, Any]] = []
    for name, rates in rules.items():
        logs = np.log2(rates)
        logs = logs - logs.mean()
        own, apart = np.maximum(spread(best, best), 1e-12), spread(best - logs, best - logs)
        across, both = np.maximum(spread(logs, logs), 1e-12), spread(best, logs)
        row: dict[str, Any] = {"rule": name}
        row |= with_interval("slope", both / across, level)
        row |= with_interval("correlation", both / np.sqrt(own * across), level)
        row |= {"octaves": float(np.sqrt(apart[0])), "octaves_constant": float(np.sqrt(own[0]))}
        row |= with_interval("explained", 1 - apart / own, level)
        rows.append(row)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def direct_check(
    surface: Surface, table: pd.DataFrame, *, split: str = "ori-test", level: float = 0.95
) -> pd.DataFrame:
    """Hold the surface against recipes that were trained directly, cell by cell.

    Returns:
        A row per recipe without a `rate` of its own: `recipe`, `n_cells`, `trained` and
        `interpolated` (means over cells, at the rates they were trained with), `difference` with
        `_low` and `_high` (Student's, over cells).
    """
    needed = {"learning_rate", "recipe", "rate", "accuracy", "seed"}
    rows: list[dict[str, Any]] = []
    empty: pd.DataFrame = pd.DataFrame()
    if not needed <= set(table):
        return empty
    ours = table[(table["dataset"] == surface.dataset) & (table["epochs"] == surface.epochs)]
    ours = ours[(ours["split"] == split) & ours["seed"].isin(surface.seeds) & ours["rate"].isna()]
    for label in sorted(map(str, ours["recipe"].unique())):
        one = ours[(ours["recipe"] == label) & ours["index"].isin(surface.cells)]
        if one.empty:
            continue
        place = np.searchsorted(surface.cells, one["index"].to_numpy())
        seed = np.searchsorted(surface.seeds, one["seed"].to_numpy())
        expected, _ = at_rates(
            surface.accuracy[place, :, seed],
            surface.rates,
            one["learning_rate"].to_numpy(dtype=np.float64),
        )
        means = one.assign(expected=expected).groupby("index")[["accuracy", "expected"]].mean()
        apart = (means["accuracy"] - means["expected"]).to_numpy()
        difference = mean_interval(apart, level)
        rows.append(
            {
                "recipe": label,
                "n_cells": len(apart),
                "trained": float(means["accuracy"].mean()),
                "interpolated": float(means["expected"].mean()),
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
        )
    found: pd.DataFrame = pd.DataFrame(rows)
    return found
