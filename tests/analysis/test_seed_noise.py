"""The parts of the model of seed noise: each against its formula, computed slowly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rebench.analysis.seed_noise import (
    SeedNoise,
    pooled,
    pooled_sd,
    reach,
)
from rebench.errors import InputError
from rebench.tables.seed_effects import _common_unit, centred


@pytest.mark.parametrize(
    ("n", "expected"), [(5, 10), (219, 10), (220, 11), (1999, 99), (2000, 100), (15625, 100)]
)
def test_a_twentieth_of_the_cells_is_similar_but_10_at_least_and_100_at_most(n, expected):
    assert reach(n) == expected


def test_sums_are_pooled_over_the_neighbours_of_a_cell_and_all_that_are_tied_with_it():
    rng = np.random.default_rng(0)
    n = 60
    by = rng.integers(0, 30, n).astype(float)
    sums, weights = rng.random(n), rng.integers(0, 3, n)
    order = sorted(range(n), key=by.__getitem__)
    ordered = sorted(by)
    expected = []
    for value in by:
        first, last = ordered.index(value), n - 1 - ordered[::-1].index(value)
        near = order[max(0, first - 10) : last + 11]
        expected.append(sums[near].sum() / weights[near].sum())
    np.testing.assert_allclose(pooled(sums, weights, by), expected)


def test_neighbours_without_weight_have_the_share_of_all_cells():
    by = np.arange(30.0)
    weights = (by >= 20).astype(int)
    found = pooled(np.where(by >= 20, 3.0, 0.0) + (by == 29), weights, by)
    assert found[:10] == pytest.approx(np.full(10, 3.1))  # 31 over 10
    assert found[10] == pytest.approx(3.0)  # its last neighbour is cell 20


def test_a_run_s_deviation_is_the_root_of_pooled_squares_over_pooled_degrees_of_freedom():
    rng = np.random.default_rng(1)
    runs = 90 + rng.random((8, 3))
    runs[0, 2] = runs[1, 1] = runs[1, 2] = np.nan
    # With so few cells, all count as similar. 6 cells have three runs, one has two, one has one.
    squares = sum(
        ((row := cell[np.isfinite(cell)]) - row.mean()) @ (row - row.mean()) for cell in runs
    )
    np.testing.assert_allclose(pooled_sd(runs), np.full(8, np.sqrt(squares / (6 * 2 + 1))))


def test_the_median_effect_of_each_seed_is_removed_from_cells_that_react_to_seeds():
    """Failed and missing runs do not change a median; equal runs of a cell stay as they are."""
    effects = np.array([-0.65, 0.28, 0.4])
    true = np.random.default_rng(4).normal(90, 2, 40)[:, None]
    runs = true + effects
    expected = runs - (effects - effects.mean())
    runs[3, 0] -= 80
    expected[3, 0] -= 80
    runs[5, 1] = runs[9, 2] = expected[5, 1] = expected[9, 2] = np.nan
    runs[30:] = expected[30:] = 10.0
    np.testing.assert_allclose(centred(runs), expected, atol=1e-5)
    np.testing.assert_array_equal(centred(runs[:, :1]), runs[:, :1])


def test_the_effect_of_a_seed_is_removed_from_cells_with_one_run_too():
    rng = np.random.default_rng(0)
    true = rng.normal(90, 2, 400)
    runs = true[:, None] + [0.0, 1.5] + rng.normal(0, 0.1, (400, 2))
    runs[200:300, 0] = np.nan
    runs[300:, 1] = np.nan
    error = np.nanmean(centred(runs) - true[:, None], axis=1)
    parts = [error[part].mean() for part in (slice(200), slice(200, 300), slice(300, 400))]
    np.testing.assert_allclose(parts, 0.75, atol=0.05)


@pytest.mark.parametrize("images", [360, 10_000])
def test_centred_accuracies_stay_multiples_of_their_unit_so_that_ties_stay_ties(images):
    """The effects are 2, -1 and -1 images; their medians over the cells are a little less."""
    rng = np.random.default_rng(3)
    right = rng.integers(images // 4, 3 * images // 4, (100, 1)) + rng.integers(0, 6, (100, 3))
    right[:, 0] += 3
    unequal = right[np.ptp(right, axis=1) > 0]
    found = centred(unequal * 100 / images) * images / 100
    np.testing.assert_allclose(unequal - found, np.tile([2, -1, -1], (len(found), 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([10.0, 10.002, 30.0], 0.002),  # one of 50,000 images
        ([10.0, 10.0018, 30.0], 0.0),  # too fine for images
        ([50.0, 90.0], 10.0),  # the gap of 40 is four units: 10 images
        ([20 / 3, 100 / 3], 100 / 15),
        ([1.0, 1.19, 2.9], 0.01),  # a gap of 19 units
        ([1.0, 1.21, 2.9], 0.0),  # a gap of 21 units, over the limit
        (np.sqrt([2, 3, 5, 6, 7, 8, 10, 11]), 0.0),
        ([70.0], 10.0),
    ],
)
def test_unit_of_accuracies_is_that_of_the_fewest_images_that_fit(values, unit):
    assert _common_unit(np.array(values)) == pytest.approx(unit)


@pytest.mark.parametrize(
    ("n", "bins"), [(2, 1), (8, 2), (18, 3), (7199, 59), (7200, 60), (9000, 60)]
)
def test_the_prior_has_as_many_bins_as_the_root_of_half_the_cells_but_60_at_most(n, bins):
    means = np.linspace(0, 1000, n)
    edges = SeedNoise.fit(
        means[:, None] + np.tile([[-0.1, 0.1], [0.1, -0.1]], (n // 2 + 1, 1))[:n]
    ).edges
    assert len(edges) == bins + 1


def test_bins_end_at_quantiles_of_the_means_and_one_deviation_beyond_the_outer_two():
    means = np.arange(18.0) ** 2
    runs = means[:, None] + np.tile([[-0.1, 0.1], [0.1, -0.1]], (9, 1))
    edges = SeedNoise.fit(runs).edges
    # Each cell's variance is 0.02, so its mean of two runs deviates by 0.1.
    inner = np.quantile(means, [0.25, 0.75])  # (1 - cos 60 degrees) / 2
    np.testing.assert_allclose(edges, [-0.1, *inner, 17**2 + 0.1])


def test_the_posterior_is_that_of_em_from_a_flat_prior():
    rng = np.random.default_rng(2)
    runs = centred(rng.normal(90, 1, (32, 1)) + rng.normal(0, 0.4, (32, 3)))
    model = SeedNoise.fit(runs)
    means, sd = runs.mean(axis=1), pooled_sd(runs) / np.sqrt(3)
    widths = np.diff(model.edges)
    flat = widths / widths.sum()
    for _ in range(100):
        posterior = np.empty((32, len(widths)))
        for cell in range(32):
            inside = np.diff(stats.norm.cdf(model.edges, means[cell], sd[cell]))
            weight = flat * inside / widths
            posterior[cell] = weight / weight.sum()
        flat = posterior.mean(axis=0)
    np.testing.assert_allclose(model.posterior, posterior, atol=1e-200)


def test_true_accuracies_are_normal_inside_bins_drawn_from_the_posterior():
    model = SeedNoise(
        means=np.array([0.5, 7.0]),
        counts=np.array([4, 1]),
        run_sd=np.array([2.0, 0.5]),
        edges=np.array([-1.0, 0.0, 3.0, 9.0]),
        posterior=np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]),
    )
    drawn = model.true_means(20_000, 0)
    first, second = drawn.T
    assert (first < 0).mean() == pytest.approx(0.25, abs=0.01)
    for values, low, high, mean, sd in (
        (first[first < 0], -1, 0, 0.5, 1.0),
        (first[first >= 0], 0, 3, 0.5, 1.0),
        (second, 3, 9, 7.0, 0.5),
    ):
        inside = stats.truncnorm((low - mean) / sd, (high - mean) / sd, loc=mean, scale=sd)
        assert stats.kstest(values, inside.cdf).pvalue > 0.01


def test_single_runs_have_no_seed_noise():
    with pytest.raises(InputError, match="two seeds"):
        SeedNoise.fit([[1.0], [2.0]])
