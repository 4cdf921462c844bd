"""Estimates with intervals of 95 %: power laws, correlations, calibration.

All resample with the generator that they take, and return percentile intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rebench.intervals import Estimate

Array = npt.NDArray[np.float64]
RESAMPLES = 1000


def log_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """The least-squares slope of log y on log x."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    log_y = np.log(np.asarray(y, dtype=np.float64))
    centred = log_x - log_x.mean()
    return float(centred @ (log_y - log_y.mean()) / (centred @ centred))


def standard_error(sample: npt.ArrayLike) -> float:
    """The standard error of a sample's mean."""
    values = np.asarray(sample, dtype=np.float64)
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def fit_exponent(
    x: npt.ArrayLike,
    samples: Sequence[Array],
    power: float,
    rng: np.random.Generator,
    *,
    geometric: bool = False,
) -> Estimate:
    """The exponent of mean(samples[i])**power in x[i], resampling each x's draws.

    With `geometric` the mean is exp of the logarithms' mean: what a typical draw does, where a few
    draws make up most of an arithmetic mean.
    """

    def means(draws: Array) -> Array:
        logs = np.log(draws) if geometric else draws
        mean = np.asarray(logs.mean(axis=-1))
        return np.exp(mean) if geometric else mean

    value = log_slope(x, [means(np.asarray(draws)) ** power for draws in samples])
    resampled = [means(rng.choice(draws, (RESAMPLES, len(draws)))) for draws in samples]
    slopes = [log_slope(x, mean**power) for mean in np.stack(resampled, axis=1)]
    return _estimate(value, slopes)


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """Pearson's r of two series, resampling the pairs; nan where one is constant."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    resampled = _correlations(a, b, rng.integers(len(a), size=(RESAMPLES, len(a))))
    return _estimate(float(np.corrcoef(a, b)[0, 1]), resampled[np.isfinite(resampled)])


def correlation_gain(
    x: npt.ArrayLike, reference: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """R(x, y) - r(reference, y), resampling the triples; nan where one is constant."""
    a, b, c = (np.asarray(values, dtype=np.float64) for values in (x, reference, y))
    if min(np.ptp(a), np.ptp(b), np.ptp(c)) == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    rows = rng.integers(len(a), size=(RESAMPLES, len(a)))
    gains = _correlations(a, c, rows) - _correlations(b, c, rows)
    value = float(np.corrcoef(a, c)[0, 1] - np.corrcoef(b, c)[0, 1])
    return _estimate(value, gains[np.isfinite(gains)])


def _correlations(a: Array, b: Array, rows: npt.NDArray[np.int64]) -> Array:
    """R of every resample (its rows); nan where it is the same pair over and over."""
    x = a[rows] - a[rows].mean(axis=1, keepdims=True)
    y = b[rows] - b[rows].mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    varied = scale > 1e-12 * np.ptp(a) * np.ptp(b)
    return np.where(varied, (x * y).sum(axis=1) / np.where(varied, scale, 1.0), np.nan)


def rms_log_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """The typical factor between measured and c * predicted, with c fitted: 1 is perfect.

    exp of the standard deviation of log(measured / predicted): the distance from the identity
    line, which a correlation does not see.
    """
    ratios = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted))
    resampled = np.exp(rng.choice(ratios, (RESAMPLES, len(ratios))).std(axis=1))
    return _estimate(float(np.exp(np.std(ratios))), resampled)


def identity_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """The typical factor between measured and predicted as they stand: 1 is perfect.

    exp of the root mean square of log(measured / predicted), the distance from the identity line
    with a wrong common scale counted.
    """
    squares = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted)) ** 2
    resampled = np.exp(rng.choice(squares, (RESAMPLES, len(squares))).mean(axis=1) ** 0.5)
    return _estimate(float(np.exp(squares.mean() ** 0.5)), resampled)


def median(values: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """The median of independent values."""
    array = np.asarray(values, dtype=np.float64)
    resampled = np.median(rng.choice(array, (RESAMPLES, len(array))), axis=1)
    return _estimate(float(np.median(array)), resampled)


def _estimate(value: float, resampled: Sequence[float] | Array) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
