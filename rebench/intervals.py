"""Student's t: the interval of a mean of a few runs, for every part that reports one.

Resampling intervals are made where they are used, since what is resampled differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # `scipy.stats` takes seconds to load

__all__ = ["Estimate", "half_width", "mean_interval", "student_reach"]


class Estimate(NamedTuple):
    """A value and its confidence interval."""

    value: float
    low: float
    high: float

    def covers(self, value: float) -> bool:
        """Return whether the interval holds a value."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def student_reach(freedom: int, level: float = 0.95) -> float:
    """Return how many standard errors the two-sided interval reaches to either side."""
    return float(special.stdtrit(freedom, (1 + level) / 2))


def half_width(sample: ArrayLike, level: float = 0.95) -> float:
    """Return half the width of the mean's interval; infinite for one value."""
    values = np.asarray(sample, dtype=np.float64)
    if len(values) < 2:
        return float("inf")
    error = float(values.std(ddof=1)) / float(np.sqrt(len(values)))
    return student_reach(len(values) - 1, level) * error


def mean_interval(sample: ArrayLike, level: float = 0.95) -> Estimate:
    """Return the mean with Student's interval; of one value, an interval without bounds."""
    mean = float(np.asarray(sample, dtype=np.float64).mean())
    half = half_width(sample, level)
    return Estimate(mean, mean - half, mean + half)
