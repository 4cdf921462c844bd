"""Expected values: hand calculation, a slow loop, or a published table, as each test says."""

import numpy as np
import pytest
from scipy import stats

from rebench.errors import InputError
from rebench.search.comparison import (
    critical_difference,
    friedman_p_value,
    win_probability,
)


def test_win_probability_has_the_interval_of_delong_on_the_logit_scale():
    """Compute DeLong's variance by a loop over pairs.

    It uses the share of the other sample that each value beats.
    """
    first, second = np.array([1.0, 2, 3, 5, 5]), np.array([2.0, 2, 4])
    pairs = [[(a > b) + 0.5 * (a == b) for b in second] for a in first]
    chance = np.mean(pairs)
    error = np.sqrt(np.var(np.mean(pairs, 1), ddof=1) / 5 + np.var(np.mean(pairs, 0), ddof=1) / 3)
    reach = stats.norm.ppf(0.975) * error / (chance * (1 - chance))
    found, turned = win_probability(first, second), win_probability(second, first)
    assert found.value == pytest.approx(chance)
    logits = [np.log(bound / (1 - bound)) for bound in (found.low, found.high)]
    middle = np.log(chance / (1 - chance))
    assert logits == pytest.approx([middle - reach, middle + reach])
    assert (found.low, found.high) == pytest.approx((1 - turned.high, 1 - turned.low))


def test_win_probability_interval_covers_at_its_level():
    """Normal samples of equal scale: the truth is Phi(shift / sqrt 2)."""
    generator = np.random.default_rng(1)
    truth = stats.norm.cdf(1 / np.sqrt(2))
    covered = 0
    for _ in range(600):
        found = win_probability(generator.normal(1, 1, 40), generator.normal(0, 1, 40))
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / 600 <= 0.98


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # One sample wins all pairs: the exact binomial bound of the smaller sample.
        (np.arange(10.0) + 100, np.arange(12.0), (1, 0.025 ** (1 / 10), 1)),
        (np.arange(3.0), np.arange(12.0) + 100, (0, 0, 1 - 0.025 ** (1 / 3))),
        (np.zeros(3), np.ones(2), (0, 0, 1 - 0.025**0.5)),
        # One run has no variance.
        (np.array([2.0]), np.array([1.0, 2, 3]), (0.5, 0, 1)),
        (np.array([1.0, 2, 3]), np.array([2.0]), (0.5, 0, 1)),
    ],
)
def test_win_probability_of_one_run_or_of_separate_samples(first, second, expected):
    assert win_probability(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(0, 1), (1, 0)])
def test_win_probability_needs_two_samples(n: int, m: int):
    with pytest.raises(InputError, match=f"got {n} and {m} runs"):
        win_probability(np.zeros(n), np.zeros(m))


@pytest.mark.parametrize(
    ("algorithms", "quantile"), [(1, 0.0), (2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)]
)
def test_critical_difference_is_that_of_demsars_table(algorithms: int, quantile: float):
    """Demsar (JMLR 2006), table 5a: q at 0.05. A single algorithm has none."""
    expected = quantile * np.sqrt(algorithms * (algorithms + 1) / (6 * 30))
    assert critical_difference(algorithms, 30) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]], "scipy"),
        ([[1, 1, 2], [2, 2, 3]], "scipy"),
        ([[1, 1, 1], [2, 2, 2]], 1.0),  # all algorithms alike in every block
        ([[1, 2, 3]], 1.0),  # one block
        ([[1], [2]], 1.0),  # one algorithm
        # Of two algorithms the sign test.
        ([[1, 1], [2, 2]], 1.0),
        ([[1, 2], [1, 2]], 0.5),  # first wins 2 of 2 blocks: 2 x 1/4
        ([[1, 0]] * 9 + [[0, 1]] + [[1, 1]] * 5, 22 / 1024),  # first wins 9 of 10 blocks
    ],
)
def test_friedman_is_scipy_s_where_there_is_something_to_rank(scores, expected):
    array = np.array(scores, dtype=float)
    if expected == "scipy":
        expected = stats.friedmanchisquare(*array.T).pvalue
    assert friedman_p_value(array) == pytest.approx(expected)
