"""The noise baseline: against fresh runs, against the seeds themselves, against slow versions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from simulated_tables import runs, world

from rebench.analysis import (
    SeedNoise,
    noise_curve,
    seed_agreement,
    seed_test,
    split_agreement,
    top_cells,
)
from rebench.errors import InputError

LEVELS = (100, 50, 20, 10)


def test_noise_curve_is_what_fresh_runs_show():
    """Against the truth: 60 pairs of fresh three-seed means of the same cells."""
    rng = np.random.default_rng(7)
    true, sd = world(1500, rng)
    curve = noise_curve(runs(true, sd, 3, rng), (3, 3), (100, 20), draws=60, rng=rng)
    fresh = []
    for _ in range(60):
        a, b = (runs(true, sd, 3, rng).mean(axis=1) for _ in range(2))
        best = top_cells(a, 20)
        fresh.append(
            [stats.kendalltau(a, b).statistic, stats.kendalltau(a[best], b[best]).statistic]
        )
    np.testing.assert_allclose(curve["tau"], np.median(fresh, axis=0), atol=0.04)


def test_noise_curve_of_single_seeds_is_what_the_seeds_show():
    rng = np.random.default_rng(8)
    true, sd = world(4000, rng)
    values = runs(true, sd, 3, rng)
    curve = noise_curve(values, (1, 1), LEVELS, draws=60, rng=rng)
    seen = seed_agreement(values, LEVELS).groupby("top_percent", sort=False)["tau"].mean()
    np.testing.assert_allclose(curve["tau"], seen, atol=0.05)


def test_seed_agreement_is_scipys_for_each_ordered_pair():
    rng = np.random.default_rng(9)
    values = rng.normal(size=(40, 3))
    values[:5, 2] = np.nan
    table = seed_agreement(values, (100, 50), seeds=(777, 888, 999))
    assert len(table) == 12
    row = table[(table["first"] == 777) & (table["second"] == 999)].iloc[1]
    x, y = values[5:, 0], values[5:, 2]
    best = top_cells(x, 50)
    assert row["n_cells"] == 18
    assert row["tau"] == pytest.approx(stats.kendalltau(x[best], y[best]).statistic)


def test_model_recovers_the_noise_and_shrinks_the_lucky():
    rng = np.random.default_rng(10)
    true, sd = world(4000, rng)
    model = SeedNoise.fit(runs(true, sd, 3, rng))
    assert np.median(model.run_sd / sd) == pytest.approx(1, abs=0.05)
    best = top_cells(model.means, 2)
    drawn = model.true_means(50, rng)[:, best]
    lucky = (model.means - true)[best].mean()
    assert lucky > 0.05  # chosen for being lucky
    assert (model.means[best] - drawn.mean(axis=0)).mean() == pytest.approx(lucky, rel=0.25)
    assert drawn.std(axis=0).mean() < (sd / np.sqrt(3))[best].mean() * 1.1


@pytest.mark.parametrize(("images", "expected"), [(360, 100 / 360), (10_000, 0.01), (0, 0.0)])
def test_unit_of_accuracies_is_found(images, expected):
    rng = np.random.default_rng(11)
    values = rng.uniform(60, 95, (50, 3))
    if images:
        values = np.rint(values * images / 100) * 100 / images
    assert SeedNoise.fit(values).unit == pytest.approx(expected)


def test_cells_that_lack_a_seed_are_kept_and_never_imputed():
    rng = np.random.default_rng(12)
    true, sd = world(60, rng)
    a = runs(true, sd, 3, rng)
    a[::3, 2] = np.nan
    model = SeedNoise.fit(a)
    assert model.counts.tolist() == [2 if row % 3 == 0 else 3 for row in range(60)]
    result = seed_test(a, runs(true, sd, 1, rng), (100,), draws=99, rng=rng)
    assert 0 < result["p_value"].iloc[0] <= 1


@pytest.mark.parametrize("seeds", [None, (1, 2), (3, 1)])
def test_split_agreement_is_scipys_over_every_split(seeds):
    rng = np.random.default_rng(15)
    values = runs(*world(40, rng), 5, rng)
    values[:4, 1] = np.nan
    table = split_agreement(values, (100, 50), seeds=seeds)
    sizes = seeds or (2, 2)
    for row, percent in zip(table.itertuples(), (100, 50), strict=True):
        slow = []
        for order in itertools.permutations(range(5)):
            first, second = order[: sizes[0]], order[sizes[0] : sum(sizes)]
            if list(first) != sorted(first) or list(second) != sorted(second):
                continue  # the same two groups in another order
            if order[sum(sizes) :] != tuple(sorted(order[sum(sizes) :])):
                continue
            whole = values[4:] if 1 in (*first, *second) else values
            x, y = (whole[:, group].mean(axis=1).round(6) for group in (first, second))
            best = top_cells(x, percent)
            slow.append(stats.kendalltau(x[best], y[best]).statistic)
        assert row.splits == len(slow)
        assert row.tau == pytest.approx(np.mean(slow))
        assert (row.tau_low, row.tau_high) == pytest.approx((min(slow), max(slow)))


def test_split_agreement_of_single_seeds_is_seed_agreement():
    rng = np.random.default_rng(16)
    values = runs(*world(60, rng), 3, rng)
    alone = seed_agreement(values, LEVELS[:2]).groupby("top_percent", sort=False)["tau"].mean()
    halves = split_agreement(values, LEVELS[:2])
    assert halves["seeds"].tolist() == ["1 + 1"] * 2
    np.testing.assert_allclose(halves["tau"], alone)


def test_split_halves_and_the_simulated_baseline_agree():
    rng = np.random.default_rng(17)
    values = runs(*world(3000, rng), 6, rng)
    halves = split_agreement(values, LEVELS)
    simulated = noise_curve(values, (3, 3), LEVELS, draws=40, rng=rng)
    assert halves["seeds"].iloc[0] == "3 + 3"
    np.testing.assert_allclose(halves["tau"], simulated["tau"], atol=0.05)


def test_many_seeds_are_split_at_random():
    rng = np.random.default_rng(18)
    values = runs(*world(15, rng), 12, rng)
    with pytest.raises(InputError, match="give rng"):
        split_agreement(values, (100,))
    assert split_agreement(values, (100,), rng=rng)["splits"].tolist() == [200]


@pytest.mark.parametrize(("seeds", "message"), [((2, 2), "2 \\+ 2 of 3"), ((0, 1), "0 \\+ 1 of 3")])
def test_splits_that_seeds_do_not_allow_are_refused(seeds, message):
    with pytest.raises(InputError, match=message):
        split_agreement(np.zeros((12, 3)), seeds=seeds)
    with pytest.raises(InputError, match="no cell has the 2 seeds"):
        split_agreement([[1.0, np.nan], [np.nan, 2.0]], (100,), seeds=(1, 1))
