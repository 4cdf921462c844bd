"""How much better cells became, where, and whether the rule or merely a larger rate did it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from cells.table import compile_space
from rebench.analysis.accuracies import Accuracies, pair
from rebench.analysis.concordance import Floats, Ints
from rebench.analysis.ranks import MIN_CELLS, cell_means
from rebench.datasets import data_spec
from rebench.errors import InputError
from rebench.intervals import half_width, student_reach

__all__ = ["FEATURES", "contrasts", "features", "improvement", "improvement_by", "regression"]

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
    table: pd.DataFrame = pd.DataFrame(
        {
            "n_paths": paths,
            "mean_depth": mean_depth,
            "log2_multiplier": np.log2(space.lr_multiplier[cells]),
            "log2_flops": np.log2(data_spec("cifar10").cost_model().flops(space.ops[cells])),
        }
    )
    return table


def improvement(before: ArrayLike, after: ArrayLike, *, level: float = 0.95) -> dict[str, float]:
    """Return the mean paired difference after - before, and the share of cells that improved.

    The interval of the mean is Student's over cells, that of the share Wilson's. Keys: `n_cells`,
    `mean_before`, `mean_after`, `difference`, `low`, `high`, `median`, `p_value` (Wilcoxon's
    signed rank, two-sided), `improved`, `improved_low`, `improved_high`.
    """
    first, second = cell_means(before), cell_means(after)
    difference = second - first
    n = len(difference)
    mean, low, high = _student(difference, level)
    wins = int((difference > 0).sum())
    share = stats.binomtest(wins, n).proportion_ci(level, method="wilson")
    moved = bool(np.any(difference != 0))
    return {
        "n_cells": n,
        "mean_before": float(first.mean()),
        "mean_after": float(second.mean()),
        "difference": mean,
        "low": low,
        "high": high,
        "median": float(np.median(difference)),
        "p_value": float(stats.wilcoxon(difference).pvalue) if moved and n > 1 else math.nan,
        "improved": wins / n,
        "improved_low": float(share.low),
        "improved_high": float(share.high),
    }


def improvement_by(
    before: ArrayLike, after: ArrayLike, feature: ArrayLike, *, bins: int = 6
) -> pd.DataFrame:
    """Return the mean improvement within values, or quantile bins, of a feature [cells].

    A feature of few values has one row per value. Rows: `low`, `high` of the feature, `n_cells`,
    `difference`, `difference_low`, `difference_high`. Cells without the feature are left out.
    """
    difference = cell_means(after) - cell_means(before)
    values = np.asarray(feature, dtype=np.float64)
    known = np.isfinite(values)
    difference, values = difference[known], values[known]
    distinct = np.unique(values)
    if len(distinct) <= bins:
        groups = np.searchsorted(distinct, values)
    else:
        inner = np.unique(np.quantile(values, np.arange(1, bins) / bins))
        groups = np.searchsorted(inner, values, side="left")
    rows = []
    for group in np.unique(groups):
        inside = groups == group
        mean, low, high = _student(difference[inside], 0.95)
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
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def regression(before: ArrayLike, after: ArrayLike, cells: Ints) -> pd.DataFrame:
    """Regress the improvement on the standardised `FEATURES` (least squares).

    Intervals are heteroscedasticity-consistent (HC3), since worse cells are noisier. One row per
    feature: `feature`, `coefficient` (percentage points per standard deviation of the feature),
    `low`, `high`, `p_value`, `r_squared` (of the whole fit), `n_cells`. A feature that does not
    vary among the cells has NaN.
    """
    table = features(cells)
    known = np.isfinite(table.to_numpy()).all(axis=1)
    difference = (cell_means(after) - cell_means(before))[known]
    columns = table.to_numpy()[known]
    n = len(difference)
    if n < max(MIN_CELLS, columns.shape[1] + 3):
        raise InputError(f"a regression needs {MIN_CELLS} cells with a path, got {n}")
    varies = columns.std(axis=0) > 1e-9
    scaled = (columns - columns.mean(axis=0))[:, varies] / columns.std(axis=0)[varies]
    design = np.column_stack([np.ones(n), scaled])
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ difference
    residual = difference - design @ coefficients
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    weight = (residual / np.maximum(1 - leverage, 1e-9)) ** 2
    covariance = inverse @ (design.T * weight) @ design @ inverse
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    freedom = n - design.shape[1]
    reach = student_reach(freedom)
    spread = float(((difference - difference.mean()) ** 2).sum())
    fit: pd.DataFrame = pd.DataFrame({"feature": list(FEATURES)})
    for name, values in (
        ("coefficient", coefficients[1:]),
        ("low", coefficients[1:] - reach * error[1:]),
        ("high", coefficients[1:] + reach * error[1:]),
        ("p_value", 2 * stats.t.sf(np.abs(coefficients[1:]) / error[1:], freedom)),
    ):
        column = np.full(len(FEATURES), np.nan)
        column[varies] = values
        fit[name] = column
    fit["r_squared"] = 1 - float(residual @ residual) / spread if spread else math.nan
    fit["n_cells"] = n
    return fit


def contrasts(tables: Mapping[str, Accuracies], *, against: str | None = None) -> pd.DataFrame:
    """Compare recipes pairwise on their common cells: the two names, and `improvement`'s keys.

    With controls among the tables this separates the rule from its parts: against a `fixed`
    recipe at a larger rate ("scaled, or merely larger?"), `topology-lr` and `topology-init` alone.

    Args:
        tables: accuracies by recipe, on one data set.
        against: only pairs with this recipe as `after`; all pairs if None.
    """
    names = list(tables)
    rows = []
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            before, after = (other, name) if name == against else (name, other)
            if against is not None and after != against:
                continue
            paired = pair(tables[before], tables[after])
            rows.append(
                {"before": before, "after": after, **improvement(paired.before, paired.after)}
            )
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _student(values: Floats, level: float) -> tuple[float, float, float]:
    """Return the mean with its interval; nan, not infinities, where one value has none."""
    mean = float(values.mean())
    half = half_width(values, level) if len(values) > 1 else math.nan
    return mean, mean - half, mean + half
