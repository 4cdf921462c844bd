"""Gaps between pairs of cells: how large they are, and which of them seeds cannot resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from rebench.analysis.concordance import TIE_WIDTH, Floats, top_mask
from rebench.analysis.paired import Accuracies, Paired
from rebench.errors import InputError

__all__ = ["gap_counts", "gaps"]

# Rows of pairs compared at once.
_ROWS = 256


def gap_counts(means: Floats, edges: Sequence[float] | Floats) -> Floats:
    """Count the pairs of cells whose absolute gap lies in each bin [edges[i], edges[i + 1]).

    The last bin includes its right edge. Exact for any number of cells: a gap below t is a
    neighbour within t in the sorted means, so no pair is ever written out.
    """
    ordered = np.sort(means)
    places = np.arange(len(ordered))
    below = []
    for place, edge in enumerate(edges):
        side = "right" if place == len(edges) - 1 else "left"
        reach = ordered + edge + (TIE_WIDTH if side == "right" else -TIE_WIDTH)
        ends = np.searchsorted(ordered, reach, side="left")
        below.append(np.maximum(ends - places - 1, 0).sum())
    return np.diff(np.asarray(below, dtype=np.float64))


def gaps(paired: Paired, *, top_percent: float = 100.0) -> pd.DataFrame:
    """Describe the pairwise accuracy gaps of the same cells before and after re-training.

    Args:
        paired: both tables; the first selects the top cells.
        top_percent: only pairs among these best cells count.

    Returns:
        Two rows (`table` is "before", "after"): `n_cells`, `n_pairs`, `mean`, `median`, `p10`,
        `p90` of the gaps (percentage points), `tied` and `not_told_apart` (shares of all pairs;
        the latter NaN where no cell has two seeds). A pair is told apart if its gap is significant
        (5 %, two-sided, normal, noise of means of as many seeds as there are).
    """
    chosen = top_mask(paired.before.means, paired.after.means, top_percent)
    if chosen.sum() < 2:
        raise InputError(f"gaps need two cells, got {int(chosen.sum())}")
    rows = []
    for name, table in (("before", paired.before), ("after", paired.after)):
        means = table.means[chosen]
        pairs = len(means) * (len(means) - 1) // 2
        ordered = np.sort(means)
        weights = 2 * np.arange(len(means)) - (len(means) - 1)
        rows.append(
            {
                "table": name,
                "n_cells": len(means),
                "n_pairs": pairs,
                "mean": float(weights @ ordered) / pairs,
                "median": _quantile(ordered, 0.5),
                "p10": _quantile(ordered, 0.1),
                "p90": _quantile(ordered, 0.9),
                "tied": float(gap_counts(means, [0.0, 2 * TIE_WIDTH])[0]) / pairs,
                "not_told_apart": _not_told_apart(table, chosen),
            }
        )
    return pd.DataFrame(rows)


def _quantile(ordered: Floats, share: float) -> float:
    """The smallest gap that at least `share` of the pairs do not exceed, by bisection."""
    n = len(ordered)
    wanted = math.ceil(share * n * (n - 1) / 2)
    places = np.arange(n)
    low, high = -TIE_WIDTH, float(ordered[-1] - ordered[0]) + TIE_WIDTH
    while high - low > TIE_WIDTH:
        middle = (low + high) / 2
        within = np.searchsorted(ordered, ordered + middle, side="right") - places - 1
        low, high = (low, middle) if np.maximum(within, 0).sum() >= wanted else (middle, high)
    return max(high, 0.0)


def _not_told_apart(table: Accuracies, chosen: NDArray[np.bool_]) -> float:
    if not table.has_seeds:
        return math.nan
    means = table.means[chosen]
    variance = (table.run_sd**2 / table.counts)[chosen]
    reach = float(special.ndtri(0.975))
    close = 0
    for start in range(0, len(means), _ROWS):
        stop = min(start + _ROWS, len(means))
        gap = np.abs(means[start:stop, None] - means[None, start:])
        sd = np.sqrt(variance[start:stop, None] + variance[None, start:])
        later = np.arange(start, len(means))[None, :] > np.arange(start, stop)[:, None]
        close += int(((gap < reach * sd) & later).sum())
    return close / (len(means) * (len(means) - 1) / 2)
