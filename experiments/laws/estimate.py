"""Estimates with intervals of 95 %: power laws, correlations, calibration.

All functions resample with their generator argument and return percentile intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rebench.intervals import Estimate

Array = npt.NDArray[np.float64]
RESAMPLES = 1000


def log_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the least-squares slope of log y on log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def fit_exponent(
    x: npt.ArrayLike,
    samples: Sequence[Array],
    power: float,
    rng: np.random.Generator,
    *,
    geometric: bool = False,
) -> Estimate:
    """Fit the exponent of mean(samples[i])**power in x[i], resampling the draws of each x.

    With `geometric` the mean is exp of the logarithms' mean. It describes a typical draw if a few
    draws dominate the arithmetic mean.
    """

    def means(draws: Array) -> Array:
        mean: Array = np.exp(np.log(draws).mean(-1)) if geometric else draws.mean(-1)
        return mean

    value = log_slope(x, [means(np.asarray(draws)) ** power for draws in samples])
    resampled = [means(rng.choice(draws, (RESAMPLES, len(draws)))) for draws in samples]
    return _between(value, power * np.polyfit(np.log(x), np.log(resampled), 1)[0])


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """Return Pearson's r of two series, resampling the pairs; nan for a constant series."""
    return _resampled(_correlations, rng, x, y)


def correlation_gain(
    x: npt.ArrayLike, reference: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """Return r(x, y) - r(reference, y), resampling triples; nan for a constant series."""
    return _resampled(
        lambda a, b, c: _correlations(a, c) - _correlations(b, c), rng, x, reference, y
    )


def _correlations(x: Array, y: Array) -> Array:
    """Return r along the last axis; nan if all pairs are equal."""
    varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    x, y = (values - values.mean(axis=-1, keepdims=True) for values in (x, y))
    scale = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    return np.where(varied, (x * y).sum(axis=-1) / np.where(varied, scale, 1.0), np.nan)


def rms_log_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """Return the typical factor between measured and c * predicted with a fitted c; 1 is perfect.

    exp of the standard deviation of log(measured / predicted): the distance from the identity
    line, which a correlation does not measure.
    """
    ratios = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted))
    return _resampled(lambda drawn: np.exp(drawn.std(axis=-1)), rng, ratios)


def identity_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """Return the typical factor between measured and predicted, without a scale; 1 is perfect.

    exp of the root mean square of log(measured / predicted): the distance from the identity line,
    including a wrong common scale.
    """
    squares = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted)) ** 2
    return _resampled(lambda drawn: np.exp(drawn.mean(axis=-1) ** 0.5), rng, squares)


def _resampled(
    statistic: Callable[..., Array], rng: np.random.Generator, *columns: npt.ArrayLike
) -> Estimate:
    """Return a statistic of columns along their last axis, resampling rows; nan if undefined."""
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    value = float(statistic(*arrays))
    if math.isnan(value):
        return Estimate(value, value, value)
    rows = rng.integers(len(arrays[0]), size=(RESAMPLES, len(arrays[0])))
    resampled = statistic(*(array[rows] for array in arrays))
    return _between(value, resampled[np.isfinite(resampled)])


def _between(value: float, resampled: Array) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
