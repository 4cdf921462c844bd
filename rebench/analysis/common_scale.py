"""Common scale of two tables: accuracies of cells as if the recipes differed only by noise."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from rebench.analysis.seed_noise import pooled, pooled_sd, reach
from rebench.analysis.tau import Floats, Ints
from rebench.tables.seed_effects import means_of

__all__ = ["FEW_CELLS", "LEAST_SD", "means_and_noise", "on_scale_of", "unchanged"]

FEW_CELLS: Final = 50
"""With fewer cells, the test rarely detects a change as large as the noise of a run. A change of
scale is then not distinguishable from a change of ranking (`docs/explanation/test.md`)."""
LEAST_SD: Final = 1e-3
"""Smaller standard deviations of a run count as 0."""
# Upper tail probability of the chi-squared limit on the difference between tables.
_RARE: Final = 0.001
# Knots of the map between the two scales: cells per knot, and the largest number of knots.
_CELLS_A_KNOT: Final = 8
_MAX_KNOTS: Final = 12
_SCORES: Final = special.ndtri((np.arange(16) + 0.5) / 16)


def on_scale_of(a: Floats, b: Floats) -> Floats:
    """Map `b` to the scale of `a`, so that the quantiles of the cell means are equal.

    Noise widens the distribution of means, but it is not a change of scale. If both tables have
    seeds, noise is added to the less noisy means before the quantiles are computed.
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
    """Map `b` by a monotone piecewise linear function that makes quantiles of means equal.

    Normal noise with standard deviations `spread` [2, cells] is added to the means of both tables.
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
    return to[place] + slope[place] * (b - at[place])  # extrapolates beyond the ends


def unchanged(a: Floats, b: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Return a model of means without a change: centres [cells] and factors [2, cells].

    The centre of a cell is its mean over both tables, weighted by precision. Let k_a and k_b be the
    numbers of runs of a cell in the tables, and s_a and s_b the variances of a run. Without a
    change, the difference of the two means has the variance s_a/k_a + s_b/k_b. After a random
    permutation of the runs, it has the variance S (1/k_a + 1/k_b), where S is the variance of all
    runs of the cell. The factors multiply differences by the root of the ratio of both variances.
    S has an upper limit, which chance rarely exceeds; otherwise a change of the ranking would count
    as noise.
    """
    k = counts.T
    means, noise = means_and_noise(a, b)
    noise = np.maximum(noise, LEAST_SD**2)
    parts = noise / k
    wanted = parts.sum(axis=0)
    centre = (means * parts[::-1]).sum(axis=0) / wanted
    within = ((k - 1) * noise).sum(axis=0)
    between = wanted * k.prod(axis=0) / k.sum(axis=0)
    dealt = (within + between) / (k.sum(axis=0) - 1) * (1 / k).sum(axis=0)
    factor = np.sqrt(wanted / dealt)
    if len(a) >= FEW_CELLS:  # with fewer cells a change of scale can look like a new ranking
        seen = pooled((means[0] - means[1]) ** 2 / wanted, np.ones(len(a)), centre)
        most = special.chdtri(freedom := 2 * reach(len(a)) + 1, _RARE) / freedom
        beyond = (within + between * np.maximum(seen, most)) / (within + between * most)
        factor /= np.sqrt(beyond)
    return centre, np.stack([parts[0], -parts[1]]) / wanted * factor


def means_and_noise(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return means of cells and variances of a run, both [2, cells], of tables on one scale.

    If a table has no seeds, its variances are those of the other table.
    """
    known = [pooled_sd(x) ** 2 for x in (a, b) if (np.isfinite(x).sum(axis=1) >= 2).any()]
    return np.stack([means_of(a), means_of(b)]), np.stack([known[0], known[-1]])
