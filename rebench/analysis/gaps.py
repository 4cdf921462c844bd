"""Gaps between pairs of cells: how large they are, and which of them seeds cannot resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from rebench.analysis.concordance import TIE_WIDTH, Floats
from rebench.analysis.ranks import aligned, cell_means, top_cells
from rebench.analysis.seed_noise import SeedNoise
from rebench.errors import InputError

__all__ = ["gap_counts", "gaps"]

# Rows of pairs compared at once.
_ROWS = 256


def gap_counts(means: ArrayLike, edges: Sequence[float] | Floats) -> Floats:
    """Count the pairs of cells whose absolute gap lies in each bin [edges[i], edges[i + 1]).

    The last bin includes its right edge. Exact for any number of cells: a gap below t is a
    neighbour within t in the sorted means, so no pair is ever written out.
    """
    ordered = np.sort(cell_means(means))
    places = np.arange(len(ordered))
    below = []
    for place, edge in enumerate(edges):
        side = "right" if place == len(edges) - 1 else "left"
        reach = ordered + edge + (TIE_WIDTH if side == "right" else -TIE_WIDTH)
        ends = np.searchsorted(ordered, reach, side="left")
        below.append(np.maximum(ends - places - 1, 0).sum())
    return np.diff(np.asarray(below, dtype=np.float64))


def gaps(
    before: ArrayLike,
    after: ArrayLike,
    *,
    top_percent: float = 100.0,
    level: float = 0.95,
) -> pd.DataFrame:
    """Describe the pairwise accuracy gaps of the same cells before and after re-training.

    Args:
        before: accuracies of the benchmark, [cells] or [cells, seeds]; they select the top cells.
        after: accuracies of the re-trained table, of the same cells (see `ranks.aligned`).
        top_percent: only pairs among these best cells count.
        level: a pair is told apart if its gap is significant at this level (two-sided, normal,
            noise of means of as many seeds as there are).

    Returns:
        Two rows (`table` is "before", "after"): `n_cells`, `n_pairs`, `mean`, `median`, `p10`,
        `p90` of the gaps (percentage points), `tied` and `not_told_apart` (shares of all pairs;
        the latter NaN where no cell has two seeds).
    """
    first, second = aligned(before, after)
    chosen = top_cells(first, top_percent)
    if chosen.sum() < 2:
        raise InputError(f"gaps need two cells, got {int(chosen.sum())}")
    rows = []
    for name, values in (("before", first), ("after", second)):
        means = cell_means(values)[chosen]
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
                "not_told_apart": _not_told_apart(values, chosen, level),
            }
        )
    return pd.DataFrame(rows)


def _quantile(ordered: Floats, share: float) -> float:
    """Return the smallest gap that at least `share` of the pairs do not exceed, by bisection."""
    n = len(ordered)
    wanted = math.ceil(share * n * (n - 1) / 2)
    places = np.arange(n)
    low, high = -TIE_WIDTH, float(ordered[-1] - ordered[0]) + TIE_WIDTH
    while high - low > TIE_WIDTH:
        middle = (low + high) / 2
        within = np.searchsorted(ordered, ordered + middle, side="right") - places - 1
        low, high = (low, middle) if np.maximum(within, 0).sum() >= wanted else (middle, high)
    return max(high, 0.0)


def _not_told_apart(values: ArrayLike, chosen: np.ndarray, level: float) -> float:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not (np.isfinite(array).sum(axis=1) >= 2).any():
        return math.nan
    noise = SeedNoise.fit(array)
    means = noise.means[chosen]
    variance = (noise.run_sd**2 / noise.counts)[chosen]
    reach = float(special.ndtri((1 + level) / 2))
    close = 0
    for start in range(0, len(means), _ROWS):
        stop = min(start + _ROWS, len(means))
        gap = np.abs(means[start:stop, None] - means[None, start:])
        sd = np.sqrt(variance[start:stop, None] + variance[None, start:])
        later = np.arange(start, len(means))[None, :] > np.arange(start, stop)[:, None]
        close += int(((gap < reach * sd) & later).sum())
    return close / (len(means) * (len(means) - 1) / 2)
