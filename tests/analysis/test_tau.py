"""Tau of every top K % at once, in tables and in bootstrap samples, compared with scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rebench.analysis.tau import (
    chosen_curves,
    dense_codes,
    resampled_curves,
    tau_curves,
    top_tau,
)


def _scipy_tau(a, b, size):
    """Compute tau by its definition: scipy's tau-b of the `size` best elements, ties included."""
    kept = a >= np.sort(a)[::-1][size - 1]
    return stats.kendalltau(a[kept], b[kept]).statistic if kept.sum() > 1 else np.nan, kept.sum()


def _assert_like_scipy(a, b, sizes):
    tau, taken = top_tau(dense_codes(a), dense_codes(b), sizes)
    for row in range(len(a)):
        for column, size in enumerate(sizes):
            expected, kept = _scipy_tau(a[row], b[row], size)
            assert taken[row, column] == kept
            np.testing.assert_allclose(tau[row, column], expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 300])
@pytest.mark.parametrize("values", [1, 2, 5, 10_000])
def test_top_tau_is_scipys_with_any_number_of_ties(n, values):
    rng = np.random.default_rng([n, values])
    a = rng.integers(0, values, (4, n)).astype(float)
    b = a + rng.integers(0, values, (4, n))
    _assert_like_scipy(a, b, sorted({1, (n + 1) // 2, n}))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_top_tau_is_scipys_on_any_small_table(pairs):
    a, b = np.array(pairs, dtype=float).T[:, None, :]
    _assert_like_scipy(a, b, list(range(1, len(pairs) + 1)))


def test_rounding_noise_does_not_break_a_tie():
    one, other = (93.1 + 93.4 + 93.2) / 3, (93.2 + 93.1 + 93.4) / 3
    assert dense_codes(np.array([[one, other, 93.5]])).tolist() == [[0, 0, 1]]
    assert dense_codes(np.array([[0.0, 0.4e-6, 0.8e-6]])).tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("n", [30, 300])
def test_order_of_the_codes_in_memory_has_no_effect(n):
    first, second = np.random.default_rng(n).integers(0, n, (2, 5, n))
    tau, taken = top_tau(first, second, [n // 2, n])
    other = top_tau(np.asfortranarray(first), np.asfortranarray(second), [n // 2, n])
    np.testing.assert_array_equal(other, (tau, taken))


@pytest.mark.parametrize("digits", [0, 6])
@pytest.mark.parametrize("n", [1, 12, 60, 4500])
def test_resampled_curves_are_the_curves_of_what_was_resampled(n, digits):
    rng = np.random.default_rng(n)
    first, second = np.round(rng.normal(size=(2, n)) * 2, digits)
    sample = np.vstack([np.arange(n), rng.integers(0, n, (50, n))])
    top = [100, 50, 20, 5, 1]
    [(tau, taken)] = resampled_curves([(first, second)], sample, top)
    expected, size = tau_curves(first[sample], second[sample], top)
    np.testing.assert_array_equal(tau, expected)
    np.testing.assert_array_equal(taken, size)


def test_resampled_curves_of_few_of_many_are_those_of_what_was_taken():
    """Simulated tables are stored one after the other in one long column."""
    first, second = np.random.default_rng(0).normal(size=(2, 100_000))
    sample = np.arange(100_000)[:1200].reshape(20, 60) * 80
    [(tau, _)] = resampled_curves([(first, second)], sample, [100, 20])
    expected, _ = tau_curves(first[sample], second[sample], [100, 20])
    np.testing.assert_array_equal(tau, expected)


@pytest.mark.parametrize("draws", [20, 300])
@pytest.mark.parametrize("n", [2, 63, 64, 65, 120, 180, 181])
def test_few_cells_and_many_are_counted_alike(n, draws):
    """The count uses integers of two or four bytes, and one block or several."""
    rng = np.random.default_rng(n)
    values = rng.integers(0, n, (2, draws, n)).astype(float)
    values[:, ::2].sort(axis=2)  # equal values are neighbours
    values[0, 1::2] = rng.permuted(np.tile(np.arange(n), (draws // 2, 1)), axis=1)  # no ties
    found = top_tau(dense_codes(values[0]), dense_codes(values[1]), [n])[0][:, 0]
    expected = [stats.kendalltau(a, b).statistic for a, b in zip(*values, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("digits", [0, 6])
def test_chosen_curves_are_scipys_in_samples_of_the_cells(digits):
    """The samples contain cells several times, and a third ranking with ties selects them."""
    rng = np.random.default_rng(4)
    chooser, x = rng.normal(size=(2, 60)).round(digits)
    y = (x + rng.normal(size=60)).round(digits)
    sample = np.concatenate([np.arange(60)[None], rng.integers(60, size=(20, 60))])
    [(tau, taken)] = chosen_curves([(x, y)], sample, [100, 50, 20], chooser)
    for row, cells in enumerate(sample):
        for column, size in enumerate((60, 30, 12)):
            least = np.sort(chooser[cells])[-size]
            best = cells[chooser[cells] >= least - 1e-9]
            assert taken[row, column] == len(best)
            assert tau[row, column] == pytest.approx(stats.kendalltau(x[best], y[best]).statistic)
