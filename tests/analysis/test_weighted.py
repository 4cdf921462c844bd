"""Tau of bootstrap samples by weights, against scipy on the copied cells."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy import stats

from rebench.analysis.choices import Selection
from rebench.analysis.concordance import dense_codes, top_tau
from rebench.analysis.weighted import sample_weights, weighted_tau


def _codes(n: int, values: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first = rng.integers(0, values, n)
    second = first + rng.integers(0, values, n) // 2
    return tuple(dense_codes(np.stack([first, second]).astype(float)))


@pytest.mark.parametrize("n", [1, 2, 5, 63, 64, 65, 130, 300])
@pytest.mark.parametrize("values", [1, 2, 10, 10_000])
def test_weighted_tau_is_scipys_of_the_copies(n, values):
    rng = np.random.default_rng([n, values])
    first, second = _codes(n, values, rng)
    weights = rng.integers(0, 4, (3, n)) * (rng.random((3, n)) < 0.7)
    weights[:, 0] += 1
    sizes = [1, int(weights.sum(axis=1).min())]
    for by in get_args(Selection):
        tau, taken = weighted_tau(first, second, weights, sizes, by)
        for row, own in enumerate(weights):
            a, b = np.repeat(first, own), np.repeat(second, own)
            for column, size in enumerate(sizes):
                in_a, in_b = (x >= np.sort(x)[::-1][size - 1] for x in (a, b))
                kept = {"benchmark": in_a, "retrained": in_b, "either": in_a | in_b}[by]
                assert taken[row, column] == kept.sum()
                expected = (
                    stats.kendalltau(a[kept], b[kept]).statistic if kept.sum() > 1 else np.nan
                )
                np.testing.assert_allclose(tau[row, column], expected, atol=1e-12)


@pytest.mark.parametrize("by", get_args(Selection))
def test_bits_are_those_of_the_copies_in_large_tables(by):
    rng = np.random.default_rng(3)
    first, second = _codes(5000, 700, rng)
    sample = rng.integers(0, 5000, (20, 5000))
    sizes = [5000, 2500, 500, 50]
    found = weighted_tau(first, second, sample_weights(sample, 5000), sizes, by)
    for own, copied in zip(found, top_tau(first[sample], second[sample], sizes, by), strict=True):
        np.testing.assert_array_equal(own, copied)


@pytest.mark.parametrize("copies", [501, 20_000])
def test_sums_that_floats_of_32_bits_do_not_hold_are_exact_too(copies):
    """Each of 40 cells has 20,000 copies, so counts of pairs reach 7e11."""
    first, second = _codes(40, 30, np.random.default_rng(4))
    size = 40 * copies
    tau, taken = weighted_tau(first, second, np.full((1, 40), copies), [size])
    above, beside = (np.sign(x[:, None] - x) for x in (first, second))
    expected = (above * beside).sum() / np.sqrt(float((above**2).sum() * (beside**2).sum()))
    assert tau[0, 0] == pytest.approx(expected, rel=1e-12)
    assert taken.tolist() == [[size]]


def test_weights_are_the_numbers_of_copies():
    sample = np.random.default_rng(5).integers(0, 300, (20, 300))
    copies = [np.repeat(np.arange(300), row) for row in sample_weights(sample, 300)]
    np.testing.assert_array_equal(copies, np.sort(sample))
