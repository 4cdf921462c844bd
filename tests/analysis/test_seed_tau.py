"""Agreement at top K %: known answers, scipy, the real table, seeds, and intervals' coverage."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_tables import final_accuracy
from simulated_tables import two_tables

from rebench.analysis import TOP_PERCENT, Paired, agreement
from rebench.analysis.seed_tau import (
    TauSamples,
    affordable,
    at_k,
    between_seeds,
    of_means,
    resampled,
    run_pairs,
    seed_agreement,
    seed_jackknife,
    with_interval,
)
from rebench.analysis.tau import top_mask, top_sizes
from rebench.errors import InputError


def _rng(seed=0):
    return np.random.default_rng(seed)


def rank_agreement(a, b, *arguments, **options):
    """Return `agreement` and `of_means` of two rankings with one value per cell."""
    paired = Paired.of_values(a, b)
    means = of_means(paired, *arguments[:1])
    return agreement(paired, *arguments, **options).merge(means, on="top_percent")


def test_published_means_have_the_known_tau_between_cifar10_and_cifar100():
    """0.88196 by scipy and by counting all 122 million pairs.

    The value 0.8816 is sometimes quoted for these means. No rounding of the accuracies gives it as
    tau-b; `docs/explanation/analysis.md` names a similar measure that is near.
    """
    a, b = final_accuracy("cifar10"), final_accuracy("cifar100")
    result = rank_agreement(a, b, (100,), draws=0, rng=_rng())
    assert result.loc[0, "n_cells"] == 15_625
    assert result.loc[0, "tau"] == pytest.approx(0.88196, abs=5e-6)
    # With ties broken by the number of the row, as a stable sort does, tau is nearest to 0.8816.
    by_row = [stats.rankdata(x, method="ordinal") for x in (a, b)]
    assert stats.kendalltau(*by_row).statistic == pytest.approx(0.88168, abs=5e-6)


def test_curve_is_a_direct_computation_at_every_k():
    a, b = final_accuracy("cifar10"), final_accuracy("cifar100")
    result = rank_agreement(a, b, draws=0, rng=_rng())
    for row in result.itertuples():
        size = -(-len(a) * row.top_percent // 100)
        kept = a >= np.sort(a)[-int(size)]
        assert row.n_cells == kept.sum()
        assert row.tau == pytest.approx(stats.kendalltau(a[kept], b[kept]).statistic, abs=1e-12)
        assert row.spearman == pytest.approx(stats.spearmanr(a[kept], b[kept]).statistic)
        assert row.weighted_tau == pytest.approx(stats.weightedtau(a[kept], b[kept]).statistic)


@pytest.mark.parametrize(("sign", "expected"), [(1, 1.0), (-1, -1.0)])
def test_identical_and_reversed_rankings_give_one_and_minus_one_at_every_k(sign, expected):
    a = _rng().permutation(2000).astype(float)
    result = rank_agreement(a, sign * a, draws=50, rng=_rng())
    assert result["tau"].tolist() == [expected] * len(TOP_PERCENT)
    assert result["tau_low"].tolist() == result["tau_high"].tolist() == [expected] * 12


def test_cells_that_tie_with_the_last_one_are_in():
    a = np.repeat(np.arange(10.0), 2)  # ten pairs that tie
    result = rank_agreement(a, np.arange(20.0), (100, 55), draws=0, rng=_rng())
    assert result["n_cells"].tolist() == [20, 12]  # 55 % are 11; the twelfth ties with it


def test_too_few_cells_give_no_number():
    a = _rng().normal(size=100)
    result = rank_agreement(a, a, (10, 9), draws=20, rng=_rng())
    assert result["n_cells"].tolist() == [10, 9]
    assert result["tau"].isna().tolist() == [False, True]
    assert result["tau_low"].isna().tolist() == [False, True]
    assert result["spearman"].isna().tolist() == [False, True]


def test_constant_accuracies_have_no_tau():
    result = rank_agreement(np.full(20, 10.0), np.arange(20.0), (100,), draws=20, rng=_rng())
    assert result[["tau", "tau_low", "spearman", "weighted_tau"]].isna().all(axis=None)


def test_top_percent_rounds_up_and_keeps_exact_fractions():
    assert top_sizes(10, [70, 1, 100]) == [7, 1, 10]  # 70 * 10 / 100 must not become 7.0000001
    assert top_sizes(15_625, [1]) == [157]
    values = np.array([3.0, 1.0, 3.0, 2.0])
    assert top_mask(values, 25).tolist() == [True, False, True, False]
    close = np.array([1.0, 1.0 - 0.4e-6, 1.0 - 0.6e-6, 0.0])  # ties are closer than half a width
    assert top_mask(close, 25).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_agreement([1.0, 2], [1.0], rng=_rng()), "2 and 1 cells"),
        (lambda: rank_agreement([1.0, 2], [1.0, 2], (0,), rng=_rng()), r"in \(0, 100\], got 0"),
        (lambda: rank_agreement([1.0, np.nan], [1.0, 2], rng=_rng()), "1 cells have no finite"),
        (lambda: rank_agreement([], [], rng=_rng()), "got shape"),
        (lambda: rank_agreement([[[1.0]]], [1.0], rng=_rng()), "got shape"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_bootstrap_intervals_cover_the_true_tau():
    """For K = 100 %, tau of a bivariate normal is 2/pi asin(rho).

    For K = 50 %, the true tau is computed from a large sample.
    """
    rho = 0.8
    many = _rng(1).multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=20_000)
    upper = many[top_mask(many[:, 0], 50)]
    truth = np.array([2 / np.pi * np.arcsin(rho), stats.kendalltau(*upper.T).statistic])
    covered = np.zeros(2)
    for seed in range(300):
        rng = _rng([2, seed])
        sample = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=100)
        result = rank_agreement(*sample.T, (100, 50), draws=200, rng=rng)
        covered += (result["tau_low"] <= truth) & (truth <= result["tau_high"])
    # 95 % nominal; 300 repeats give 0.95 +- 0.025 (two standard errors), small samples cost a bit.
    assert (covered / 300 > 0.90).all(), covered / 300


@pytest.mark.parametrize("names", [None, ((1, 2, 3), (3, 4))])
def test_agreement_between_seeds_is_scipys_run_by_run(names):
    rng = _rng(4)
    a, b = two_tables(40, (3, 3) if names is None else (3, 2), rng)
    found = between_seeds(a, b, np.arange(40)[None], (100, 50), seeds=names)
    mine, its = names or (range(3), range(3))
    for column, percent in enumerate((100, 50)):

        def tau(x, y, percent=percent):
            kept = top_mask(x, percent)
            return stats.kendalltau(x[kept], y[kept]).statistic

        crossed = [
            tau(a[:, i], b[:, j])
            for i, one in enumerate(mine)
            for j, other in enumerate(its)
            if one != other
        ]
        own = [
            [
                max(tau(x[:, i], x[:, j]), 0)
                for i in range(x.shape[1])
                for j in range(i + 1, x.shape[1])
            ]
            for x in (a, b)
        ]
        pairs = (
            list(zip(*own, strict=True))
            if names is None
            else [(x, y) for x in own[0] for y in own[1]]
        )
        noise = np.mean([np.sqrt(x * y) for x, y in pairs])
        assert found.tau[0, column] == pytest.approx(np.mean(crossed))
        assert found.seed_tau[0, column] == pytest.approx(noise)
        assert found.drop[0, column] == pytest.approx(noise - np.mean(crossed))


def _slow_taus(a, b, names, cells, percent):
    """Return tau and seed tau of samples of cells by scipy; each run of `a` chooses once."""
    tau, seed_tau = [], []
    for chooser in range(a.shape[1]):
        values = a[cells, chooser]
        best = cells[values >= np.sort(values)[-int(np.ceil(percent * len(cells) / 100))]]
        mine = [i for i in range(a.shape[1]) if i != chooser]
        its = [j for j in range(b.shape[1]) if names[1][j] != names[0][chooser]]
        if len(its) < 2:
            its = list(range(b.shape[1]))
        crossed = [
            stats.kendalltau(a[best, i], b[best, j]).statistic
            for i in mine
            for j in its
            if names[0][i] != names[1][j]
        ]
        own = []
        for runs, columns in ((a, mine), (b, its)):
            pairs = itertools.combinations(columns, 2)
            own.append([stats.kendalltau(runs[best, i], runs[best, j]).statistic for i, j in pairs])
        pairs = itertools.product(*own) if names[0] != names[1] else zip(*own, strict=True)
        tau.append(np.mean(crossed))
        seed_tau.append(np.mean([np.sqrt(max(x, 0) * max(y, 0)) for x, y in pairs]))
    return np.mean(tau), np.mean(seed_tau)


@pytest.mark.parametrize("its", [(1, 2, 3), (4, 5, 6), (3, 4)])
def test_each_seed_of_the_baseline_chooses_and_the_others_are_measured(its):
    """In all cells and in each bootstrap sample, which chooses its best cells again."""
    rng = _rng(8)
    names = ((1, 2, 3), its)
    a, b = (np.rint(10 * runs) / 10 for runs in two_tables(60, (3, len(its)), rng, change=1.0))
    paired = Paired.of_values(*map(pd.DataFrame, (a, b), [None] * 2, names))
    [(runs, mine), (others, seeds)] = paired.columns
    sample = resampled(np.arange(60), 2, rng)
    found = between_seeds(
        runs, others, sample, (100, 50), seeds=(mine, seeds), choosers=paired.choosers
    )
    for row in range(3):
        expected = _slow_taus(a, b, names, sample[row], 50)
        assert (found.tau[row, 1], found.seed_tau[row, 1]) == pytest.approx(expected)
    alone = between_seeds(runs, others, sample, (100,), seeds=(mine, seeds))
    np.testing.assert_array_equal(found.tau[:, 0], alone.tau[:, 0])


def test_a_baseline_of_two_seeds_has_no_run_that_only_chooses():
    a, b = two_tables(40, (2, 3), _rng(9))
    assert Paired.of_values(a, b).choosers == []
    first, *_ = Paired.of_values(b, a).choosers
    assert first.left_out == ([0], [])
    assert first.scores.tolist() == b[:, 0].tolist()


def test_below_100_percent_the_cells_with_all_seeds_are_compared():
    a, b = two_tables(60, (3, 3), _rng(9))
    a[:25, 1] = np.nan
    paired = Paired.of_values(a, b)
    found = agreement(paired, (100, 50), draws=20)
    assert found["n_cells"].tolist() == [60, 18]
    full = Paired.of_values(a[25:], b[25:])
    expected = agreement(full, (50,), draws=0)
    # Where a table has gaps, the common effect of each seed is removed, which changes no rank.
    for name in ("tau", "seed_tau", "drop"):
        assert found[name].iloc[1] == pytest.approx(expected[name].iloc[0])
    assert found["drop_low"].notna().all()
    assert "below K = 100, all figures are of the 35 of 60 cells" in str(paired.choosing_note)
    own = seed_agreement(Paired.of_values(a, a), (100, 50), draws=20)
    assert own["n_cells"].tolist() == [60, 18]
    a[:31, 1] = np.nan
    assert Paired.of_values(a, b).choosers == []


@pytest.mark.parametrize("shared", [True, False])
def test_a_jackknife_omits_the_choosing_seed(shared):
    """The k drops are those of single choosing seeds, which are not measured."""
    a, b = two_tables(60, (3, 3), _rng(14), change=1.0)
    names = [(1, 2, 3), (1, 2, 3) if shared else (4, 5, 6)]

    def drops(columns):
        found = []
        for chooser in range(3):
            order = [chooser, *(i for i in range(3) if i != chooser)]
            best = np.argsort(-a[:, chooser])[:30]
            kept = order[1:]
            its = kept if shared else columns
            crossed = [
                stats.kendalltau(a[best, i], b[best, j]).statistic
                for i in kept
                for j in its
                if names[0][i] != names[1][j]
            ]
            first = [stats.kendalltau(a[best, kept[0]], a[best, kept[1]]).statistic]
            second = [
                stats.kendalltau(b[best, i], b[best, j]).statistic
                for i, j in itertools.combinations(its, 2)
            ]
            seed_tau = np.mean([np.sqrt(max(x * y, 0)) for x in first for y in second])
            found.append(seed_tau - np.mean(crossed))
        return found

    variance = 2 * np.var(drops([0, 1, 2]))
    if not shared:
        variance += 2 * np.var([np.mean(drops(pair)) for pair in ([1, 2], [0, 2], [0, 1])])
    paired = Paired.of_values(*map(pd.DataFrame, (a, b), [None] * 2, names))
    found = seed_jackknife(paired, (50,)).iloc[0]
    half = stats.t.ppf(0.975, 2) * np.sqrt(variance)
    assert found["drop"] == pytest.approx(np.mean(drops([0, 1, 2])))
    assert found["drop_high"] - found["drop"] == pytest.approx(half)


@pytest.mark.parametrize("seeds", [9, 10, 40])
def test_more_than_nine_seeds_are_compared_with_near_seeds_on_a_circle(seeds):
    """The number of pairs is that of nine seeds, or a multiple of the number of seeds."""
    near = {9: 4, 10: 3, 40: 1}[seeds]
    a, b = two_tables(30, (seeds, seeds), _rng(6), change=1.0)
    found = between_seeds(a, b, np.arange(30)[None], (100,))
    crossed, own = [], []
    for i in range(seeds):
        for step in range(1, near + 1):
            j = (i + step) % seeds
            crossed += [stats.kendalltau(a[:, i], b[:, j]).statistic]
            crossed += [stats.kendalltau(a[:, j], b[:, i]).statistic]
            first = stats.kendalltau(a[:, i], a[:, j]).statistic
            second = stats.kendalltau(b[:, i], b[:, j]).statistic
            own.append(np.sqrt(first * second))
    assert found.tau[0, 0] == pytest.approx(np.mean(crossed))
    assert found.seed_tau[0, 0] == pytest.approx(np.mean(own))


def test_number_of_pairs_of_seeds_grows_linearly():
    def pairs(seeds, other):
        first, second = (np.zeros((2, n)) for n in (seeds, other))
        names = (np.tile(np.arange(n), (2, 1)) for n in (seeds, other))
        return len(list(run_pairs(first, second, *names, same=False)))

    assert [pairs(n, n) for n in (9, 10, 36, 64, 128)] == [72, 60, 72, 128, 256]
    assert [pairs(3, n) for n in (10, 20)] == [30 - 3, 60 - 3]


def test_a_jackknife_over_many_seeds_leaves_out_the_pairs_of_each_seed():
    a, b = two_tables(30, (10, 10), _rng(15), change=1.0)
    pairs = [(i, (i + step) % 10) for i in range(10) for step in (1, 2, 3)]
    drops = []
    for out in range(10):
        kept = [pair for pair in pairs if out not in pair]
        crossed = [stats.kendalltau(a[:, i], b[:, j]).statistic for i, j in kept]
        crossed += [stats.kendalltau(a[:, j], b[:, i]).statistic for i, j in kept]
        own = [[stats.kendalltau(x[:, i], x[:, j]).statistic for i, j in kept] for x in (a, b)]
        drops.append(np.mean(np.sqrt(np.prod(own, axis=0))) - np.mean(crossed))
    found = seed_jackknife(Paired.of_values(a, b), (100,)).iloc[0]
    half = stats.t.ppf(0.975, 9) * np.sqrt(9 * np.var(drops))
    assert found["drop_high"] - found["drop"] == pytest.approx(half)


def test_one_seeded_table_has_the_noise_of_the_other_and_two_have_none():
    a, b = two_tables(40, (3, 1), _rng(5))
    own = between_seeds(a, a, np.arange(40)[None], (100,)).seed_tau
    assert between_seeds(a, b, np.arange(40)[None], (100,), seeds=((1, 2, 3), (4,))).seed_tau == own
    alone = between_seeds(a[:, :1], b, np.arange(40)[None], (100,))
    assert np.isnan(alone.seed_tau).all()
    assert alone.tau[0, 0] == pytest.approx(stats.kendalltau(a[:, 0], b[:, 0]).statistic)


def test_cells_with_fewer_seeds_take_part_in_every_ranking():
    """A third of the cells have runs of two seeds that no other cell has.

    The runs of each of these cells are equal, so any two of them give the same ranking. The
    expected values are computed by scipy for each pair of runs.
    """
    rng = _rng(12)
    a, b = two_tables(40, (3, 3), rng)
    a[::3], b[::3] = a[::3, :1], b[::3, :1]
    expected = [
        np.mean([stats.kendalltau(x[:, i], y[:, j]).statistic for i, j in pairs])
        for x, y, pairs in (
            (a, b, [(i, j) for i in range(3) for j in range(3) if i != j]),
            (a, a, [(0, 1), (0, 2), (1, 2)]),
        )
    ]
    a[::3, 2] = np.nan
    names = np.tile((1, 2, 3), (40, 1))
    names[::3] = (8, 9, 9)
    found = between_seeds(a, b, np.arange(40)[None], (100,), seeds=(names, (1, 2, 3)))
    own = between_seeds(a, a, np.arange(40)[None], (100,), seeds=(names, names))
    assert found.n_cells.tolist() == [40]
    assert found.tau[0, 0] == pytest.approx(expected[0])
    assert own.seed_tau[0, 0] == pytest.approx(expected[1])


@pytest.mark.parametrize(("fair", "used"), [(9, 1), (10, 2)])
def test_equal_columns_are_paired_where_half_of_the_cells_have_different_seeds(fair, used):
    runs = np.arange(40.0).reshape(20, 2)
    mine = np.tile([5, 6], (20, 1))
    mine[:fair, 0] = 7
    pairs = list(run_pairs(runs, runs[:, :1], mine, np.full((20, 1), 5), same=False))
    assert len(pairs) == used
    places, first, second = pairs[-1]
    assert places == (1, 0)
    assert first.tolist() == runs[:, 1].tolist()
    assert second.tolist() == runs[:, 0].tolist()


@pytest.mark.parametrize(("fair", "used"), [(1, 1), (2, 2)])
def test_other_columns_are_paired_where_a_tenth_of_the_cells_have_different_seeds(fair, used):
    runs = np.arange(40.0).reshape(20, 2)
    its = np.tile([6, 5], (20, 1))
    its[:fair, 1] = 7
    pairs = list(run_pairs(runs[:, :1], runs, np.full((20, 1), 5), its, same=False))
    assert len(pairs) == used
    # Cells that have no different seed in this column use the pair of the other column again.
    column = np.where(np.arange(20) < fair, 1, 0) if used == 2 else np.zeros(20, dtype=int)
    assert pairs[-1][2].tolist() == runs[np.arange(20), column].tolist()


def test_every_cell_with_two_seeds_counts_and_no_seed_meets_itself():
    """Compare a table of pure noise with itself: tau is 0 if no run is paired with itself."""
    rng = _rng(13)
    runs = pd.DataFrame(rng.normal(90, 1, (300, 4)), columns=[1, 2, 3, 4])
    runs[rng.random(runs.shape) < 0.4] = np.nan
    runs = runs[runs.notna().any(axis=1)]
    enough = int((runs.notna().sum(axis=1) >= 2).sum())
    found = agreement(Paired.of_values(runs, runs), (100,), draws=0, rng=rng).iloc[0]
    assert found["n_cells"] == enough < len(runs)
    assert abs(found["tau"]) < 0.1  # a single pair with equal seeds would give 0.1
    assert abs(found["seed_tau"]) < 0.1


def test_samples_are_of_whole_classes_as_many_cells_as_there_are():
    classes = np.array([0, 0, 0, 1, 2, 2, 3])
    sample = resampled(classes, 200, _rng(7))
    assert sample[0].tolist() == list(range(7))
    for row in sample[1:]:
        # Only the class that is drawn last can be incomplete. In all other classes, each cell is
        # drawn equally often.
        times = [np.bincount(row, minlength=7)[classes == one] for one in range(4)]
        assert sum(np.ptp(one) > 0 for one in times) <= 1
    counts = np.bincount(sample[1:].ravel(), minlength=7) / 200
    np.testing.assert_allclose(counts, 1, atol=0.25)
    alone = resampled(np.array([3, 1, 0, 2]), 50, _rng(8))
    np.testing.assert_array_equal(alone[1:], _rng(8).integers(0, 4, size=(50, 4)))


@pytest.mark.parametrize("shared", [True, False])
def test_a_jackknife_over_seeds_is_tukeys_by_scipy(shared):
    """Compute the variance by hand: (k - 1)/k times a sum of squares.

    The squares are those of the k drops without one seed, minus the mean of these drops.
    """
    a, b = two_tables(30, (3, 3), _rng(14))
    names = [(1, 2, 3), (1, 2, 3) if shared else (4, 5, 6)]

    def drop(mine, its):
        def tau(x, i, y, j):
            return stats.kendalltau(x[:, i], y[:, j]).statistic

        alike = [(i, j) for i in mine for j in its if names[0][i] != names[1][j]]
        own = [
            [tau(x, i, x, j) for i in kept for j in kept if i < j]
            for x, kept in ((a, mine), (b, its))
        ]
        pairs = zip(*own, strict=True) if shared else [(x, y) for x in own[0] for y in own[1]]
        noise = np.mean([np.sqrt(x * y) for x, y in pairs])
        return noise - np.mean([tau(a, i, b, j) for i, j in alike])

    every = [0, 1, 2]
    lacking = [[i for i in every if i != out] for out in every]
    if shared:
        variance = 2 * np.var([drop(kept, kept) for kept in lacking])
    else:
        variance = 2 * np.var([drop(kept, every) for kept in lacking])
        variance += 2 * np.var([drop(every, kept) for kept in lacking])
    paired = Paired.of_values(*map(pd.DataFrame, (a, b), [None] * 2, names))
    found = seed_jackknife(paired, (100,)).iloc[0]
    half = stats.t.ppf(0.975, 2) * np.sqrt(variance)
    assert found["drop"] == pytest.approx(drop(every, every))
    assert found["drop_high"] - found["drop"] == pytest.approx(half)
    assert found["p_value"] == pytest.approx(stats.t.sf(found["drop"] / np.sqrt(variance), 2))
    two = Paired.of_values(a[:, :2], b[:, :2])
    assert np.isnan(seed_jackknife(two, (100,))["p_value"].iloc[0])


@pytest.mark.parametrize("n", [None, 12, 2])
@pytest.mark.parametrize("level", [0.95, 0.9])
def test_an_interval_has_percentiles_as_far_out_as_student_s_is_wider(n, level):
    """The first draw is the value; the interval has percentiles of the others.

    Percentiles of `n` observations are moved outwards by Hesterberg (2015), equation 8.
    """
    drawn = np.concatenate([[5.0], np.random.default_rng(0).permutation(1001), [np.nan]])
    tail = (1 - level) / 2
    if n:
        tail = stats.norm.cdf(-np.sqrt(n / (n - 1)) * stats.t(n - 1).ppf(1 - tail))
    expected = {"x": 5, "x_low": 1000 * tail, "x_high": 1000 * (1 - tail)}
    assert with_interval("x", drawn, n, level) == pytest.approx(expected)


@pytest.mark.parametrize(("seed_tau", "corrected"), [(0.1, np.nan), (0.2, 0.25)])
def test_corrected_tau_is_given_for_seed_taus_above_a_tenth(seed_tau, corrected):
    agreed = TauSamples(np.full((1, 1), 0.05), np.full((1, 1), seed_tau), np.array([12]))
    row = at_k(agreed, 0)
    assert (row["n_cells"], row["tau"], row["seed_tau"]) == (12, 0.05, seed_tau)
    assert row["drop"] == pytest.approx(seed_tau - 0.05)
    assert row["corrected_tau"] == pytest.approx(corrected, nan_ok=True)


@pytest.mark.parametrize(
    ("draws", "n", "expected"),
    [(1000, 2097, 1000), (1000, 2098, 999), (1000, 15_625, 134), (1000, 30_000, 100), (50, 9, 50)],
)
def test_draws_of_large_tables_are_limited_to_two_million_cells_or_a_hundred(draws, n, expected):
    assert affordable(draws, n) == expected
