"""The noise baseline: calibrated where nothing changed, powerful where something did."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rebench.analysis import SeedNoise, noise_curve, seed_agreement, seed_test, top_cells
from rebench.errors import InputError

LEVELS = (100, 50, 20, 10)


def _world(n, rng, sd=0.25):
    """True accuracies with a steep top and a long tail, as the benchmark's; worse is noisier."""
    true = 94.2 - rng.gamma(1.2, 2.5, n)
    return true, sd * (1 + (94.2 - true) / 4)


def _runs(true, sd, seeds, rng, images=10_000):
    """Accuracies of `seeds` runs on a test set of `images` images."""
    noisy = true[:, None] + rng.standard_normal((len(true), seeds)) * sd[:, None]
    return np.rint(noisy * images / 100) * 100 / images


def _rejections(n, seeds, *, change=0.0, repeats=120, images=10_000, second_sd=1.0):
    """Share of simulated tables where the family-wise test rejects at 5 %."""
    rejected = 0
    levels = [percent for percent in (100, 70, 50, 20, 10) if percent * n >= 2000]  # 20 cells left
    for repeat in range(repeats):
        rng = np.random.default_rng([n, *seeds, repeat])
        true, sd = _world(n, rng)
        moved = true + change * sd * rng.standard_normal(n)
        a = _runs(true, sd, seeds[0], rng, images)
        b = _runs(moved, sd * second_sd, seeds[1], rng, images)
        rejected += seed_test(a, b, levels, draws=99, rng=rng)["p_family"].min() <= 0.05
    return rejected / repeats


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "seeds", "images", "second_sd"),
    [
        (30, (3, 3), 360, 1.0),
        (100, (3, 1), 10_000, 1.0),
        (100, (3, 3), 10_000, 2.0),  # a noisier recipe is not another ranking
        (300, (3, 2), 10_000, 1.0),
        (300, (1, 3), 10_000, 1.0),  # one published seed: the noise is the re-trained table's
    ],
)
def test_rejects_at_most_at_its_nominal_rate_where_nothing_changed(n, seeds, images, second_sd):
    rate = _rejections(n, seeds, images=images, second_sd=second_sd)
    assert rate <= 0.10, rate  # 0.05 nominal, 120 repeats: +- 0.04 at two standard errors
    # Not by being blind: the next test shows power.


@pytest.mark.slow
def test_has_power_where_cells_truly_moved():
    assert _rejections(100, (3, 3), change=1.0, repeats=40) >= 0.9
    assert _rejections(300, (3, 1), change=1.0, repeats=40) >= 0.9


def test_truncation_alone_is_no_finding_though_tau_falls():
    rng = np.random.default_rng(14)
    true, sd = _world(2000, rng)
    a, b = (_runs(true, sd, 3, rng) for _ in range(2))
    result = seed_test(a, b, draws=99, rng=rng)
    assert result["tau"].iloc[0] > 0.85
    assert result["tau"].iloc[-2] < 0.6  # a reader of the bare curve would call this a change
    assert (result["p_family"] > 0.05).all()
    inside = result["tau"].between(result["null_low"] - 0.02, result["null_high"] + 0.02)
    assert inside.all()


def test_a_true_change_is_found_with_its_size():
    rng = np.random.default_rng(5)
    true, sd = _world(500, rng)
    a, b = _runs(true, sd, 3, rng), _runs(true + 2 * sd * rng.standard_normal(500), sd, 3, rng)
    result = seed_test(a, b, LEVELS, draws=99, rng=rng)
    assert (result["p_family"] <= 0.05).iloc[0]
    assert result["effect"].iloc[0] == pytest.approx(
        result["null_tau"].iloc[0] - result["tau"].iloc[0]
    )
    assert result["effect_sd"].iloc[0] > 5


def test_shifting_or_stretching_all_accuracies_changes_nothing():
    rng = np.random.default_rng(6)
    true, sd = _world(300, rng)
    a, b = (_runs(true, sd, 3, rng) for _ in range(2))
    plain = seed_test(a, b, LEVELS, draws=200, rng=np.random.default_rng(1))
    moved = seed_test(a, 0.5 * b + 3, LEVELS, draws=200, rng=np.random.default_rng(1))
    np.testing.assert_allclose(plain["tau"], moved["tau"])
    np.testing.assert_allclose(plain["null_tau"], moved["null_tau"], atol=0.02)


def test_noise_curve_is_what_fresh_runs_show():
    """Against the truth: 60 pairs of fresh three-seed means of the same cells."""
    rng = np.random.default_rng(7)
    true, sd = _world(1500, rng)
    curve = noise_curve(_runs(true, sd, 3, rng), (3, 3), (100, 20), draws=60, rng=rng)
    fresh = []
    for _ in range(60):
        a, b = (_runs(true, sd, 3, rng).mean(axis=1) for _ in range(2))
        best = top_cells(a, 20)
        fresh.append(
            [stats.kendalltau(a, b).statistic, stats.kendalltau(a[best], b[best]).statistic]
        )
    np.testing.assert_allclose(curve["tau"], np.median(fresh, axis=0), atol=0.04)


def test_noise_curve_of_single_seeds_is_what_the_seeds_show():
    rng = np.random.default_rng(8)
    true, sd = _world(4000, rng)
    values = _runs(true, sd, 3, rng)
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
    true, sd = _world(4000, rng)
    model = SeedNoise.fit(_runs(true, sd, 3, rng))
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
    true, sd = _world(60, rng)
    a = _runs(true, sd, 3, rng)
    a[::3, 2] = np.nan
    model = SeedNoise.fit(a)
    assert model.counts.tolist() == [2 if row % 3 == 0 else 3 for row in range(60)]
    result = seed_test(a, _runs(true, sd, 1, rng), (100,), draws=99, rng=rng)
    assert 0 < result["p_value"].iloc[0] <= 1


def test_too_few_cells_give_no_number():
    rng = np.random.default_rng(13)
    true, sd = _world(20, rng)
    result = seed_test(
        _runs(true, sd, 3, rng), _runs(true, sd, 3, rng), (100, 10), draws=20, rng=rng
    )
    assert result["p_value"].isna().tolist() == [False, True]
    assert result["p_family"].isna().tolist() == [False, True]


def test_equal_seeds_of_every_cell_are_no_noise_at_all():
    true = np.arange(30.0)
    same = np.column_stack([true, true])
    result = seed_test(same, same, (100,), draws=20, rng=np.random.default_rng(0))
    assert result["null_tau"].iloc[0] == pytest.approx(1)
    assert result["p_value"].iloc[0] == 1


def test_one_seed_everywhere_is_refused():
    with pytest.raises(InputError, match="two seeds of at least one table"):
        seed_test([1.0, 2, 3], [1.0, 2, 3], rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="two seeds"):
        SeedNoise.fit([[1.0], [2.0]])
