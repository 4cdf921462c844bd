"""Runs dealt out anew: against deals written out one by one, and what makes them fair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rebench.analysis.concordance import dense_codes
from rebench.analysis.exchange import Exchange, evened
from rebench.analysis.ranks import cell_means
from rebench.analysis.seed_noise import centred


def _tables(n, seeds, rng, *, sd=(0.3, 0.3)):
    true = rng.normal(90, 2, n)
    return [true[:, None] + s * rng.standard_normal((n, k)) for s, k in zip(sd, seeds, strict=True)]


def _drawn(exchange, draws, rng):
    pairs = list(exchange.draw(draws, rng))
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


@pytest.mark.parametrize("seeds", [(3, 1), (1, 2)])
def test_deals_are_all_ways_to_split_the_runs_of_a_cell(seeds):
    rng = np.random.default_rng(0)
    a = centred(_tables(30, seeds, rng)[0])
    # The same means in another order: both scales are one already.
    b = rng.permutation(cell_means(a))[:, None] + np.zeros((1, seeds[1]))
    exchange = Exchange.build(a, b, rng)
    runs = np.concatenate([a, b], axis=1)
    expected = [[], []]
    for chosen in itertools.combinations(range(sum(seeds)), seeds[0]):
        others = [run for run in range(sum(seeds)) if run not in chosen]
        expected[0].append(runs[:, chosen].mean(axis=1))
        expected[1].append(runs[:, others].mean(axis=1))
    for side, codes in zip(expected, (exchange.first, exchange.second), strict=True):
        flat = dense_codes(np.array(side).T.reshape(1, -1)).reshape(30, -1)
        np.testing.assert_array_equal(codes, flat)
    assert exchange.n_deals.tolist() == [len(expected[0])] * 30


def test_missing_seeds_stay_missing():
    rng = np.random.default_rng(1)
    a, b = _tables(20, (3, 2), rng)
    a[0, 1] = b[1, 0] = np.nan
    exchange = Exchange.build(a, b, rng)
    assert exchange.n_deals.tolist() == [6, 4] + [10] * 18
    first, second = _drawn(exchange, 50, rng)
    assert first.shape == second.shape == (50, 20)
    assert len(np.unique(first[:, 0])) <= 6


def test_many_seeds_are_sampled():
    rng = np.random.default_rng(2)
    exchange = Exchange.build(*_tables(12, (9, 9), rng), rng)
    assert exchange.n_deals.tolist() == [2000] * 12


@pytest.mark.parametrize(("shift", "stretch"), [(0.0, 1.0), (5.0, 0.5), (-40.0, 2.0)])
def test_shifting_or_stretching_a_table_changes_no_deal(shift, stretch):
    rng = np.random.default_rng(3)
    a, b = _tables(60, (3, 3), rng)
    plain = Exchange.build(a, b, rng)
    moved = Exchange.build(a, shift + stretch * b, rng)
    np.testing.assert_array_equal(plain.first, moved.first)
    np.testing.assert_array_equal(plain.second, moved.second)


@pytest.mark.parametrize("seeds", [(3, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("sd", [(0.3, 0.3), (0.3, 0.6), (0.6, 0.3)])
def test_dealt_means_differ_by_as_much_as_fresh_means_would(seeds, sd):
    """Against the definition: the variance of the difference of means of fresh runs."""
    rng = np.random.default_rng([4, *seeds])
    a, b = _tables(4000, seeds, rng, sd=sd)
    runs = evened(a, b, np.tile(seeds, (4000, 1)))
    np.testing.assert_allclose(cell_means(runs), cell_means(np.concatenate([a, b], axis=1)))
    dealt = rng.permuted(runs, axis=1)
    difference = dealt[:, : seeds[0]].mean(axis=1) - dealt[:, seeds[0] :].mean(axis=1)
    wanted = sd[0] ** 2 / seeds[0] + sd[1] ** 2 / seeds[1]
    assert np.var(difference) == pytest.approx(wanted, rel=0.07)  # two standard errors: 4.5 %
