"""Two tables on one scale: accuracies of cells as if the recipes differed by noise alone."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from rebench.analysis.concordance import Floats, Ints
from rebench.analysis.seed_noise import means_of, pooled, pooled_sd, reach

__all__ = ["FEW_CELLS", "LEAST_SD", "means_and_noise", "on_scale_of", "unchanged"]

FEW_CELLS: Final = 50
"""With fewer cells, the test rarely sees a change as large as the noise of a run, and the scales
of two tables cannot be told from a change (`docs/explanation/analysis.md`)."""
LEAST_SD: Final = 1e-3
"""A smaller standard deviation of a run is none."""
# Differences between tables that one clean table in a thousand has.
_RARE: Final = 0.001
# Knots of the map between the two scales: one for so many cells, and no more than these.
_CELLS_A_KNOT: Final = 8
_MAX_KNOTS: Final = 12
_SCORES: Final = special.ndtri((np.arange(16) + 0.5) / 16)


def on_scale_of(a: Floats, b: Floats) -> Floats:
    """Bring `b` to the scale of `a`: equal quantiles of cell means are made equal.

    Means of noisier runs are spread wider, which is no matter of scale: where both tables show
    their noise, the quantiles are those that means would have if all were as noisy as the noisier.
    """
    plain = _matched(a, b, np.zeros((2, len(a))))
    if not all((np.isfinite(x).sum(axis=1) >= 2).any() for x in (a, b)):
        return plain
    of_a, of_b, own = (pooled_sd(x) / np.sqrt(np.isfinite(x).sum(axis=1)) for x in (a, plain, b))
    noisy = np.minimum(np.minimum(of_a, of_b), own) > LEAST_SD
    more = np.where(noisy, of_b**2 - of_a**2, 0)
    spread = np.sqrt(np.maximum([more, -more], 0))
    return _matched(a, b, spread * [np.ones(len(a)), own / of_b])


def _matched(a: Floats, b: Floats, spread: Floats) -> Floats:
    """`b` mapped, monotone and linear between few knots, so that quantiles of means are equal.

    To the means of both tables normal noise of standard deviations `spread` [2, cells] is added.
    """
    n_knots = max(2, min(_MAX_KNOTS, len(a) // _CELLS_A_KNOT + 1))
    shares = np.linspace(0, 1, n_knots)
    to, at = (
        np.quantile(means_of(x)[:, None] + sd[:, None] * _SCORES, shares)
        for x, sd in zip((a, b), spread, strict=True)
    )
    distinct = np.concatenate([[True], np.diff(at) > 1e-9])
    to, at = to[distinct], at[distinct]
    if len(at) == 1:
        return np.asarray(b - at[0] + to[0])
    place = np.clip(np.searchsorted(at, b, side="right") - 1, 0, len(at) - 2)
    slope = np.diff(to) / np.diff(at)
    return to[place] + slope[place] * (b - at[place])  # beyond the ends too


def unchanged(a: Floats, b: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """What means look like without a change: their centre [cells], and what is added to it.

    Given a cell's true accuracy in both tables, its mean weighted by precision says all about it
    that the runs say, and the means differ with variance s_a/k_a + s_b/k_b, of which each table
    has its part. Dealt out at random they differ with S (1/k_a + 1/k_b), S the variance of all
    runs of a cell: so differences [2, cells] are multiplied by the root of the ratio. S is no more
    than chance allows: else a change of the ranking would pass for noise.
    """
    k = counts.T
    means, noise = means_and_noise(a, b)
    parts = noise / k
    wanted = np.maximum(parts.sum(axis=0), LEAST_SD**2)
    centre = (means * parts[::-1]).sum(axis=0) / wanted
    within = ((k - 1) * noise).sum(axis=0)
    between = wanted * k.prod(axis=0) / k.sum(axis=0)
    dealt = (within + between) / (k.sum(axis=0) - 1) * (1 / k).sum(axis=0)
    factor = np.sqrt(wanted / dealt)
    if len(a) >= FEW_CELLS:  # the scales of fewer cells cannot be told from a change
        seen = pooled((means[0] - means[1]) ** 2 / wanted, np.ones(len(a)), centre)
        most = special.chdtri(freedom := 2 * reach(len(a)) + 1, _RARE) / freedom
        beyond = (within + between * np.maximum(seen, most)) / (within + between * most)
        factor /= np.sqrt(beyond)
    return centre, np.stack([parts[0], -parts[1]]) / wanted * factor


def means_and_noise(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Means of cells and variances of a run, both [2, cells], of tables on one scale.

    A table without noise of its own is taken to have the other's.
    """
    known = [pooled_sd(x) ** 2 for x in (a, b) if (np.isfinite(x).sum(axis=1) >= 2).any()]
    return np.stack([means_of(a), means_of(b)]), np.stack([known[0], known[-1]])
