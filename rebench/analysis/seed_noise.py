"""Model of the seed noise of a table: standard deviations of runs, and true accuracies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rebench.analysis.tau import Floats
from rebench.errors import InputError
from rebench.tables.seed_effects import TIE_WIDTH, centred, means_of

__all__ = ["Rng", "SeedNoise", "pooled", "pooled_sd", "reach"]

Rng: TypeAlias = np.random.Generator | int | None
"""Source of draws: a generator, the seed of a new generator, or None for a random seed."""

_MAX_BINS: Final = 60
_EM_ROUNDS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedNoise:
    """Seed noise of one table, and the distribution of its true accuracies.

    The noise of a run is pooled over cells of similar accuracy: a cell has few seeds, and worse
    cells are noisier. The true accuracies have a histogram prior with bins at quantiles of the
    means, fitted by EM (empirical Bayes; Efron, Biometrika 2016). The true accuracy of a cell is
    drawn from its posterior: a normal around its mean, weighted by the prior. The posterior moves
    overestimated cells down. The common effect of a seed does not change ranks (`centred`).
    """

    means: Floats
    """[cells] means over seeds."""
    counts: NDArray[np.int64]
    """[cells] number of seeds of each mean."""
    run_sd: Floats
    """[cells] standard deviation of one run, pooled over similar cells."""
    edges: Floats
    """[bins + 1] edges of the bins of the prior."""
    posterior: Floats
    """[cells, bins] probability that the true accuracy is in each bin."""

    @classmethod
    def fit(cls, values: ArrayLike) -> SeedNoise:
        """Fit the model to accuracies [cells, seeds], NaN where a cell lacks a seed."""
        runs = np.asarray(values, dtype=np.float64)
        counts = np.isfinite(runs).sum(axis=-1)
        if runs.ndim != 2 or not (counts >= 2).any():
            raise InputError("seed noise needs at least one cell with two seeds; got one seed each")
        runs = centred(runs)
        return cls.of(means_of(runs), counts, pooled_sd(runs))

    @classmethod
    def of(cls, means: Floats, counts: NDArray[np.int64], run_sd: Floats) -> SeedNoise:
        """Fit the true accuracies, given the noise of a run; all arguments are [cells]."""
        mean_sd = run_sd / np.sqrt(counts)
        edges = _prior_edges(means, mean_sd)
        return cls(
            means=means,
            counts=counts,
            run_sd=run_sd,
            edges=edges,
            posterior=_posterior(means, mean_sd, edges),
        )

    def take(self, rows: NDArray[np.int64]) -> SeedNoise:
        """Return the model of some of the cells, with the prior of all cells."""
        return replace(
            self,
            means=self.means[rows],
            counts=self.counts[rows],
            run_sd=self.run_sd[rows],
            posterior=self.posterior[rows],
        )

    def true_means(self, draws: int, rng: Rng = None) -> Floats:
        """Draw true accuracies [draws, cells] from the cells' posteriors."""
        rng = np.random.default_rng(rng)
        n_cells, n_bins = self.posterior.shape
        sd = self.run_sd / np.sqrt(self.counts)
        # Find the bins by one search: the distribution of each cell is shifted by its number.
        reached = np.minimum(np.cumsum(self.posterior, axis=1), 1)
        reached[:, -1] = 1
        cells = np.arange(n_cells)
        pick = rng.random((draws, n_cells))
        found = np.searchsorted((reached + cells[:, None]).ravel(), pick + cells, side="right")
        bins = np.clip(found - cells * n_bins, 0, n_bins - 1)
        # Inside its bin the posterior is a truncated normal: invert its distribution function.
        below = special.ndtr((self.edges - self.means[:, None]) / sd[:, None])
        low, high = below[cells, bins], below[cells, bins + 1]
        level = low + (high - low) * rng.random(pick.shape)
        inside = self.means + sd * special.ndtri(np.clip(level, 1e-300, 1 - 1e-16))
        return np.clip(inside, self.edges[bins], self.edges[bins + 1])


def pooled_sd(values: Floats) -> Floats:
    """Return the standard deviation of one run [cells], pooled over cells of similar mean.

    Accuracies are [cells, seeds], NaN where a cell lacks a seed. At least one cell has two seeds.
    """
    means, counts = means_of(values), np.isfinite(values).sum(axis=1)
    squares = np.nansum((values - means[:, None]) ** 2, axis=1)
    return np.maximum(np.sqrt(pooled(squares, np.maximum(counts - 1, 0), means)), TIE_WIDTH)


def reach(n: int) -> int:
    """Return the number of cells on either side of a cell that count as similar."""
    return max(10, min(100, n // 20))


def pooled(sums: Floats, weights: ArrayLike, by: Floats) -> Floats:
    """Return sums divided by weights [cells], over each cell and the cells of similar `by`."""
    order = np.argsort(by, kind="stable")
    total, weight = (
        np.concatenate([[0.0], np.cumsum(np.asarray(x, dtype=np.float64)[order])])
        for x in (sums, weights)
    )
    # Cells of equal values have the same neighbourhood.
    low, high = (np.searchsorted(by, by, side=side, sorter=order) for side in ("left", "right"))
    low, high = np.maximum(low - reach(len(by)), 0), np.minimum(high + reach(len(by)), len(by))
    inside = weight[high] - weight[low]
    shares: Floats = (total[high] - total[low]) / np.maximum(inside, 1)
    return np.where(inside > 0, shares, total[-1] / weight[-1])


def _prior_edges(means: Floats, mean_sd: Floats) -> Floats:
    """Return bin edges at quantiles of the means, finer in both tails, plus a margin of one sd."""
    n_bins = int(np.clip(math.sqrt(len(means) / 2), 1, _MAX_BINS))
    shares = (1 - np.cos(np.pi * np.arange(n_bins + 1) / n_bins)) / 2
    edges = np.quantile(means, shares)
    edges[0] -= mean_sd[np.argmin(means)]
    edges[-1] += mean_sd[np.argmax(means)]
    return np.unique(edges)


def _posterior(means: Floats, mean_sd: Floats, edges: Floats) -> Floats:
    """Return the probability [cells, bins] of each bin given the mean; fit the prior by EM."""
    reached = special.ndtr((edges[None] - means[:, None]) / mean_sd[:, None])
    likelihood = np.maximum(np.diff(reached, axis=1), 1e-300) / np.diff(edges)
    mass = np.diff(edges) / np.ptp(edges)
    for _ in range(_EM_ROUNDS):
        weight = likelihood * mass
        weight /= weight.sum(axis=1, keepdims=True)
        mass = weight.mean(axis=0)
    return np.asarray(weight)
