"""Intervals: known cases by hand, coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.laws import estimate
from experiments.laws.result import LawResult, Verdict, load_verdicts


def test_log_slope_of_a_power_law_is_its_exponent():
    x = np.array([1.0, 2.0, 5.0, 9.0])
    assert estimate.log_slope(x, 3 * x**-1.5) == pytest.approx(-1.5, rel=1e-12)


def test_correlation_is_nan_against_a_constant_and_one_against_itself(rng):
    x = rng.normal(size=20)
    assert np.isnan(estimate.correlation(x, np.ones(20), rng).value)
    assert estimate.correlation(x, 2 * x + 1, rng).low == pytest.approx(1)


def test_correlation_gain_is_paired(rng):
    # The same predictor, up to scale, gains exactly nothing: its interval has no width.
    x, y = rng.normal(size=30), rng.normal(size=30)
    same = estimate.correlation_gain(5 * x, x, y, rng)
    assert (same.low, same.value, same.high) == pytest.approx((0, 0, 0), abs=1e-12)
    better = estimate.correlation_gain(y + 0.1 * x, x, y, rng)
    assert better.low > 0
    assert np.isnan(estimate.correlation_gain(np.ones(30), x, y, rng).value)


def test_rms_log_factor_ignores_scale_and_sees_spread(rng):
    measured = np.array([1.0, 2.0, 4.0, 8.0])
    assert estimate.rms_log_factor(7 * measured, measured, rng).value == pytest.approx(1)
    # Alternately twice too high and too low: the typical factor is 2.
    wrong = measured * np.array([2, 0.5, 2, 0.5])
    assert estimate.rms_log_factor(wrong, measured, rng).value == pytest.approx(2)


def test_exponent_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    x = [1, 2, 4, 8]
    hits = 0
    for _ in range(40):
        samples = [rng.gamma(4.0, value**3 / 4, size=60) for value in x]
        hits += estimate.fit_exponent(x, samples, -0.5, rng).covers(-1.5)
    assert 33 <= hits <= 40


def test_geometric_exponent_is_that_of_a_typical_draw():
    # The logarithms of the draws are spread evenly about that of x^3. Then one huge draw is added.
    x = [1.0, 2.0, 4.0]
    spread = np.exp(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    samples = [value**3 * spread for value in x]
    found = estimate.fit_exponent(x, samples, -0.5, np.random.default_rng(0), geometric=True)
    assert found.value == pytest.approx(-1.5, rel=1e-12)
    samples[2] = np.append(samples[2], 1e6 * samples[2].max())
    samples[0], samples[1] = (np.append(s, s[2]) for s in samples[:2])
    pulled = estimate.fit_exponent(x, samples, -0.5, np.random.default_rng(0))
    typical = estimate.fit_exponent(x, samples, -0.5, np.random.default_rng(0), geometric=True)
    assert abs(typical.value + 1.5) < abs(pulled.value + 1.5) / 3


def test_saved_verdicts_load_as_one_table(tmp_path):
    def result(law: str) -> LawResult:
        verdict = Verdict("q", math.nan, 1.0, 0.5, 2.0, "s", "v")
        return LawResult(law=law, title=law, tables={}, verdicts=(verdict,))

    for law in ("b", "a"):
        result(law).save(tmp_path)
    assert list(load_verdicts(tmp_path)["law"]) == ["a", "b"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
