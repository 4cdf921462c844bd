"""Mean accuracies of cells without the common effects of seeds, and the ranks of these means.

This is the only definition of the rank of a cell. A cell that lacks a seed gains nothing from the
other seeds, even if they are better for all cells.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["TIE_WIDTH", "centred", "means_of", "ranks_of"]

Floats: TypeAlias = NDArray[np.float64]

TIE_WIDTH: Final = 1e-6
"""Accuracies (percent) that are closer than this are tied. Means over the same seeds in another
order differ in their last bits."""
# Accuracies of more than 50,000 images count as continuous.
_FINEST_UNIT: Final = 1.9e-3
# Largest number of alternating fits of seeds and cells; only tables with gaps need more than one.
_POLISH_ROUNDS: Final = 20


def ranks_of(means: Floats, ascending: Floats) -> NDArray[np.int64]:
    """Return the ranks of some means among all means: 1 is the best, ties share the better rank.

    Args:
        means: [some cells] means over seeds of `centred` accuracies.
        ascending: [cells] the means of all cells, sorted.
    """
    not_better = np.searchsorted(ascending, means + TIE_WIDTH / 2, side="right")
    return 1 + len(ascending) - not_better


def means_of(runs: Floats) -> Floats:
    """Return means [cells] over the finite accuracies [cells, seeds]."""
    seen = np.isfinite(runs)
    total: Floats = np.where(seen, runs, 0.0).sum(axis=1)
    return total / seen.sum(axis=1)


def centred(values: Floats) -> Floats:
    """Remove the common effect of each seed from accuracies [cells, seeds].

    A seed sets the order of the data for all cells, so it can raise or lower all accuracies. Its
    effect is the median over cells of the difference between a run and the mean of its cell. A few
    failed runs do not change the median. Cells with equal runs (those without a path) have no seed
    effect and keep their values, except cells with one run. If accuracies are multiples of a unit,
    the effects are rounded to this unit, which keeps ties.
    """
    seen = np.isfinite(values)
    spread = np.where(seen, values, -np.inf).max(axis=1) - np.where(seen, values, np.inf).min(
        axis=1
    )
    moved = spread > TIE_WIDTH
    if values.shape[1] < 2 or not moved.any():
        return values
    runs = values[moved]
    unit = _common_unit(values[seen])
    effects: Floats = np.zeros(values.shape[1])
    for _ in range(_POLISH_ROUNDS):
        distances = runs - effects
        distances = distances - means_of(distances)[:, None]
        steps = np.array([_median(column[np.isfinite(column)]) for column in distances.T])
        steps -= steps.mean()
        effects = effects + steps
        if np.abs(steps).max() < TIE_WIDTH:
            break
    if unit > 0:
        effects = np.rint(effects / unit) * unit
    found: Floats = values.copy()
    found[moved | (seen.sum(axis=1) == 1)] -= effects
    return found


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _common_unit(values: Floats) -> float:
    """Return the accuracy (percent) of one of n images, if all accuracies are multiples of it.

    Return 0 if no number n of images fits.
    """
    distinct = np.unique(np.round(values, 6))
    gap = float(np.diff(distinct).min(initial=100.0))
    if gap < _FINEST_UNIT:
        return 0.0
    # The smallest gap is the unit or, among few values, a small multiple of it.
    for multiple in range(1, 21):
        images = round(100 * multiple / gap)
        steps = distinct * images / 100
        if np.abs(steps - np.rint(steps)).max() < 0.02:
            return 100 / images
    return 0.0
