"""How far two tables agree on the ranking of cells, among the best K % and overall.

Several seeds are averaged, missing ones (NaN) left out. Nothing here knows about seed noise:
`rebench.analysis.noise` says what it alone would do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rebench.analysis.concordance import (
    TIE_WIDTH,
    Floats,
    Ints,
    Selection,
    dense_codes,
    top_tau,
)
from rebench.analysis.resampling import resampled_tau
from rebench.errors import InputError

__all__ = [
    "MIN_CELLS",
    "TOP_PERCENT",
    "Selection",
    "as_columns",
    "cell_means",
    "interval",
    "rank_agreement",
    "tau_curves",
    "top_cells",
    "top_sizes",
]

TOP_PERCENT: Final = (100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0, 5.0, 1.0)
# With fewer cells than this, a tau says nothing: it is reported as too few instead.
MIN_CELLS: Final = 10


def as_columns(values: ArrayLike) -> Floats:
    """Return accuracies [cells] or [cells, seeds] as [cells, seeds]."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"accuracies must be [cells] or [cells, seeds], got shape {array.shape}")
    return array


def cell_means(values: ArrayLike) -> Floats:
    """Return the mean over seeds of accuracies [cells] or [cells, seeds], ignoring NaN."""
    array = as_columns(values)
    seen = np.isfinite(array)
    lacking = np.flatnonzero(~seen.any(axis=1))
    if lacking.size:
        raise InputError(f"{lacking.size} cells have no finite accuracy (first: row {lacking[0]})")
    means: Floats = np.where(seen, array, 0.0).sum(axis=1) / seen.sum(axis=1)
    return means


def top_sizes(n_cells: int, top_percent: Sequence[float]) -> list[int]:
    """Return how many cells are the top K % of `n_cells`, rounded up, for each K."""
    for percent in top_percent:
        if not 0 < percent <= 100:
            raise InputError(f"top_percent must be in (0, 100], got {percent:g}")
    return [math.ceil(round(percent * n_cells / 100, 9)) for percent in top_percent]


def top_cells(values: ArrayLike, percent: float) -> NDArray[np.bool_]:
    """Say which cells are in the top `percent` by `values`; ties with the last one are in."""
    means = cell_means(values)
    [size] = top_sizes(len(means), [percent])
    return np.asarray(means >= np.sort(means)[-size] - TIE_WIDTH / 2)


def rank_agreement(
    a: ArrayLike,
    b: ArrayLike,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    by: Selection = "benchmark",
    draws: int = 1000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return agreement of the rankings `a` (benchmark) and `b` (re-trained) at each top K %.

    Args:
        a: accuracies of the benchmark, [cells] or [cells, seeds].
        b: accuracies of the re-trained table, rows as in `a`.
        top_percent: the values of K.
        by: which table decides the top K %: "benchmark" (a), "retrained" (b), or "either" (cells
            that are among the best of any of the two).
        draws: bootstrap draws over cells; 0 leaves the intervals out. Each draw resamples cells
            and selects its own top K %, so that the interval covers the selection too.
        level: coverage of the percentile intervals.
        rng: source of the draws.

    Returns:
        One row per K: `top_percent`, `n_cells`, `tau` (Kendall's tau-b) with `tau_low` and
        `tau_high`, `spearman`, `weighted_tau` (scipy's, which weighs the best cells most),
        `tied_cut` (cells beyond the K % that tie with its last one), `tied_before` and
        `tied_after` (tied pairs in a and b). With fewer than `MIN_CELLS` cells every statistic is
        NaN.
    """
    first, second = _checked(a, b)
    n = len(first)
    sizes = top_sizes(n, top_percent)
    tau, taken = tau_curves(first[None], second[None], top_percent, by=by)
    first_codes, second_codes = dense_codes(first[None])[0], dense_codes(second[None])[0]
    spread = resampled_tau(first_codes, second_codes, sizes, by, draws=draws, rng=rng)
    lows, highs = interval(spread, level)
    rows = []
    for place, percent in enumerate(top_percent):
        size = int(taken[0, place])
        row: dict[str, float] = {"top_percent": percent, "n_cells": size}
        if size >= MIN_CELLS:
            chosen = _selected(first, second, percent, by)
            x, y = first[chosen], second[chosen]
            row |= {
                "tau": float(tau[0, place]),
                "tau_low": float(lows[place]),
                "tau_high": float(highs[place]),
                "spearman": _spearman(x, y),
                "weighted_tau": _weighted_tau(x, y),
                "tied_cut": size - sizes[place] if by != "either" else 0,
                "tied_before": _tied_pairs(x),
                "tied_after": _tied_pairs(y),
            }
        rows.append(row)
    columns = ["top_percent", "n_cells", "tau", "tau_low", "tau_high", "spearman", "weighted_tau"]
    columns += ["tied_cut", "tied_before", "tied_after"]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return table


def tau_curves(
    a: NDArray[np.floating[Any]],
    b: NDArray[np.floating[Any]],
    top_percent: Sequence[float],
    *,
    by: Selection = "benchmark",
) -> tuple[Floats, Ints]:
    """Return tau-b and the number of cells, [draws, K], for draws of means a and b [draws, cells].

    With fewer than `MIN_CELLS` cells tau is NaN. An `a` or `b` of one row goes with every row of
    the other.
    """
    draws = max(len(a), len(b))
    first = np.broadcast_to(dense_codes(a), (draws, a.shape[1]))
    second = np.broadcast_to(dense_codes(b), (draws, b.shape[1]))
    tau, taken = top_tau(first, second, top_sizes(a.shape[1], top_percent), by)
    return np.where(taken >= MIN_CELLS, tau, np.nan), taken


def interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends [K] of the central `level` of `draws` [draws, K]; NaN where there is none."""
    ends = np.full((2, draws.shape[1]), np.nan)
    known = np.isfinite(draws).any(axis=0)
    if known.any():
        tail = (1 - level) / 2
        ends[:, known] = np.nanquantile(draws[:, known], [tail, 1 - tail], axis=0)
    return ends[0], ends[1]


def _checked(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = cell_means(a), cell_means(b)
    if len(first) != len(second):
        raise InputError(f"the tables have {len(first)} and {len(second)} cells: pair them first")
    return first, second


def _selected(a: Floats, b: Floats, percent: float, by: Selection) -> NDArray[np.bool_]:
    if by == "benchmark":
        return top_cells(a, percent)
    if by == "retrained":
        return top_cells(b, percent)
    return top_cells(a, percent) | top_cells(b, percent)


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) < TIE_WIDTH)


def _spearman(x: Floats, y: Floats) -> float:
    if _is_constant(x) or _is_constant(y):
        return math.nan
    return float(stats.spearmanr(x, y).statistic)


def _weighted_tau(x: Floats, y: Floats) -> float:
    if _is_constant(x) or _is_constant(y):
        return math.nan
    return float(stats.weightedtau(x, y).statistic)


def _tied_pairs(values: Floats) -> int:
    sizes = np.bincount(dense_codes(values[None])[0])
    return int((sizes * (sizes - 1) // 2).sum())
