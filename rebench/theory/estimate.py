"""Estimates with intervals: power laws, correlations and calibration, all by bootstrap.

Every function resamples with a generator that is passed in and returns 95 % percentile intervals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Estimate", "correlation", "fit_exponent", "log_slope", "median", "rms_log_factor"]

Array = npt.NDArray[np.float64]
RESAMPLES = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def log_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the least-squares slope of log y on log x."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    log_y = np.log(np.asarray(y, dtype=np.float64))
    centred = log_x - log_x.mean()
    return float(centred @ (log_y - log_y.mean()) / (centred @ centred))


def fit_exponent(
    x: npt.ArrayLike, samples: Sequence[Array], power: float, rng: np.random.Generator
) -> Estimate:
    """Return the exponent of mean(samples[i])**power in x[i], resampling each x's draws."""
    value = log_slope(x, [np.mean(draws) ** power for draws in samples])
    means = [rng.choice(draws, (RESAMPLES, len(draws))).mean(axis=1) for draws in samples]
    slopes = [log_slope(x, resampled**power) for resampled in np.stack(means, axis=1)]
    return _estimate(value, slopes)


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """Return Pearson's r of two series, resampling the pairs; nan where one is constant."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    resampled = []
    for _ in range(RESAMPLES):
        rows = rng.integers(len(a), size=len(a))
        if np.ptp(a[rows]) > 0 and np.ptp(b[rows]) > 0:
            resampled.append(float(np.corrcoef(a[rows], b[rows])[0, 1]))
    return _estimate(float(np.corrcoef(a, b)[0, 1]), resampled)


def rms_log_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """Return the typical factor between measured and c * predicted, with c fitted: 1 is perfect.

    exp of the standard deviation of log(measured / predicted): the distance from the identity
    line, which a correlation does not see.
    """
    ratios = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted))
    resampled = [float(np.exp(np.std(rng.choice(ratios, len(ratios))))) for _ in range(RESAMPLES)]
    return _estimate(float(np.exp(np.std(ratios))), resampled)


def median(values: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """Return the median of independent values."""
    array = np.asarray(values, dtype=np.float64)
    resampled = [float(np.median(rng.choice(array, len(array)))) for _ in range(RESAMPLES)]
    return _estimate(float(np.median(array)), resampled)


def _estimate(value: float, resampled: Sequence[float]) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
