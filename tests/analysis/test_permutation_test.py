"""The permutation test: its assignments of runs, its p-values and its assumptions."""

from __future__ import annotations

import itertools
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_tables import runs, two_tables, world
from support import PROJECT

from rebench.analysis import TOP_PERCENT, Paired, agreement
from rebench.analysis.common_scale import unchanged
from rebench.analysis.drop import rank_curve
from rebench.analysis.p_values import p_values_of
from rebench.analysis.paired import Chooser
from rebench.analysis.permutation_test import Exchange, _exchanged, exchange_p_values
from rebench.analysis.tau import dense_codes, top_mask
from rebench.tables.seed_effects import centred

sys.path.append(str(PROJECT / "scripts" / "bench"))

from calibration import Scenario, shares

LEVELS = (100, 50, 20, 10)
TABLES = 120
# Effects of seeds: means of 96.49, 97.42 and 97.51 by seed, as in the demo, minus their mean.
EFFECTS = np.array([-0.65, 0.28, 0.37])


def exchanged(a, b, rng):
    """Return assignments of the runs of cells from different classes."""
    return Exchange.build(a, b, np.arange(len(a)), rng)


def _drawn(exchange, draws, rng):
    pairs = list(exchange.draw(draws, rng))
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def test_deals_are_all_ways_to_split_the_runs_of_a_cell():
    """With equal noise on one scale, the means of an assignment are the means of its runs."""
    rng = np.random.default_rng(0)
    true = rng.permutation(30) * 10.0
    a, b = (true[:, None] + rng.permuted(np.tile([-1.0, 0, 1], (30, 1)), axis=1) for _ in range(2))
    exchange = exchanged(a, b, rng)
    both = np.concatenate([a, b], axis=1)
    # Compute the means of every assignment by hand: all choices of 3 of the 6 runs of a cell.
    expected = [[], []]
    for chosen in itertools.combinations(range(6), 3):
        others = [run for run in range(6) if run not in chosen]
        expected[0].append(both[:, chosen].mean(axis=1))
        expected[1].append(both[:, others].mean(axis=1))
    for side, codes in zip(expected, (exchange.first, exchange.second), strict=True):
        flat = dense_codes(np.array(side).T.reshape(1, -1)).reshape(30, -1)
        np.testing.assert_array_equal(codes, flat)
    assert exchange.n_deals.tolist() == [20] * 30


def test_missing_seeds_stay_missing():
    rng = np.random.default_rng(1)
    a, b = two_tables(20, (3, 2), rng)
    a[0, 1] = b[1, 0] = np.nan
    exchange = exchanged(a, b, rng)
    assert exchange.n_deals.tolist() == [6, 4] + [10] * 18
    first, second = _drawn(exchange, 50, rng)
    assert first.shape == second.shape == (50, 20)
    assert len(np.unique(first[:, 0])) <= 6


def test_many_seeds_are_sampled():
    rng = np.random.default_rng(2)
    exchange = exchanged(*two_tables(12, (9, 9), rng), rng)
    assert exchange.n_deals.tolist() == [2000] * 12


