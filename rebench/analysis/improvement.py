"""How much better cells became, and where."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cells.table import compile_space
from rebench.analysis.concordance import Floats, Ints
from rebench.analysis.paired import Paired
from rebench.data import data_spec
from rebench.intervals import Crossed, crossed_mean, share_interval

__all__ = [
    "crossed_difference",
    "features",
    "improvement",
    "improvement_by",
]


def features(cells: Ints) -> pd.DataFrame:
    """What improvement may be held against [cells, features], for benchmark indices `cells`.

    The multiplier is the topology rule's. Cells without a path have no multiplier and no depth:
    NaN.
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
    `difference`, `difference_low`, `difference_high` (`crossed_difference`). Cells without the
    feature are left out.
    """
    distinct = np.unique(feature[np.isfinite(feature)])
    if len(distinct) <= bins:
        groups = np.searchsorted(distinct, feature)
    else:
        shares = np.arange(1, bins) / bins
        inner = np.unique(np.quantile(feature[np.isfinite(feature)], shares))
        groups = np.searchsorted(inner, feature, side="left")
    groups[~np.isfinite(feature)] = -1
    rows = []
    for group in np.unique(groups[groups >= 0]):
        inside = groups == group
        values = feature[inside]
        row = {"low": values.min(), "high": values.max(), "n_cells": len(values)}
        rows.append(row | crossed_difference(paired.take(inside)).named("difference"))
    return pd.DataFrame(rows)
