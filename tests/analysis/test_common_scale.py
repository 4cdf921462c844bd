"""The common scale of two tables and the model without a change, each by its formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rebench.analysis.common_scale import means_and_noise, on_scale_of, unchanged

PAIR = np.array([-1.0, 1.0])


@pytest.mark.parametrize(
    ("n", "knots"), [(3, 2), (15, 2), (16, 3), (23, 3), (87, 11), (88, 12), (200, 12)]
)
def test_second_table_is_mapped_linearly_between_quantiles_of_equal_shares(n, knots):
    """There is one knot for each eight cells, plus one; at least 2 and at most 12."""
    rng = np.random.default_rng(n)
    a, b = rng.normal(90, 1, n), rng.normal(50, 5, n)
    to, at = (np.quantile(np.repeat(x, 16), np.linspace(0, 1, knots)) for x in (a, b))
    found = on_scale_of(a[:, None], b[:, None])
    np.testing.assert_allclose(found[:, 0], np.interp(b, at, to))
    twice = on_scale_of(*(np.stack([x, x], axis=1) for x in (a, b)))  # two runs without noise
    np.testing.assert_allclose(twice, np.concatenate([found, found], axis=1))


def test_map_goes_on_beyond_the_means_with_the_slope_at_the_end():
    means = np.arange(8.0)[:, None]
    found = on_scale_of(means, 3 * means + 100 + 30 * PAIR)
    np.testing.assert_allclose(found, means + 10 * PAIR)
    constant = on_scale_of(means[:, :1], np.full((8, 1), 5.0))
    assert constant.tolist() == [[0.0]] * 8


def test_noise_is_added_to_the_quieter_means_before_their_quantiles_are_taken():
    """Means of two runs have the standard deviation 0.2 in `a`, and 1 in `b`.

    Noise is added to the means of `a` until they have the deviation 1, too.
    """
    n = 40
    a = np.arange(n)[:, None] + 0.2 * PAIR
    b = np.arange(n)[:, None] + 1.0 * PAIR
    scores = stats.norm.ppf((np.arange(16) + 0.5) / 16)
    shares = np.linspace(0, 1, 6)
    plain = on_scale_of(a[:, :1] + 0.2, b[:, :1] + 1.0)  # one run: noise is unknown
    np.testing.assert_allclose(plain[:, 0], np.arange(n))
    spread = np.sqrt(1.0**2 - 0.2**2)
    to = np.quantile(np.arange(n)[:, None] + spread * scores, shares)
    at = np.quantile(np.repeat(np.arange(n), 16), shares)
    middle = np.arange(12, 28)
    for one, other, x, y in ((a, b, at, to), (b, a, to, at)):
        found = on_scale_of(one, other)[middle].mean(axis=1)
        np.testing.assert_allclose(found, np.interp(middle, x, y), atol=0.002)


@pytest.mark.parametrize(("n", "apart"), [(60, 0.0), (60, 3.0), (49, 3.0)])
def test_a_difference_counts_as_noise_up_to_one_of_a_thousand_from_fifty_cells_on(n, apart):
    """Each cell has two runs of variance 1 in each table.

    The squares within the tables sum to 2. The squared difference of the means is `apart` squared.
    """
    signs = np.where(np.arange(n) % 2, 0.5, -0.5)[:, None]
    true = 100.0 * np.arange(n)[:, None]
    a, b = (true + side * signs * apart + PAIR / 2**0.5 for side in (-1, 1))
    centre, factors = unchanged(a, b, np.full((n, 2), 2))
    freedom = 2 * 10 + 1
    most = stats.chi2(freedom).isf(0.001) / freedom
    beyond = (2 + max(apart**2, most)) / (2 + most) if n >= 50 else 1.0
    np.testing.assert_allclose(centre, true[:, 0])
    np.testing.assert_allclose(factors, np.tile([[0.5], [-0.5]], n) / np.sqrt(beyond), rtol=1e-6)


@pytest.mark.parametrize("single", [0, 1])
def test_table_without_seeds_has_the_noise_of_the_other(single):
    tables = [np.arange(5.0)[:, None] + PAIR / 2**0.5] * 2
    tables[single] = tables[single][:, :1]
    means, noise = means_and_noise(*tables)
    np.testing.assert_allclose(means[1 - single], np.arange(5.0))
    np.testing.assert_allclose(noise, np.ones((2, 5)))


def test_centre_is_the_mean_of_two_tables_even_if_their_noise_is_tiny():
    a = b = np.arange(60.0)[:, None] + 1e-4 * PAIR
    centre, _ = unchanged(a, b, np.full((60, 2), 2))
    np.testing.assert_allclose(centre, np.arange(60.0), atol=1e-9)
