"""Expected values: hand calculation, a slow loop, or a published table, as each test says."""

import numpy as np
import pytest
from scipy import stats

from rebench.search.comparison import (
    critical_difference,
    friedman_p_value,
    win_probability,
)


def test_win_probability_counts_pairs_and_half_of_ties():
    first, second = np.array([1.0, 2, 3, 5]), np.array([2.0, 2, 4])
    pairs = [(a > b) + 0.5 * (a == b) for a in first for b in second]
    assert win_probability(first, second).value == pytest.approx(np.mean(pairs))


def test_win_probability_is_one_minus_the_other_way_round():
    generator = np.random.default_rng(0)
    first, second = generator.normal(0.3, 1, 40), generator.normal(0, 2, 60)
    here, there = win_probability(first, second), win_probability(second, first)
    assert (here.low, here.high) == pytest.approx((1 - there.high, 1 - there.low))


def test_win_probability_interval_covers_at_its_level():
    """Normal samples of equal scale: the truth is Phi(shift / sqrt 2)."""
    generator = np.random.default_rng(1)
    truth = stats.norm.cdf(1 / np.sqrt(2))
    covered = 0
    for _ in range(600):
        found = win_probability(generator.normal(1, 1, 40), generator.normal(0, 1, 40))
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / 600 <= 0.98


def test_win_probability_of_separate_samples_has_the_exact_binomial_bound():
    found = win_probability(np.arange(10.0) + 100, np.arange(12.0))
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(0.025 ** (1 / 10))


@pytest.mark.parametrize(
    ("algorithms", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)]
)
def test_critical_difference_is_that_of_demsars_table(algorithms: int, quantile: float):
    """Demsar (JMLR 2006), table 5a: q at 0.05."""
    expected = quantile * np.sqrt(algorithms * (algorithms + 1) / (6 * 30))
    assert critical_difference(algorithms, 30) == pytest.approx(expected, rel=1e-3)


def test_friedman_rejects_at_its_level_and_sees_a_difference():
    generator = np.random.default_rng(2)
    rejected = np.mean(
        [friedman_p_value(generator.normal(size=(30, 4))) < 0.05 for _ in range(400)]
    )
    assert 0.02 <= rejected <= 0.09
    assert friedman_p_value(generator.normal(size=(50, 4)) + np.arange(4)) < 1e-6


def test_two_algorithms_are_compared_by_the_sign_test():
    scores = np.array([[1.0, 0.0]] * 9 + [[0.0, 1.0]] + [[1.0, 1.0]] * 5)
    assert friedman_p_value(scores) == pytest.approx(stats.binomtest(9, 10).pvalue)


def test_one_algorithm_alone_differs_from_none():
    assert critical_difference(1, 30) == 0.0


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_win_probability_has_the_interval_of_delong_on_the_logit_scale(level):
    """Slowly: the variance of the share of the others that each value beats, of both samples."""
    first, second = np.array([1.0, 2, 3, 5, 5]), np.array([2.0, 2, 4])
    pairs = [[(a > b) + 0.5 * (a == b) for b in second] for a in first]
    chance = np.mean(pairs)
    error = np.sqrt(np.var(np.mean(pairs, 1), ddof=1) / 5 + np.var(np.mean(pairs, 0), ddof=1) / 3)
    reach = stats.norm.ppf((1 + level) / 2) * error / (chance * (1 - chance))
    found = win_probability(first, second, level)
    assert found.value == pytest.approx(chance)
    logits = [np.log(bound / (1 - bound)) for bound in (found.low, found.high)]
    middle = np.log(chance / (1 - chance))
    assert logits == pytest.approx([middle - reach, middle + reach])


def test_win_probability_of_a_sample_that_never_wins_has_the_exact_bound():
    found = win_probability(np.arange(3.0), np.arange(12.0) + 100, 0.9)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(1 - 0.05 ** (1 / 3))


def test_one_run_tells_nothing_of_how_often_it_wins():
    assert win_probability(np.array([2.0]), np.array([1.0, 2, 3])) == (0.5, 0, 1)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]], "scipy"),
        ([[1, 1, 1], [2, 2, 2]], 1.0),  # all algorithms alike in every block
        ([[1, 1, 2], [2, 2, 3]], "scipy"),
        ([[1, 2, 3]], 1.0),  # one block
        ([[1], [2]], 1.0),
        ([[1, 1], [2, 2]], 1.0),
        ([[1, 2], [1, 2]], 0.5),  # two of two: twice 1/4
    ],
)
def test_friedman_is_scipy_s_where_there_is_something_to_rank(scores, expected):
    array = np.array(scores, dtype=float)
    if expected == "scipy":
        expected = stats.friedmanchisquare(*array.T).pvalue
    assert friedman_p_value(array) == pytest.approx(expected)
