"""P-values from draws, and their adjustment for several tests or several K."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rebench.analysis.tau import Floats

__all__ = ["bootstrap_p_values", "holm", "p_values_of"]


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values for the number of tests (Holm, Scand. J. Statist. 1979).

    Tests without a p-value (NaN) do not count.
    """
    plain = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(plain.shape, np.nan)
    places = np.flatnonzero(np.isfinite(plain))
    order = places[np.argsort(plain[places], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * plain[order]), 1)
    return adjusted


def p_values_of(observed: Floats, null: Floats) -> tuple[Floats, Floats]:
    """Return one-sided p-values [K] (tau lower than the null's), raw and adjusted for all K."""
    # A constant column has no tau. It counts as 1, so that it is never lower.
    known = np.where(np.isfinite(null), null, 1.0)
    # The observed curve counts as a draw in every step; otherwise a test with few draws would
    # reject too often.
    curves = np.vstack([known, np.nan_to_num(observed, nan=1.0)])
    scale = np.maximum(curves.std(axis=0), 1e-12)
    drops = (np.median(curves, axis=0) - curves) / scale
    p_value = (drops >= drops[-1] - 1e-9).mean(axis=0)
    largest = drops.max(axis=1)
    p_family = (largest[:, None] >= drops[-1] - 1e-9).mean(axis=0)
    return p_value, p_family


def bootstrap_p_values(drop: Floats, excess: Floats) -> tuple[Floats, Floats]:
    """Return one-sided p-values [K] of no drop: raw, and adjusted for all K.

    The test statistic is the estimate minus `excess`. The null distribution contains the draws
    minus the estimate. For the adjusted p-values, it contains the largest of these differences over
    all K, in standard deviations (Westfall & Young 1993).

    Args:
        drop: [1 + draws, K] the estimate and its bootstrap draws; NaN if not computable.
        excess: [K] the drop that is expected without a change.
    """
    p_values = np.full((2, drop.shape[1]), np.nan)
    known = np.isfinite(drop[0]) & (np.isfinite(drop[1:]).sum(axis=0) >= 2)
    if known.any():
        value, drawn = drop[0, known], drop[1:, known]
        scale = np.maximum(np.nanstd(drawn, axis=0), 1e-12)
        seen = (value - excess[known]) / scale
        chance = np.nan_to_num((drawn - value) / scale, nan=-np.inf)
        draws = 1 + np.isfinite(drawn).sum(axis=0)
        p_values[0, known] = (1 + (chance >= seen).sum(axis=0)) / draws
        # Some values of K have fewer draws: all K are compared in the draws that they share.
        last = len(drawn) - np.isfinite(drawn)[::-1].argmax(axis=0)
        largest = chance[: last.min()].max(axis=1)[:, None]
        draws = 1 + np.isfinite(drawn[: last.min()]).sum(axis=0)
        p_values[1, known] = (1 + (largest >= seen).sum(axis=0)) / draws
    return p_values[0], p_values[1]
