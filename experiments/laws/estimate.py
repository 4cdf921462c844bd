"""Estimates with intervals of 95 %: power laws, correlations, calibration.

All resample with the generator that they take, and return percentile intervals.
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
    """The least-squares slope of log y on log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


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
        mean: Array = np.exp(np.log(draws).mean(-1)) if geometric else draws.mean(-1)
        return mean

    value = log_slope(x, [means(np.asarray(draws)) ** power for draws in samples])
    resampled = [means(rng.choice(draws, (RESAMPLES, len(draws)))) for draws in samples]
    return _between(value, power * np.polyfit(np.log(x), np.log(resampled), 1)[0])


def correlation(x: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator) -> Estimate:
    """Pearson's r of two series, resampling the pairs; nan where one is constant."""
    return _resampled(_correlations, rng, x, y)


def correlation_gain(
    x: npt.ArrayLike, reference: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """R(x, y) - r(reference, y), resampling the triples; nan where one is constant."""
    return _resampled(
        lambda a, b, c: _correlations(a, c) - _correlations(b, c), rng, x, reference, y
    )


def _correlations(x: Array, y: Array) -> Array:
    """R along the last axis; nan where it is the same pair over and over."""
    varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    x, y = (values - values.mean(axis=-1, keepdims=True) for values in (x, y))
    scale = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    return np.where(varied, (x * y).sum(axis=-1) / np.where(varied, scale, 1.0), np.nan)


def rms_log_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """The typical factor between measured and c * predicted, with c fitted: 1 is perfect.

    exp of the standard deviation of log(measured / predicted): the distance from the identity
    line, which a correlation does not see.
    """
    ratios = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted))
    return _resampled(lambda drawn: np.exp(drawn.std(axis=-1)), rng, ratios)


def identity_factor(
    predicted: npt.ArrayLike, measured: npt.ArrayLike, rng: np.random.Generator
) -> Estimate:
    """The typical factor between measured and predicted as they stand: 1 is perfect.

    exp of the root mean square of log(measured / predicted), the distance from the identity line
    with a wrong common scale counted.
    """
    squares = np.log(np.asarray(measured, dtype=np.float64) / np.asarray(predicted)) ** 2
    return _resampled(lambda drawn: np.exp(drawn.mean(axis=-1) ** 0.5), rng, squares)


def _resampled(
    statistic: Callable[..., Array], rng: np.random.Generator, *columns: npt.ArrayLike
) -> Estimate:
    """A statistic of columns along their last axis, resampling their rows; nan where it is none."""
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