def test_assignments_of_many_cells_with_many_seeds_need_little_memory():
    """All assignments of 15,625 cells with six seeds in two tables would need 900 MB."""
    rng = np.random.default_rng(2)
    tables = two_tables(15_625, (6, 6), rng)
    tracemalloc.start()
    exchange = exchanged(*tables, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400e6
    assert set(exchange.n_deals) == {268}
    fewer = [table[:, :5] for table in tables]
    assert set(exchanged(*fewer, rng).n_deals) == {252}, "all assignments of five seeds"


def test_runs_of_one_class_are_dealt_alike_where_all_its_cells_have_the_same_runs():
    rng = np.random.default_rng(0)
    alike = [np.repeat(table, 3, axis=0) for table in two_tables(10, (3, 3), rng)]
    classes = np.repeat(np.arange(10), 3)
    exchange = Exchange.build(*alike, classes, rng)
    for table in _drawn(exchange, 5, rng):
        assert (np.ptp(table.reshape(5, 10, 3), axis=2) == 0).all()
    alike[0][0, 1] = np.nan
    assert len(np.unique(Exchange.build(*alike, classes, rng).blocks)) == 11


@pytest.mark.parametrize(("shift", "stretch"), [(0.0, 1.0), (5.0, 0.5), (-40.0, 2.0)])
def test_shifting_or_stretching_a_table_changes_no_deal(shift, stretch):
    rng = np.random.default_rng(3)
    a, b = two_tables(60, (3, 3), rng)
    plain = exchanged(a, b, rng)
    moved = exchanged(a, shift + stretch * b, rng)
    np.testing.assert_array_equal(plain.first, moved.first)
    np.testing.assert_array_equal(plain.second, moved.second)


@pytest.mark.parametrize("seeds", [(3, 2), (2, 3), (3, 3), (5, 3)])
@pytest.mark.parametrize("sd", [(0.3, 0.3), (0.3, 0.9), (0.9, 0.3)])
def test_dealt_means_have_the_noise_that_each_table_has(seeds, sd):
    """Assigned means, and their difference, have the variances of means of new runs."""
    rng = np.random.default_rng([4, *seeds])
    a, b = two_tables(4000, seeds, rng, sd=sd)
    centre, apart = unchanged(a, b, np.tile(seeds, (4000, 1)))
    dealt = rng.permuted(np.concatenate([a, b], axis=1), axis=1)
    difference = dealt[:, : seeds[0]].mean(axis=1) - dealt[:, seeds[0] :].mean(axis=1)
    first, second = sd[0] ** 2 / seeds[0], sd[1] ** 2 / seeds[1]
    near = {"rel": 0.12}  # two standard errors, 4.5 %, and twice as much for the estimates
    assert np.var((apart[0] - apart[1]) * difference) == pytest.approx(first + second, **near)
    # The variance is divided between the tables: each mean varies about their weighted mean.
    assert np.var(apart[0] * difference) == pytest.approx(first**2 / (first + second), **near)
    assert np.var(apart[1] * difference) == pytest.approx(second**2 / (first + second), **near)
    weighted = (a.mean(axis=1) / first + b.mean(axis=1) / second) / (1 / first + 1 / second)
    np.testing.assert_allclose(centre, weighted, atol=0.1)


def test_a_change_of_the_ranking_does_not_pass_for_noise():
    """The true accuracies of the second table are independent of those of the first.

    The means of assigned runs still differ by little more than noise.
    """
    rng = np.random.default_rng(21)
    a, b = two_tables(4000, (3, 1), rng)[0], two_tables(4000, (3, 1), rng)[1]
    _, apart = unchanged(a, b, np.tile((3, 1), (4000, 1)))
    dealt = rng.permuted(np.concatenate([a, b], axis=1), axis=1)
    difference = (apart[0] - apart[1]) * (dealt[:, :3].mean(axis=1) - dealt[:, 3])
    assert np.var(difference) < 3 * 0.3**2 * (1 / 3 + 1)
    p_value, _ = exchange_p_values(Paired.of_values(a, b), (100, 10), draws=199, rng=rng)
    assert p_value == pytest.approx([0.005, 0.005])


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
        Scenario(n=60, seeds=(3, 3), saturating=True),
        Scenario(n=60, seeds=(3, 3), missing_worst=0.3),
        Scenario(n=60, seeds=(3, 3), missing=0.4, noisier=2.0),
        Scenario(n=60, seeds=(3, 3), diverged=0.05),
        Scenario(n=60, seeds=(3, 3), by_feature=0.5),
    ],
    ids=str,
)
def test_rejects_no_more_than_its_nominal_rate_where_nothing_changed(scenario):
    """The random numbers differ from those of the published calibration of the scenarios."""
    found = shares(scenario, TABLES, (2026, scenario.n), 99)
    # If 5 % are rejected on average, more than 13 of 120 rejections have a probability of 0.3 %.
    assert stats.binom.sf(13, TABLES, 0.05) < 0.005
    assert found.rejected <= 13, found
    if scenario.by_feature:  # intervals over cells only exclude 0 in a third of the tables
        assert found.missed <= 13, found


@pytest.mark.slow
def test_has_power_where_cells_truly_moved():
    for scenario in (
        Scenario(n=50, seeds=(3, 3), change=2.0),
        Scenario(n=500, seeds=(3, 1), change=1.0),
    ):
        # In 5 % of the tables the test of effects of seeds is significant by chance, and p grows.
        assert shares(scenario, 40, (2026, scenario.n), 99).rejected >= 34


def _taus(deals, masks):
    """Return tau by scipy [deals, masks], one deal at a time."""
    curves = []
    for first, second in deals:
        for x, y in zip(first, second, strict=True):
            curves.append([stats.kendalltau(x[best], y[best]).statistic for best in masks])
    return np.array(curves)


