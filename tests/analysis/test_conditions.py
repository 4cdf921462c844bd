"""Rules that decide on warnings and omitted runs of a comparison, each by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from simulated_tables import table_of, two_tables

from rebench.analysis import Paired
from rebench.analysis.conditions import _failed_by_chance, _favoured, _noise_by_rank
from rebench.analysis.drop import rank_curve
from rebench.analysis.left_out_runs import _best_are_left, _outlying, differ
from rebench.analysis.p_values import p_values_of


@pytest.mark.parametrize(
    ("counts", "of", "expected"),
    [
        ([0, 6], [180, 180], False),  # 1/2^6 is .016
        ([0, 7], [180, 180], True),  # 1/2^7 is .008
        ([7, 0], [180, 180], True),
        ([0, 16], [100, 300], False),  # .75^16 is .01002
        ([0, 17], [100, 300], True),
        ([3, 0], [100, 300], False),  # .25^3 is .016
        ([4, 0], [100, 300], True),
        ([1, 8], [90, 90], False),  # 10 / 2^9 is .0195
        ([1, 10], [90, 90], True),  # 12 / 2^11 is .0059
        ([0, 0], [90, 90], False),
        ([0, 9], [0, 90], False),
    ],
)
def test_shares_differ_where_the_larger_count_is_one_of_a_hundred(counts, of, expected):
    """The shares differ if the larger count has a probability of at most 1 %.

    The test is binomial and one-sided, and takes the sum of both counts as given.
    """
    assert differ(counts, of) is expected


def test_runs_fail_by_chance_where_another_run_of_the_cell_did_not():
    diverged = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]], dtype=bool)
    runs = np.full((4, 3), 50.0)
    runs[2, 0] = np.nan  # no run; one of the two others failed
    assert _failed_by_chance(table_of(runs, diverged=diverged)) == 1 + 0 + 1 + 0
    assert _failed_by_chance(table_of(runs)) == 0


@pytest.mark.parametrize(
    ("lacking", "square", "expected"),
    [(20, 0.1, True), (20, 0.53, True), (20, 0.56, False), (20, 1.0, False), (400, 0.79, True),
     (400, 0.81, False)],
)  # fmt: skip
def test_the_best_runs_are_left_where_cells_that_lack_one_are_too_quiet(lacking, square, expected):
    """Cells with a missing run are too quiet if their mean square is below a limit.

    With 20 such cells the limit is 10.85 / 20, the 5 % quantile of chi^2 with 20 degrees of freedom
    over 20. With many cells it is 0.8.
    """
    orders = list(itertools.permutations((-1.0, 0.0, 1.0)))  # squares sum to 2: variance 1
    whole = [orders[cell % 6] for cell in range(2 * lacking + 2)]
    half = np.sqrt(square / 2)
    fewer = [((half, -half), (-half, half))[cell % 2] for cell in range(lacking)]
    runs = np.full((len(whole) + lacking, 3), np.nan)
    runs[: len(whole)], runs[len(whole) :, :2] = whole, fewer
    # Both kinds of cells are mixed in the order of the means, which are multiples of 100.
    runs += 100.0 * np.random.default_rng(0).permutation(len(runs))[:, None]
    assert stats.chi2(20).ppf(0.05) == pytest.approx(10.85, abs=0.005)
    assert _best_are_left(table_of(runs)) is expected


@pytest.mark.parametrize(("square", "expected"), [(0.6, True), (0.7, False)])
def test_the_best_of_four_runs_are_left_where_three_are_too_quiet(square, expected):
    """The limit for 21 cells is 0.67: the 5 % quantile of chi^2 with 42 degrees, 28.1, over 42."""
    whole = sorted(set(itertools.permutations((-1.0, -1.0, 1.0, 1.0)))) * 7
    fewer = [(-1.0, 0.0, 1.0, np.nan), (0.0, 1.0, -1.0, np.nan), (1.0, -1.0, 0.0, np.nan)] * 7
    runs = np.concatenate([np.sqrt(3 / 4) * np.array(whole), np.sqrt(square) * np.array(fewer)])
    runs += 100.0 * np.random.default_rng(0).permutation(len(runs))[:, None]
    assert stats.chi2(42).ppf(0.05) == pytest.approx(28.1, abs=0.05)
    assert _best_are_left(table_of(runs)) is expected


def test_noise_that_grows_in_one_table_and_shrinks_in_the_other_is_measured_as_a_logarithm():
    """Along the ranking, the noise of `a` grows from 0.1 to 0.2, and that of `b` falls from 0.2.

    Between the ends of the ranking, the ratio of both changes by the factor 4.
    """
    n = 400
    true = np.arange(n) * 10.0
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * [1.0, -1.0]
    up, down = np.geomspace(0.1, 0.2, n)[:, None], np.geomspace(0.2, 0.1, n)[:, None]
    a, b = (true[:, None] + width * signs for width in (up, down))
    # Measured from the quantile 0.1 to 0.9 of the ranking: 0.8 of the whole logarithm.
    assert _noise_by_rank(Paired.of_values(a, b)) == pytest.approx(0.8 * np.log(4), rel=0.1)
    assert _noise_by_rank(Paired.of_values(a, a)) == pytest.approx(0)


def test_equally_many_diverged_runs_do_not_look_like_a_recipe_that_saturates():
    """Which cells have diverged runs is chance, and the noise of the other runs is equal."""
    rng = np.random.default_rng(4)
    tables = []
    for name in "ab":
        runs = 70 + np.linspace(0, 5, 60)[:, None] + rng.normal(size=(60, 3))
        failed = rng.permuted(np.arange(180) < 9).reshape(60, 3)
        runs[failed] = 10.0
        tables.append(table_of(runs, name, diverged=failed))
    curve, notes = rank_curve(Paired.of(*tables), (100,), draws=99, rng=0)
    assert np.isfinite(curve["p_family"].item())
    assert not any("saturates" in note for note in notes)


def test_p_values_count_the_draws_that_lie_as_low_and_the_table_itself():
    """Compute both p-values by a loop.

    A drop is the distance below the median in standard deviations, at each K. For the p-value over
    all K, the largest drop of each draw is compared.
    """
    rng = np.random.default_rng(3)
    null, observed = rng.normal(0.8, [0.02, 0.05, 0.1], (40, 3)), np.array([0.78, 0.72, 0.75])
    null[5:9, 1] = np.nan
    curves = np.nan_to_num(np.vstack([null, observed]), nan=1.0)  # no tau: never a drop
    drops = [
        [(np.median(curves[:, k]) - x) / curves[:, k].std() for k, x in enumerate(curve)]
        for curve in curves
    ]
    single = [np.mean([drop[k] >= drops[-1][k] for drop in drops]) for k in range(3)]
    family = [np.mean([max(drop) >= drops[-1][k] for drop in drops]) for k in range(3)]
    found = p_values_of(observed, null)
    np.testing.assert_allclose(found, [single, family])
    assert found[0].min() > 1 / 41


def test_a_draw_without_tau_is_no_drop():
    null = np.array([[0.9], [np.nan], [0.7]])
    p_value, _ = p_values_of(np.array([0.8]), null)
    assert p_value.tolist() == [2 / 4]  # the table itself and the draw 0.7


def test_cells_with_one_run_are_said_to_be_left_out_of_tau():
    rng = np.random.default_rng(4)
    a, b = two_tables(60, (2, 2), rng)
    a[:5, 1] = b[3:9, 0] = np.nan
    _, notes = rank_curve(Paired.of_values(a, b), (100,), draws=19, rng=rng)
    assert "tau and seed tau are of 51 cells: those with two seeds in both tables" in notes


@pytest.mark.parametrize("repeated", [60, 150, 240])
def test_a_second_seed_of_a_part_of_the_cells_gives_the_seed_tau_of_this_part(repeated: int):
    """Cells with one seed have no part in it, whether 10 % or almost half have a second seed."""
    rng = np.random.default_rng(5)
    pair = [values + np.array([0.0, 0.5]) for values in two_tables(500, (2, 2), rng, change=1.0)]
    rows = rng.permutation(500)[:repeated]
    whole, _ = rank_curve(Paired.of_values(*(x[rows] for x in pair)), (100, 50), draws=19, rng=0)
    for values in pair:
        values[np.setdiff1d(np.arange(500), rows), 1] = np.nan
    found, notes = rank_curve(Paired.of_values(*pair), (100, 50), draws=19, rng=0)
    assert found["n_cells"].tolist() == whole["n_cells"].tolist()
    for name in ("tau", "seed_tau"):
        np.testing.assert_allclose(found[name], whole[name], atol=0.03)
    assert found["drop_low"].iloc[0] > 0
    assert notes[0].startswith(f"{repeated} of 500 cells have two seeds")


def test_a_table_with_two_seeds_of_just_under_half_of_the_cells_counts_as_one_run_of_each():
    """29 of 60 cells, all among the 31 cells with two seeds in the other table."""
    rng = np.random.default_rng(5)
    a, b = two_tables(60, (2, 2), rng)
    a[29:, 1] = b[31:, 1] = np.nan
    found, notes = rank_curve(Paired.of_values(a, b), (100,), draws=19, rng=0)
    alone = stats.kendalltau(b[:31, 0], b[:31, 1]).statistic
    assert found["n_cells"].tolist() == [31]
    np.testing.assert_allclose(found["seed_tau"], alone)
    assert "tau and seed tau are of 31 cells: those with two seeds in other" in notes
    assert "seed tau is that of other: too few cells of the other have two seeds" in notes


@pytest.mark.parametrize("gaps", [(0.0, 0.5), (0.5, 0.0)])
def test_gaps_in_one_table_do_not_mix_the_effects_of_seeds_into_tau(gaps: tuple[float, float]):
    """Effects of seeds that all cells share change no tau: found is that of tables without them."""
    rng = np.random.default_rng(6)
    pair = two_tables(200, (3, 3), rng, change=1.0)
    for values, share in zip(pair, gaps, strict=True):
        lacking = rng.random(values.shape) < share
        lacking[np.arange(200), rng.integers(0, 3, 200)] = False
        values[lacking] = np.nan
    plain, shifted = (
        rank_curve(Paired.of_values(*(x + effects for x in pair)), (100,), draws=0, rng=0)[0]
        for effects in (np.zeros(3), np.array([0.0, 6.0, -6.0]))
    )
    for name in ("tau", "seed_tau", "drop"):
        np.testing.assert_allclose(plain[name], shifted[name], atol=1e-6)


def test_too_few_second_seeds_give_no_seed_tau_and_no_test():
    rng = np.random.default_rng(5)
    pair = two_tables(500, (2, 2), rng, change=1.0)
    for values in pair:
        values[40:, 1] = np.nan
    found, _ = rank_curve(Paired.of_values(*pair), (100,), draws=19, rng=0)
    assert found["n_cells"].tolist() == [500]
    assert found[["seed_tau", "drop", "p_family"]].isna().all(axis=None)


@pytest.mark.parametrize(("below", "outlying"), [(8.3, False), (8.5, True)])
def test_a_run_is_far_below_at_seven_deviations_of_similar_cells(below, outlying):
    """The limit is 7 * 1.2011, about 8.4, below the best run of the cell.

    The three runs of each cell have the sum of squares 2. The median of chi^2 with two degrees of
    freedom is 2 ln 2, so the estimate of the deviation is (2 / (2 ln 2))^(1/2) = 1.2011.
    """
    orders = list(itertools.permutations((-1.0, 0.0, 1.0)))
    runs = np.array([orders[cell % 6] for cell in range(60)])
    runs += 100.0 * np.random.default_rng(0).permutation(60)[:, None]
    run = runs[7].argmin()
    runs[7, run] = runs[7].max() - below
    found = _outlying(table_of(runs))
    assert found.sum() == outlying
    assert found[7, run] == outlying
    diverged = np.zeros(runs.shape, dtype=bool)
    diverged[7, run] = True
    assert not _outlying(table_of(runs, diverged=diverged)).any()


def test_no_run_is_far_below_where_cells_have_one():
    assert not _outlying(table_of([[90.0], [10.0], [91.0]])).any()


@pytest.mark.parametrize(
    ("ratio", "said"), [(1.45, False), (1.55, True), (0.69, False), (0.64, True)]
)
def test_unequal_noise_is_said_from_half_as_much_again(ratio, said):
    rng = np.random.default_rng(2)
    signs = rng.permutation(np.tile([-1.0, 1.0], 30))[:, None] * [0.1, -0.1]
    true = rng.permutation(60)[:, None] * 1.0
    _, notes = rank_curve(Paired.of_values(true + signs, true + ratio * signs), (100,), draws=19)
    deviations = [f"{0.1 * 2**0.5:.2g}", f"{ratio * 0.1 * 2**0.5:.2g}"]
    note = (
        f"standard deviations of a run: baseline {deviations[0]}, other {deviations[1]}; the "
        "interval of `drop` allows for it"
    )
    assert (note in notes) is said


@pytest.mark.parametrize(
    ("seeds", "n", "strength", "p_value"),
    [
        (3, 60, 0.15, 1 / 200),  # the smallest p of 199 permutations
        (3, 60, 0.05, 0.515),
        (2, 60, 0.3, 1.0),  # fewer than three seeds: unknown
        (1, 60, 0.3, 1.0),
        (100, 60, 0.15, 1 / 200),  # 32 of 100 seeds are tested
    ],
)
def test_effect_of_a_seed_on_single_cells_is_tested_by_permutations(seeds, n, strength, p_value):
    """A seed changes each cell by `strength` times a feature of the cell; the noise is 0.3."""
    rng = np.random.default_rng(0)
    true, feature = rng.normal(90, 4, (n, 1)), rng.normal(0, strength, (n, 1))
    effects = (np.linspace(first, -1, seeds) for first in (1, 2))
    paired = Paired.of_values(
        *(true + feature * own + rng.normal(0, 0.3, (n, seeds)) for own in effects)
    )
    assert _favoured(paired, np.random.default_rng(1)) == pytest.approx(p_value)


@pytest.mark.parametrize(("n", "said"), [(49, True), (50, False)])
def test_fewer_than_fifty_cells_are_said_to_be_few(n, said):
    rng = np.random.default_rng(1)
    paired = Paired.of_values(*two_tables(n, (3, 3), rng))
    _, notes = rank_curve(paired, (100,), draws=19, rng=rng)
    assert (f"with {n} cells the test detects only large changes" in notes) is said
