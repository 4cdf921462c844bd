"""Change of accuracy from one table to another."""

from __future__ import annotations

from rebench.analysis.paired import Paired
from rebench.intervals import Crossed, crossed_mean, share_interval

__all__ = ["crossed_difference", "improvement"]


def improvement(paired: Paired) -> dict[str, float]:
    """Return the mean difference after - before, and the share of cells that improved.

    The interval and p-value of the mean come from `crossed_difference`. The interval of the share
    is Wilson's, with the number of classes as the sample size. Keys: `n_cells`, `n_classes`,
    `difference`, `low`, `high`, `p_value` (two-sided), `improved` with `_low` and `_high`.
    """
    difference = paired.other.means - paired.baseline.means
    crossed = crossed_difference(paired)
    share = float((difference > 0).mean())
    n_classes = int(paired.classes.max()) + 1
    _, share_low, share_high = share_interval(share, n_classes)
    return {
        "n_cells": len(difference),
        "n_classes": n_classes,
        "difference": crossed.value,
        "low": crossed.low,
        "high": crossed.high,
        "p_value": crossed.p_value,
        "improved": share,
        "improved_low": share_low,
        "improved_high": share_high,
    }


def crossed_difference(paired: Paired) -> Crossed:
    """Return the mean over cells of after - before, with cells and seeds as random samples.

    Equal cells are one observation. The effect of a seed is unknown if a table has one seed, or if
    no cell has all common seeds. The interval then allows only for the sample of cells.
    """
    whole = paired.whole
    first, second = whole.baseline.runs, whole.other.runs
    difference = paired.other.means - paired.baseline.means
    parts = [second - first] if whole.shared_seeds else [second, first]
    return crossed_mean(difference, paired.classes, parts, whole.classes)
