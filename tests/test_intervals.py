"""Student's intervals: by hand, and against scipy's own."""

import numpy as np
import pytest
from scipy import stats

from rebench.intervals import Estimate, half_width, mean_interval, student_reach


def test_mean_interval_is_students():
    # By hand: mean 2, s = 1, t(0.975, 2) = 4.3027, half width 4.3027 / sqrt(3).
    found = mean_interval([1.0, 2.0, 3.0])
    assert found == pytest.approx((2, 2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), rel=1e-5)
    sample = np.array([1.0, 2.0, 3.0, 6.0])
    expected = stats.t.interval(0.9, 3, loc=3.0, scale=stats.sem(sample))
    assert mean_interval(sample, 0.9)[1:] == pytest.approx(expected)


def test_one_value_has_an_interval_without_bounds():
    assert mean_interval(np.array([4.0])) == (4.0, -np.inf, np.inf)
    assert half_width([4.0]) == np.inf


def test_reach_is_the_tabulated_quantile():
    # Tables: t(0.975, 2) = 4.303; t(0.95, 2) = 2.920, the one-sided 95 %.
    assert student_reach(2) == pytest.approx(4.303, abs=5e-4)
    assert student_reach(2, 0.9) == pytest.approx(2.920, abs=5e-4)


def test_estimate_covers_its_interval_alone_and_prints_it():
    found = Estimate(0.5, 0.25, 1.0)
    assert found.covers(0.25)
    assert found.covers(1.0)
    assert not found.covers(1.01)
    assert str(found) == "0.50 [0.25, 1.00]"