def test_p_values_are_those_of_deals_compared_one_by_one():
    """Compute tau by scipy, one assignment at a time. Each run of `a` chooses the best half."""
    rng = np.random.default_rng(20)
    true, sd = world(30, rng)
    a, b = runs(true, sd, 3, rng), runs(true, sd, 2, rng)
    paired = Paired.of_values(pd.DataFrame(a), pd.DataFrame(b, columns=[7, 8]))
    p_value, p_family = exchange_p_values(paired, (100, 50), draws=40, rng=np.random.default_rng(1))

    same = np.random.default_rng(1)
    every = [np.ones(30, dtype=bool)]
    of_all = _taus(exchanged(centred(a), centred(b), same).draw(40, same), every)
    observed = [stats.kendalltau(a.mean(axis=1), b.mean(axis=1)).statistic]
    expected = []
    for chooser in range(3):
        best = top_mask(a[:, chooser], 50)
        others = np.delete(a, chooser, axis=1)
        half = _taus(exchanged(centred(others), centred(b), same).draw(40, same), [best])
        tau = stats.kendalltau(others.mean(axis=1)[best], b.mean(axis=1)[best]).statistic
        expected.append(p_values_of(np.array([*observed, tau]), np.hstack([of_all, half])))
    np.testing.assert_allclose([p_value, p_family], stats.gmean(expected, axis=0))


def test_a_baseline_of_two_seeds_chooses_in_each_deal():
    rng = np.random.default_rng(20)
    true, sd = world(30, rng)
    a, b = runs(true, sd, 2, rng), runs(true, sd, 2, rng)
    paired = Paired.of_values(a, b)
    found = exchange_p_values(paired, (50,), draws=40, rng=np.random.default_rng(1))
    same = np.random.default_rng(1)
    curves = []
    for first, second in exchanged(centred(a), centred(b), same).draw(40, same):
        for x, y in zip(first, second, strict=True):
            curves.extend(_taus([([x], [y])], [top_mask(x.astype(float), 50)]))
    x, y = a.mean(axis=1), b.mean(axis=1)
    [observed] = _taus([([x], [y])], [top_mask(x, 50)])
    np.testing.assert_allclose(found, p_values_of(observed, np.array(curves)))


@pytest.mark.parametrize("seeds", [2, 3])
def test_a_sample_of_many_cells_is_enough_to_find_a_drop(seeds):
    rng = np.random.default_rng(seeds)
    true, sd = world(9000, rng)
    a, equal = runs(true, sd, seeds, rng), runs(true, sd, seeds, rng)
    changed = equal + 0.3 * true.std() * rng.normal(size=(9000, 1))
    found = {
        name: exchange_p_values(Paired.of_values(a, b), (100, 50), draws=99, rng=rng)
        for name, b in (("equal", equal), ("changed", changed))
    }
    assert np.max(found["changed"]) == pytest.approx(0.01)
    assert np.min(found["equal"]) > 0.01


