"""How much better cells became."""

from __future__ import annotations

from rebench.analysis.paired import Paired
from rebench.intervals import Crossed, crossed_mean, share_interval

__all__ = ["crossed_difference", "improvement"]


def improvement(paired: Paired) -> dict[str, float]:
    """The mean difference after - before, and the share of cells that improved.

    The mean's interval and p-value are those of `crossed_difference`, the share's is Wilson's for
    as many classes. Keys: `n_cells`, `n_classes`, `difference`, `low`, `high`, `p_value`
    (two-sided), `improved`, `improved_low`, `improved_high`.
    """
    difference = paired.after.means - paired.before.means
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
    """The mean over cells of after - before, with cells and seeds both a sample of more.

    Cells that are one function are one observation. Where a table has one seed of every cell, or no
    cell has them all, nothing says how much a seed adds: the interval is then over cells alone.
    """
    whole = paired.whole
    first, second = whole.before.runs, whole.after.runs
    difference = paired.after.means - paired.before.means
    parts = [second - first] if whole.shared_seeds else [second, first]
    return crossed_mean(difference, paired.classes, parts, whole.classes)
