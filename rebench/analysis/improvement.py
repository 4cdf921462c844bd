"""How much better cells became, and where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from cells.table import compile_space
from rebench.analysis.concordance import MIN_CELLS, Ints
from rebench.analysis.ranks import aligned, cell_means
from rebench.datasets import data_spec
from rebench.errors import InputError
from rebench.intervals import clustered_mean, share_interval, student_reach

__all__ = ["FEATURES", "features", "improvement", "improvement_by", "regression"]

# What improvement is held against: column -> label. The multiplier is the topology rule's.
FEATURES: Final[Mapping[str, str]] = {
    "n_paths": "paths",
    "mean_depth": "convolutions per path",
    "log2_multiplier": "log2 of the multiplier",
    "log2_flops": "log2 of FLOPs",
}


def features(cells: Ints) -> pd.DataFrame:
    """Return the columns of `FEATURES` for benchmark indices `cells`.

    Cells without a path have no multiplier and no depth: NaN.
    """
    space = compile_space()
    paths, depths = space.n_paths[cells].astype(np.float64), space.depths[cells]
    with np.errstate(invalid="ignore"):
        mean_depth = depths @ np.arange(depths.shape[1]) / paths
    return pd.DataFrame(
        {
            "n_paths": paths,
            "mean_depth": mean_depth,
            "log2_multiplier": np.log2(space.lr_multiplier[cells]),
            "log2_flops": np.log2(data_spec("cifar10").cost_model().flops(space.ops[cells])),
        }
    )


def improvement(
    before: ArrayLike,
    after: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    level: float = 0.95,
) -> dict[str, float]:
    """Return the mean paired difference after - before, and the share of cells that improved.

    Cells that are one function (of one number in `classes` [cells]) are one observation: the
    interval of the mean is Student's over classes, that of the share Wilson's for as many classes,
    the p-value Wilcoxon's on the classes' means. Keys: `n_cells`, `n_classes`, `mean_before`,
    `mean_after`, `difference`, `low`, `high`, `median`, `p_value` (signed rank, two-sided),
    `improved`, `improved_low`, `improved_high`.
    """
    first, second = map(cell_means, aligned(before, after))
    difference = second - first
    groups = _groups(before, classes)
    sizes = np.bincount(groups)
    mean, low, high = clustered_mean(difference, groups, level)
    share = float((difference > 0).mean())
    _, share_low, share_high = share_interval(share, len(sizes), level)
    by_class = np.bincount(groups, difference) / sizes
    moved = bool(np.any(by_class != 0))
    return {
        "n_cells": len(difference),
        "n_classes": len(sizes),
        "mean_before": float(first.mean()),
        "mean_after": float(second.mean()),
        "difference": mean,
        "low": low,
        "high": high,
        "median": float(np.median(difference)),
        "p_value": float(stats.wilcoxon(by_class).pvalue) if moved and len(sizes) > 1 else math.nan,
        "improved": share,
        "improved_low": share_low,
        "improved_high": share_high,
    }


def improvement_by(
    before: ArrayLike,
    after: ArrayLike,
    feature: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    bins: int = 6,
) -> pd.DataFrame:
    """Return the mean improvement within values, or quantile bins, of a feature [cells].

    A feature of few values has one row per value. Rows: `low`, `high` of the feature, `n_cells`,
    `difference`, `difference_low`, `difference_high` (Student's over `classes` as in
    `improvement`). Cells without the feature are left out.
    """
    first, second, known_values = aligned(before, after, feature)
    difference = cell_means(second) - cell_means(first)
    values = known_values[:, 0]
    known = np.isfinite(values)
    difference, values, of_class = difference[known], values[known], _groups(before, classes)[known]
    distinct = np.unique(values)
    if len(distinct) <= bins:
        groups = np.searchsorted(distinct, values)
    else:
        inner = np.unique(np.quantile(values, np.arange(1, bins) / bins))
        groups = np.searchsorted(inner, values, side="left")
    rows = []
    for group in np.unique(groups):
        inside = groups == group
        mean, low, high = clustered_mean(difference[inside], of_class[inside])
        rows.append(
            {
                "low": float(values[inside].min()),
                "high": float(values[inside].max()),
                "n_cells": int(inside.sum()),
                "difference": mean,
                "difference_low": low,
                "difference_high": high,
            }
        )
    return pd.DataFrame(rows)


def regression(
    before: ArrayLike, after: ArrayLike, cells: Ints, *, classes: ArrayLike | None = None
) -> pd.DataFrame:
    """Regress the improvement on the standardised `FEATURES` (least squares).

    Intervals are heteroscedasticity-consistent (HC3), since worse cells are noisier, and summed
    over `classes` of cells, which are one observation each (clustered). One row per
    feature: `feature`, `coefficient` (percentage points per standard deviation of the feature),
    `low`, `high`, `p_value`, `r_squared` (of the whole fit), `n_cells`. A feature that does not
    vary among the cells has NaN.
    """
    table = features(cells)
    known = np.isfinite(table.to_numpy()).all(axis=1)
    first, second = map(cell_means, aligned(before, after))
    difference = (second - first)[known]
    columns = table.to_numpy()[known]
    of_class = np.unique(_groups(before, classes)[known], return_inverse=True)[1]
    n, n_classes = len(difference), len(np.unique(of_class))
    if n < max(MIN_CELLS, columns.shape[1] + 3):
        raise InputError(f"a regression needs {MIN_CELLS} cells with a path, got {n}")
    varies = columns.std(axis=0) > 1e-9
    scaled = (columns - columns.mean(axis=0))[:, varies] / columns.std(axis=0)[varies]
    design = np.column_stack([np.ones(n), scaled])
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ difference
    residual = difference - design @ coefficients
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    scores = design * (residual / np.maximum(1 - leverage, 1e-9))[:, None]
    sums = np.stack([np.bincount(of_class, column) for column in scores.T], axis=1)
    covariance = inverse @ sums.T @ sums @ inverse
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    with np.errstate(divide="ignore", invalid="ignore"):  # an exact fit has no error to divide by
        in_errors = np.abs(coefficients[1:]) / error[1:]
    freedom = max(n_classes - design.shape[1], 1)
    reach = student_reach(freedom)
    spread = float(((difference - difference.mean()) ** 2).sum())
    fit: pd.DataFrame = pd.DataFrame({"feature": list(FEATURES)})
    for name, values in (
        ("coefficient", coefficients[1:]),
        ("low", coefficients[1:] - reach * error[1:]),
        ("high", coefficients[1:] + reach * error[1:]),
        ("p_value", 2 * stats.t.sf(in_errors, freedom)),
    ):
        column = np.full(len(FEATURES), np.nan)
        column[varies] = values
        fit[name] = column
    fit["r_squared"] = 1 - float(residual @ residual) / spread if spread else math.nan
    fit["n_cells"] = n
    return fit


def _groups(labelled: ArrayLike, classes: ArrayLike | None) -> Ints:
    """Return the number, from 0, of each cell's class; every cell its own if `classes` is None."""
    cells = aligned(labelled)[0]
    if classes is None:
        return np.arange(len(cells))
    numbers = cell_means(aligned(labelled, classes)[1])
    return np.unique(numbers, return_inverse=True)[1]
