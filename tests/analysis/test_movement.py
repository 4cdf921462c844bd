"""The test of movement: its p-values against slow ones, its rate without a change, its power."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats
from simulated_tables import runs, world
from support import PROJECT

from rebench.analysis import SeedNoise, seed_test, top_cells
from rebench.analysis.exchange import Exchange
from rebench.analysis.seed_noise import centred
from rebench.errors import InputError

sys.path.append(str(PROJECT / "scripts" / "bench"))

from calibration import Scenario, rejections

LEVELS = (100, 50, 20, 10)
TABLES = 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(n=20, seeds=(3, 1)),
        Scenario(n=20, seeds=(1, 3), world="tight"),
        Scenario(n=50, seeds=(3, 3), noise="t5"),
        Scenario(n=50, seeds=(3, 3), images=100),
        Scenario(n=100, seeds=(3, 2), noisier=2.0),
        Scenario(n=100, seeds=(2, 1), world="tight", noise="skewed"),
    ],
    ids=str,
)
def test_rejects_no_more_than_its_nominal_rate_where_nothing_changed(scenario):
    """Random numbers of its own: none of the scenarios' published series has this key."""
    rejected = rejections(scenario, TABLES, (2026, scenario.n), 99)
    # At a rate of 5 % more than 19 of 200 have a probability of 0.4 %.
    assert stats.binom.sf(19, TABLES, 0.05) < 0.005
    assert rejected <= 19, rejected / TABLES


@pytest.mark.slow
def test_has_power_where_cells_truly_moved():
    for scenario in (
        Scenario(n=50, seeds=(3, 3), change=2.0),
        Scenario(n=500, seeds=(3, 1), change=1.0),
    ):
        assert rejections(scenario, 40, (2026, scenario.n), 99) >= 36


def test_p_values_are_those_of_deals_compared_one_by_one():
    """By scipy, a deal at a time; the largest standardised drop over K for the family."""
    rng = np.random.default_rng(20)
    true, sd = world(30, rng)
    a, b = runs(true, sd, 3, rng), runs(true + 0.5 * rng.standard_normal(30), sd, 2, rng)
    result = seed_test(a, b, (100, 50), draws=40, rng=np.random.default_rng(1))

    def curve(x, y):
        taus = []
        for percent in (100, 50):
            best = top_cells(x, percent)
            taus.append(stats.kendalltau(x[best], y[best]).statistic)
        return taus

    same = np.random.default_rng(1)
    deals = Exchange.build(centred(a), centred(b), same).draw(40, same)
    curves = [
        curve(x.astype(float), y.astype(float))
        for first, second in deals
        for x, y in zip(first, second, strict=True)
    ]
    curves = np.array([*curves, curve(a.mean(axis=1), b.mean(axis=1))])
    drops = (np.median(curves, axis=0) - curves) / curves.std(axis=0)
    for column in range(2):
        as_low = [row[column] <= curves[-1, column] + 1e-12 for row in curves]
        assert result["p_value"].iloc[column] == pytest.approx(np.mean(as_low))
        as_far = [max(row) >= drops[-1, column] - 1e-12 for row in drops]
        assert result["p_family"].iloc[column] == pytest.approx(np.mean(as_far))
    assert result["tau"].tolist() == pytest.approx(curves[-1].tolist())


def test_truncation_alone_is_no_finding_though_tau_falls():
    rng = np.random.default_rng(14)
    true, sd = world(2000, rng)
    a, b = (runs(true, sd, 3, rng) for _ in range(2))
    result = seed_test(a, b, draws=99, rng=rng)
    assert result["tau"].iloc[0] > 0.85
    assert result["tau"].iloc[-2] < 0.6  # a reader of the bare curve would call this a change
    assert (result["p_family"] > 0.05).all()
    inside = result["tau"].between(result["null_low"] - 0.02, result["null_high"] + 0.02)
    assert inside.all()


def test_a_true_change_is_found_with_its_size():
    rng = np.random.default_rng(5)
    true, sd = world(500, rng)
    a, b = runs(true, sd, 3, rng), runs(true + 2 * sd * rng.standard_normal(500), sd, 3, rng)
    result = seed_test(a, b, LEVELS, draws=99, rng=rng)
    assert (result["p_family"] <= 0.05).iloc[0]
    assert result["effect"].iloc[0] == pytest.approx(
        result["null_tau"].iloc[0] - result["tau"].iloc[0]
    )
    assert result["effect_sd"].iloc[0] > 5


def test_shifting_or_stretching_all_accuracies_changes_nothing():
    rng = np.random.default_rng(6)
    true, sd = world(300, rng)
    a, b = (runs(true, sd, 3, rng) for _ in range(2))
    plain = seed_test(a, b, LEVELS, draws=200, rng=np.random.default_rng(1))
    moved = seed_test(a, 0.5 * b + 3, LEVELS, draws=200, rng=np.random.default_rng(1))
    np.testing.assert_allclose(plain["tau"], moved["tau"])
    np.testing.assert_allclose(plain["null_tau"], moved["null_tau"], atol=0.02)


def test_too_few_cells_give_no_number():
    rng = np.random.default_rng(13)
    true, sd = world(20, rng)
    result = seed_test(runs(true, sd, 3, rng), runs(true, sd, 3, rng), (100, 10), draws=20, rng=rng)
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
