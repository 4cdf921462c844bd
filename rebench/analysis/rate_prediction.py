"""How well a cell's best rate is predicted: by rules, and by a fit that never saw the cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats
from rebench.analysis.surface import (
    Surface,
    class_shares,
    log_best_rates,
    with_interval,
)

__all__ = ["rate_predictions"]


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
