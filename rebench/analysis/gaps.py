"""Gaps between pairs of cells: how many there are of each size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebench.analysis.concordance import TIE_WIDTH, Floats

__all__ = ["gap_counts"]


def gap_counts(means: Floats, edges: Sequence[float] | Floats) -> Floats:
    """Count the pairs of cells whose absolute gap lies in each bin [edges[i], edges[i + 1]).

    The last bin includes its right edge. Exact for any number of cells: a gap below t is a
    neighbour within t in the sorted means, so no pair is ever written out.
    """
    ordered = np.sort(means)
    places = np.arange(len(ordered))
    below = []
    for place, edge in enumerate(edges):
        side = "right" if place == len(edges) - 1 else "left"
        reach = ordered + edge + (TIE_WIDTH if side == "right" else -TIE_WIDTH)
        ends = np.searchsorted(ordered, reach, side="left")
        below.append(np.maximum(ends - places - 1, 0).sum())
    return np.diff(np.asarray(below, dtype=np.float64))
