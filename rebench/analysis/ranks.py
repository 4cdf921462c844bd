"""How far two tables agree on the ranking of cells, among the best K % and overall.

Labels decide which rows belong together; only arrays, which have none, go by position. Several
seeds are averaged, missing ones (NaN) left out. Nothing here knows about seed noise:
`rebench.analysis.noise` says what it alone would do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rebench.analysis.choices import TOP_PERCENT, Selection
from rebench.analysis.concordance import (
    MIN_CELLS,
    TIE_WIDTH,
    Floats,
    dense_codes,
    top_sizes,
    top_tau,
)
from rebench.analysis.frames import TauCurve
from rebench.analysis.resampling import resampled_tau
from rebench.errors import InputError

__all__ = [
    "Rng",
    "aligned",
    "as_columns",
    "cell_means",
    "interval",
    "rank_agreement",
    "top_cells",
]


Rng: TypeAlias = np.random.Generator | int | None
"""A source of draws: a generator, the seed of a new one, or None for one that nobody can repeat."""

_NAMES: Final = ("the first table", "the second table", "the third table", "the fourth table")
_SHOWN: Final = 5


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
    return np.where(seen, array, 0.0).sum(axis=1) / seen.sum(axis=1)


def aligned(*tables: ArrayLike) -> list[Floats]:
    """Return tables of the same cells as [cells, seeds], with their rows in the order of the first.

    Series and data frames are brought together by their index, which must hold the same cells,
    each once. Arrays must be equally long; arrays beside labelled tables are refused, because
    nothing says which of their rows is which cell.
    """
    labels = [table.index for table in tables if isinstance(table, pd.Series | pd.DataFrame)]
    columns = [as_columns(table) for table in tables]
    if not labels:
        lengths = [len(table) for table in columns]
        if len(set(lengths)) > 1:
            counts = " and ".join(map(str, lengths))
            raise InputError(f"the tables have {counts} cells: pair them first")
        return columns
    if len(labels) < len(tables):
        raise InputError(
            "some tables are labelled by cell and others are plain arrays: give all of them as "
            "pandas objects with an index of cells, or none"
        )
    _check_labels(labels)
    return [
        table[index.get_indexer(labels[0])] for index, table in zip(labels, columns, strict=True)
    ]


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
    classes: ArrayLike | None = None,
    rng: Rng = None,
) -> TauCurve:
    """Return agreement of the rankings `a` (benchmark) and `b` (re-trained) at each top K %.

    Args:
        a: accuracies of the benchmark, [cells] or [cells, seeds]; see `aligned`.
        b: accuracies of the re-trained table, of the same cells.
        top_percent: the values of K.
        by: which table decides the top K %: "benchmark" (a), "retrained" (b), or "either" (cells
            that are among the best of any of the two).
        draws: bootstrap draws over cells; 0 leaves the intervals out. Each draw resamples cells
            and selects its own top K %, so that the interval covers the selection too.
        level: coverage of the percentile intervals.
        classes: a number [cells] for each cell, the same for cells that are one function. These
            are not independent: a bootstrap draw has all of them, as often, or none.
        rng: generator, or the seed of one, of the bootstrap.

    Returns:
        One row per K: `top_percent`, `n_cells`, `tau` (Kendall's tau-b) with `tau_low` and
        `tau_high`, `spearman`, `weighted_tau` (scipy's, which weighs the best cells most),
        `tied_cut` (cells beyond the K % that tie with its last one), `tied_before` and
        `tied_after` (tied pairs in a and b); and `plot()`. With fewer than `MIN_CELLS` cells every
        statistic is NaN.
    """
    first, second = map(cell_means, aligned(a, b))
    sizes = top_sizes(len(first), top_percent)
    first_codes, second_codes = dense_codes(first[None]), dense_codes(second[None])
    [tau], [taken] = top_tau(first_codes, second_codes, sizes, by)
    groups = None
    if classes is not None:
        groups = np.unique(cell_means(aligned(a, classes)[1]), return_inverse=True)[1]
    spread = resampled_tau(
        first_codes[0],
        second_codes[0],
        sizes,
        by,
        draws=draws,
        classes=groups,
        rng=np.random.default_rng(rng),
    )
    lows, highs = interval(spread, level)
    rows = []
    for place, percent in enumerate(top_percent):
        size = int(taken[place])
        row: dict[str, float] = {"top_percent": percent, "n_cells": size}
        if size >= MIN_CELLS:
            chosen = _selected(first, second, percent, by)
            x, y = first[chosen], second[chosen]
            row |= {
                "tau": float(tau[place]),
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
    return TauCurve(rows, columns=columns)


def interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends [K] of the central `level` of `draws` [draws, K]; NaN where there is none."""
    ends = np.full((2, draws.shape[1]), np.nan)
    known = np.isfinite(draws).any(axis=0)
    if known.any():
        tail = (1 - level) / 2
        ends[:, known] = np.nanquantile(draws[:, known], [tail, 1 - tail], axis=0)
    return ends[0], ends[1]


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


def _check_labels(labels: list[pd.Index]) -> None:
    named = list(zip(_NAMES, labels, strict=False))
    for name, index in named:
        double = index[index.duplicated()].unique()
        if len(double):
            raise InputError(
                f"{name} holds more than one row of {_cells(double)}; keep one of each"
            )
    for (name, index), (other, its) in itertools.permutations(named, 2):
        lacking = its.difference(index)
        if len(lacking):
            raise InputError(
                f"{name} lacks {_cells(lacking)}, which {other} holds: compare the cells that all "
                "tables hold"
            )


def _cells(index: pd.Index) -> str:
    shown = ", ".join(str(label) for label in index[:_SHOWN])
    more = f" and {len(index) - _SHOWN} more" if len(index) > _SHOWN else ""
    return f"{'cell' if len(index) == 1 else 'cells'} {shown}{more}"
