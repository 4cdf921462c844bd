"""How much better cells became, and where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from cells.table import compile_space
from rebench.analysis.concordance import MIN_CELLS, Floats, Ints
from rebench.analysis.paired import Paired
from rebench.data import data_spec
from rebench.errors import InputError
from rebench.intervals import Crossed, clustered_mean, crossed_mean, share_interval, student_reach

__all__ = [
    "FEATURES",
    "crossed_difference",
    "features",
    "improvement",
    "improvement_by",
    "regression",
]

# What improvement is held against: column -> label. The multiplier is the topology rule's.
FEATURES: Final[Mapping[str, str]] = {
    "n_paths": "paths",
    "mean_depth": "convolutions per path",
    "log2_multiplier": "log2 of the multiplier",
    "log2_flops": "log2 of FLOPs",
}


def features(cells: Ints) -> pd.DataFrame:
    """The columns of `FEATURES` for benchmark indices `cells`.

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


def improvement(paired: Paired) -> dict[str, float]:
    """The mean difference after - before, and the share of cells that improved.

    The mean's interval and p-value are those of `crossed_difference`, the share's is Wilson's for
    as many classes. Keys: `n_cells`, `n_classes`, `mean_before`, `mean_after`, `difference`, `low`,
    `high`, `p_value` (two-sided), `median`, `improved`, `improved_low`, `improved_high`.
    """
    first, second = paired.before.means, paired.after.means
    difference = second - first
    crossed = crossed_difference(paired)
    share = float((difference > 0).mean())
    n_classes = int(paired.classes.max()) + 1
    _, share_low, share_high = share_interval(share, n_classes)
    return {
        "n_cells": len(difference),
        "n_classes": n_classes,
        "mean_before": float(first.mean()),
        "mean_after": float(second.mean()),
        "difference": crossed.value,
        "low": crossed.low,
        "high": crossed.high,
        "p_value": crossed.p_value,
        "median": float(np.median(difference)),
        "improved": share,
        "improved_low": share_low,
        "improved_high": share_high,
    }


def crossed_difference(paired: Paired) -> Crossed:
    """The mean over cells of after - before, with cells and seeds both a sample of more.

    Cells that are one function are one observation. Where a table has one seed of every cell, or no
    cell has them all, nothing says how much a seed adds: the interval is then over cells alone.
    """
    whole = paired.whole
    first, second = whole.before.runs, whole.after.runs
    difference = paired.after.means - paired.before.means
    parts = [second - first] if whole.shared_seeds else [second, first]
    return crossed_mean(difference, paired.classes, parts, whole.classes)


def improvement_by(paired: Paired, feature: Floats, *, bins: int = 6) -> pd.DataFrame:
    """The mean improvement within values, or quantile bins, of a feature [cells].

    A feature of few values has one row per value. Rows: `low`, `high` of the feature, `n_cells`,
    `difference`, `difference_low`, `difference_high` (Student's over classes). Cells without the
    feature are left out.
    """
    known = np.isfinite(feature)
    difference = (paired.after.means - paired.before.means)[known]
    values, of_class = feature[known], paired.classes[known]
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


def regression(paired: Paired) -> pd.DataFrame:
    """Regress the improvement on the standardised `FEATURES` (least squares).

    Intervals are heteroscedasticity-consistent (HC3), since worse cells are noisier, and summed
    over classes of cells, which are one observation each (clustered). One row per feature:
    `feature`, `coefficient` (percentage points per standard deviation of the feature), `low`,
    `high`, `p_value`, `r_squared` (of the whole fit), `n_cells`. A feature that does not vary among
    the cells has NaN.
    """
    table = features(paired.before.cells)
    known = np.isfinite(table.to_numpy()).all(axis=1)
    difference = (paired.after.means - paired.before.means)[known]
    columns = table.to_numpy()[known]
    of_class = np.unique(paired.classes[known], return_inverse=True)[1]
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
        ("p_value", 2 * special.stdtr(freedom, -in_errors)),
    ):
        column = np.full(len(FEATURES), np.nan)
        column[varies] = values
        fit[name] = column
    fit["r_squared"] = 1 - float(residual @ residual) / spread if spread else math.nan
    fit["n_cells"] = n
    return fit
