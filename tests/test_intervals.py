"""Intervals: by hand, against scipy's own, and by how often they cover a known truth."""

import numpy as np
import pytest
from scipy import stats

from rebench.intervals import (
    Estimate,
    crossed_mean,
    mean_interval,
    share_interval,
    spearman_interval,
    student_reach,
)

REPEATS = 1000
# Tolerance of a coverage of 95 %: two standard errors, with this number of repeats.
MARGIN = 2 * np.sqrt(0.95 * 0.05 / REPEATS)


def test_mean_interval_is_students():
    # By hand: mean 2, s = 1, t(0.975, 2) = 4.3027, half width 4.3027 / sqrt(3).
    found = mean_interval([1.0, 2.0, 3.0])
    assert found == pytest.approx((2, 2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), rel=1e-5)
    sample = np.array([1.0, 2.0, 3.0, 6.0])
    expected = stats.t.interval(0.9, 3, loc=3.0, scale=stats.sem(sample))
    assert mean_interval(sample, 0.9)[1:] == pytest.approx(expected)


def test_one_value_has_an_interval_without_bounds():
    assert mean_interval(np.array([4.0])) == (4.0, -np.inf, np.inf)


def test_reach_is_the_tabulated_quantile():
    # From tables: t(0.975, 2) = 4.303; t(0.95, 2) = 2.920 for one side.
    assert student_reach(2) == pytest.approx(4.303, abs=5e-4)
    assert student_reach(2, 0.9) == pytest.approx(2.920, abs=5e-4)


def test_estimate_covers_its_interval_alone_and_prints_it():
    found = Estimate(0.5, 0.25, 1.0)
    assert found.covers(0.25)
    assert found.covers(1.0)
    assert not found.covers(1.01)
    assert str(found) == "0.50 [0.25, 1.00]"


@pytest.mark.parametrize(("right", "n"), [(0, 10), (1, 30), (30, 30), (7, 12)])
def test_interval_of_a_share_is_wilsons(right: int, n: int):
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert share_interval(right / n, n)[1:] == pytest.approx(tuple(expected))


def test_student_covers_the_mean():
    sample = np.random.default_rng(0).normal(1, 1, (REPEATS, 5))
    covered = np.mean([mean_interval(one).covers(1.0) for one in sample])
    assert covered == pytest.approx(0.95, abs=MARGIN)


def test_mean_of_clusters_is_covered_where_students_over_members_is_not():
    """There are 15 groups of four values; most of the variance is common to a group."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(15), 4)
    covered = np.zeros(2)
    for _ in range(REPEATS):
        values = rng.normal(0, 1, 15)[groups] + rng.normal(0, 0.5, 60)
        covered += mean_interval(values, groups=groups).covers(0), mean_interval(values).covers(0)
    assert covered[0] / REPEATS == pytest.approx(0.95, abs=MARGIN + 0.01)
    assert covered[1] / REPEATS < 0.75


@pytest.mark.parametrize("share", [0.005, 0.03, 0.5, 0.97, 0.995])
def test_share_is_covered_near_its_ends(share: float):
    """Compute the coverage by the binomial distribution, also for rare events."""
    n = 100
    right = np.arange(n + 1)
    found = [share_interval(count / n, n) for count in right]
    chance = stats.binom.pmf(right, n, share)
    assert chance[[one.covers(share) for one in found]].sum() > 0.91
    assert all(-1e-12 <= one.low < one.high <= 1 + 1e-12 for one in found)


@pytest.mark.parametrize("n", [12, 40, 150])
@pytest.mark.parametrize("correlation", [0.3, -0.9, 0.98, 0.995])
def test_rank_correlation_is_covered_near_one_too(correlation: float, n: int):
    """Spearman's correlation of a bivariate normal is known: 6/pi asin(r/2) (Pearson, 1907)."""
    rng = np.random.default_rng([2, n])
    truth = 6 / np.pi * np.arcsin(correlation / 2)
    first, noise = rng.normal(size=(2, 1000, n))
    second = correlation * first + np.sqrt(1 - correlation**2) * noise
    apart = first.argsort(1).argsort(1) - second.argsort(1).argsort(1)
    found = 1 - 6 * (apart.astype(float) ** 2).sum(1) / (n**3 - n)
    covered = np.mean([spearman_interval(value, n).covers(truth) for value in found])
    assert 0.93 <= covered <= 0.98


def test_equal_rankings_of_few_cells_leave_room_below_one():
    found = spearman_interval(1.0, 8)
    assert found.low < 0.95 < found.high < 1
    assert spearman_interval(-1.0, 8)[1:] == pytest.approx((-found.high, -found.low))


# Differences of three cells (rows) under two seeds (columns): means 0, 2 and 4 over the seeds.
PART = np.array([[0.0, 0.0], [0.0, 4.0], [2.0, 6.0]])


def test_a_mean_over_cells_and_seeds_has_the_variance_counted_by_hand():
    """The variance has the parts 4/3 of cells and 16/9 of seeds, minus 4/9 of the residuals.

    The cell means are 0, 2, 4: variance 4, over 3 cells. The seed means are 2/3 and 10/3: variance
    32/9, over 2 seeds. The residuals are 4/3, -2/3, -2/3 with both signs: their squares sum to
    16/3, times 3/2 over 2 * 1 * 9 = 4/9. The degrees of freedom are Satterthwaite's:
    (4/3 + 16/9 - 4/9)^2 / (16/18 + (16/9)^2 + (4/9)^2/2).
    """
    found = crossed_mean(PART.mean(axis=1), np.arange(3), [PART], np.arange(3))
    variance = 4 / 3 + 16 / 9 - 4 / 9
    freedom = variance**2 / ((4 / 3) ** 2 / 2 + (16 / 9) ** 2 + (4 / 9) ** 2 / 2)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    assert found.value == 2
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))
    assert found.p_value == pytest.approx(2 * stats.t.sf(2 / np.sqrt(variance), freedom))
    single = PART[:, :1]  # one seed gives no variance between seeds
    parts = [single, PART]
    assert crossed_mean(PART.mean(axis=1), np.arange(3), parts, np.arange(3)) == found


def test_seeds_that_differ_by_no_more_than_their_spread_add_nothing():
    part = np.array([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0], [7.0, 7.0]])  # seeds have equal means
    found = crossed_mean(part.mean(axis=1), np.arange(4), [part], np.arange(4))
    expected = stats.t.interval(0.95, 3, loc=3, scale=stats.sem(part.mean(axis=1)))
    assert (found.low, found.high) == pytest.approx(expected)


def test_one_group_has_a_mean_and_no_interval():
    value, *others = crossed_mean([1.0, 3.0], [5, 5], [PART[:2]], [5, 5])
    assert value == 2
    assert np.isnan(others).all()
