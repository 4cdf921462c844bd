"""Confidence intervals of the quantities that rebench reports.

`docs/explanation/test.md` lists the interval of each quantity and its coverage.
Resampling intervals are in the modules that use them, since the resampled units differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Crossed",
    "Estimate",
    "crossed_mean",
    "mean_interval",
    "share_interval",
    "spearman_interval",
    "student_reach",
]

Ints: TypeAlias = NDArray[np.int64]


class Estimate(NamedTuple):
    """Value and its confidence interval."""

    value: float
    low: float
    high: float

    def covers(self, value: float) -> bool:
        """Return whether the interval contains a value."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def student_reach(freedom: float, level: float = 0.95) -> float:
    """Return the half width of the two-sided interval in standard errors."""
    if freedom == 2:
        # Three seeds, the usual number: an exact formula, without loading SciPy.
        return level * math.sqrt(2 / (1 - level**2))
    from scipy import special  # `scipy.stats` takes seconds to load

    return float(special.stdtrit(freedom, (1 + level) / 2))


def mean_interval(sample: ArrayLike, level: float = 0.95, groups: Ints | None = None) -> Estimate:
    """Return the mean with Student's interval; for one value the interval is unbounded.

    With `groups` [values], the values of one group are one observation.
    """
    values = np.asarray(sample, dtype=np.float64)
    mean = float(values.mean())
    sums: NDArray[np.float64] = values - mean
    if groups is not None:
        sums = np.bincount(np.unique(groups, return_inverse=True)[1], sums).astype(np.float64)
    if len(sums) < 2:
        return Estimate(mean, -math.inf, math.inf)
    # The standard error of a mean of clusters; with clusters of size 1 this is the usual formula.
    error = float(np.sqrt(len(sums) / (len(sums) - 1) * float(sums @ sums))) / len(values)
    half = student_reach(len(sums) - 1, level) * error
    return Estimate(mean, mean - half, mean + half)


class Crossed(NamedTuple):
    """Mean with its interval, and the two-sided p-value of a mean of 0."""

    value: float
    low: float
    high: float
    p_value: float

    def named(self, name: str) -> dict[str, float]:
        """Return the value under `name`, and its interval under `_low` and `_high`."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def crossed_mean(
    values: ArrayLike,
    groups: Ints,
    parts: Sequence[NDArray[np.float64]],
    part_groups: Ints,
    level: float = 0.95,
) -> Crossed:
    """Return the mean of values with an interval for samples of both rows and columns.

    The variance of the mean is the variance over groups of rows plus, for every part, the excess
    variance between columns (two-way random effects). The interval is Student's with
    Satterthwaite's degrees of freedom. With one group of rows, interval and p-value are NaN.

    Args:
        values: [rows] each a mean over its columns.
        groups: [rows] the group of each row; a group is one observation.
        parts: [rows, columns] arrays that the values are made of, one for each set of independent
            columns. A difference of two tables is one part if they share seeds, else two. A part
            of one column gives no variance between columns.
        part_groups: [rows of the parts] the group of each row.
        level: the confidence level.
    """
    array = np.asarray(values, dtype=np.float64)
    mean, low, _ = mean_interval(array, level, groups)
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        return Crossed(mean, float("nan"), float("nan"), float("nan"))
    of_rows = ((mean - low) / student_reach(n_groups - 1, level)) ** 2
    variance, squares = of_rows, of_rows**2 / (n_groups - 1)
    numbers = np.unique(part_groups, return_inverse=True)[1]
    for part in parts:
        k = part.shape[1]
        if k < 2 or numbers.max() < 1:
            continue
        between = float(part.mean(axis=0).var(ddof=1)) / k
        centred = part - part.mean(axis=1, keepdims=True) - part.mean(axis=0) + part.mean()
        sums = np.array([np.bincount(numbers, column) for column in centred.T])
        n = len(sums[0])
        inside = n / (n - 1) * float((sums**2).sum()) / (k * (k - 1) * len(part) ** 2)
        if between > inside:
            variance += between - inside
            squares += between**2 / (k - 1) + inside**2 / ((k - 1) * (n - 1))
    freedom = variance**2 / squares if squares else n_groups - 1
    from scipy import special

    error = float(np.sqrt(variance))
    half = student_reach(freedom, level) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)
    return Crossed(mean, mean - half, mean + half, p_value)


def share_interval(share: float, n: int, level: float = 0.95) -> Estimate:
    """Return a share of `n` independent trials with Wilson's interval (JASA 1927).

    Unlike a normal interval, it stays inside [0, 1] and has a width at shares of 0 and 1.
    """
    reach = NormalDist().inv_cdf((1 + level) / 2)
    centre = (share + reach**2 / (2 * n)) / (1 + reach**2 / n)
    root = float(np.sqrt(share * (1 - share) / n + reach**2 / (4 * n**2)))
    half = reach / (1 + reach**2 / n) * root
    return Estimate(share, centre - half, centre + half)


def spearman_interval(value: float, n: int, level: float = 0.95) -> Estimate:
    """Return Spearman's correlation of `n` pairs, at least 4, with an interval on Fisher's scale.

    The standard error is from Bonett and Wright (Psychometrika 2000). The correlation of a sample
    is biased towards 0 for a normal population (Moran, Biometrika 1948). Near 1 the bias is larger
    than a standard error. So the end away from 0 is computed from the correlation after bias
    correction.
    """
    size = abs(value)
    finest = 1 - 6 / (n**3 - n)  # half a step from 1: the next lower value is two swapped ranks
    rho = np.sin(np.linspace(0, np.pi / 2, 1001))
    expected = 6 / (np.pi * (n + 1)) * (np.arcsin(rho) + (n - 2) * np.arcsin(rho / 2))
    population = float(np.interp(size, expected, 6 / np.pi * np.arcsin(rho / 2)))
    reach = NormalDist().inv_cdf((1 + level) / 2) / np.sqrt(n - 3)
    near, far = (
        float(np.tanh(np.arctanh(centre) + side * reach * np.sqrt(1 + centre**2 / 2)))
        for centre, side in ((min(size, finest), -1), (min(population, finest), 1))
    )
    return Estimate(value, near, far) if value >= 0 else Estimate(value, -far, -near)