def test_tau_of_a_sample_of_cells_varies_as_the_page_says():
    """Noise of 0.15 and 0.5 standard deviations of the true accuracies, three runs in a table."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=(10_000, 1))
    deviations = []
    for noise in (0.15, 0.5):
        a, b, third = (true + noise * rng.normal(size=(10_000, 3)) for _ in range(3))
        paired = Paired.of_values(a, b)
        chooser = Chooser(third[:, 0])
        percents = np.array([90.0, 50.0, 20.0])
        found = _exchanged([a, b], paired.classes, percents, chooser, 99, rng)
        assert (found[0] == 2000).all()
        deviations += found[2:].std(axis=0).tolist()
    assert 0.001 < min(deviations) < 0.0025
    assert 0.0035 < max(deviations) < 0.0065


def _curve(a, b, top_percent=LEVELS, **options):
    return rank_curve(Paired.of_values(a, b), top_percent, **options)[0]


def test_truncation_alone_is_no_finding_though_tau_falls():
    rng = np.random.default_rng(14)
    true, sd = world(1000, rng)
    result = _curve(*(runs(true, sd, 3, rng) for _ in range(2)), TOP_PERCENT, draws=99, rng=rng)
    assert result["tau"].iloc[0] > 0.8
    assert result["tau"].iloc[-3] < 0.5  # a reader of the bare curve would call this a change
    assert (result["p_family"].dropna() > 0.05).all()
    known = result.dropna(subset="tau")
    assert (known["drop_low"] - 0.02 < 0).all()
    assert (known["drop_high"] + 0.02 > 0).all()


def test_a_true_change_is_found_with_its_size():
    rng = np.random.default_rng(5)
    true, sd = world(500, rng)
    a, b = runs(true, sd, 3, rng), runs(true + 2 * sd * rng.standard_normal(500), sd, 3, rng)
    result = _curve(a, b, draws=99, rng=rng).iloc[0]
    assert result["p_family"] <= 0.05
    assert result["drop"] == pytest.approx(result["seed_tau"] - result["tau"])
    assert result["drop_low"] > 0.02


@pytest.mark.parametrize("other", [EFFECTS, EFFECTS[::-1], np.zeros(3)], ids=("same", "new", "no"))
def test_what_a_seed_adds_to_all_cells_is_not_seen(other):
    rng = np.random.default_rng(0)
    true, sd = world(200, rng)
    a, b = (runs(true, sd, 3, rng) for _ in range(2))
    plain, moved = (_curve(*x, draws=200, rng=1) for x in ((a, b), (a + EFFECTS, b + other)))
    np.testing.assert_allclose(moved["tau"], plain["tau"], atol=0.01)
    np.testing.assert_allclose(moved["seed_tau"], plain["seed_tau"], atol=0.01)
    np.testing.assert_allclose(moved["p_value"], plain["p_value"], atol=0.08)


def test_the_interval_allows_for_what_unequal_noise_adds():
    """For normal accuracies, tau is known (Greiner): 2/pi asin(r).

    With noise of the deviations a and b, r is 1 / sqrt((1 + a^2) (1 + b^2)).
    """
    rng = np.random.default_rng(22)
    true, sds = rng.standard_normal((2100, 1)), (0.3, 1.2)
    paired = Paired.of_values(*(90 + true + sd * rng.standard_normal((2100, 3)) for sd in sds))

    def tau(one, other):
        return 2 / np.pi * np.arcsin(1 / np.sqrt((1 + one**2) * (1 + other**2)))

    expected = np.sqrt(tau(0.3, 0.3) * tau(1.2, 1.2)) - tau(0.3, 1.2)
    alone = agreement(paired, (100,), draws=19, rng=np.random.default_rng(1))
    found = rank_curve(paired, (100,), draws=19, rng=np.random.default_rng(1))[0]
    assert alone["drop_low"].item() - found["drop_low"].item() == pytest.approx(expected, abs=5e-3)
    assert found["drop_high"].item() == alone["drop_high"].item()
    assert found["drop_low"].item() < 0
    assert found["drop"].item() == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("n", [49, 50])
def test_interval_of_fewer_than_fifty_cells_is_as_wide_above_as_below(n):
    rng = np.random.default_rng(25)
    paired = Paired.of_values(*two_tables(n, (3, 3), rng))
    alone = agreement(paired, (100,), draws=99, rng=np.random.default_rng(1)).iloc[0]
    found = rank_curve(paired, (100,), draws=99, rng=np.random.default_rng(1))[0].iloc[0]
    below, above = alone["drop"] - alone["drop_low"], alone["drop_high"] - alone["drop"]
    assert abs(below - above) > 1e-4
    half = max(below, above) if n < 50 else above
    assert found["drop_high"] == pytest.approx(alone["drop"] + half)
    assert found["drop_low"] <= alone["drop"] - (half if n < 50 else below) + 1e-12


def test_bad_runs_that_are_missing_leave_the_cells_that_lack_none():
    """If runs are missing at random, all cells are compared.

    If the worst run of each of 80 cells is missing, these cells are omitted.
    """
    rng = np.random.default_rng(23)
    a, b = two_tables(200, (3, 3), rng)
    lacking = np.arange(80)
    for lost, kept in ((rng.integers(0, 3, 80), 200), (b[:80].argmin(axis=1), 120)):
        after = b.copy()
        after[lacking, lost] = np.nan
        curve, notes = rank_curve(Paired.of_values(a, after), (100,), draws=19, rng=rng)
        assert curve["n_cells"].item() == kept
        assert any("80 runs of other are missing" in note for note in notes)
        assert any("cells without missing runs" in note for note in notes) is (kept == 120)


def test_too_few_cells_give_no_number():
    rng = np.random.default_rng(13)
    true, sd = world(20, rng)
    result = _curve(runs(true, sd, 3, rng), runs(true, sd, 3, rng), (100, 10), draws=20, rng=rng)
    assert result["p_value"].isna().tolist() == [False, True]
    assert result["p_family"].isna().tolist() == [False, True]


def test_equal_seeds_of_every_cell_are_no_noise_at_all():
    true = np.arange(30.0)
    same = np.column_stack([true, true])
    result = _curve(same, same, (100,), draws=20, rng=0)
    assert result["seed_tau"].iloc[0] == pytest.approx(1)
    assert result["p_value"].iloc[0] == 1


def test_one_seed_everywhere_gives_no_p_value():
    paired = Paired.of_values(np.arange(20.0), np.arange(20.0))
    assert np.isnan(exchange_p_values(paired, rng=0)).all()
    curve, notes = rank_curve(paired, rng=0)
    assert curve["p_family"].isna().all()
    assert "the runs of baseline select the K % best cells and are measured, too" in notes[0]
    assert "both tables have one seed per cell" in notes[1]
