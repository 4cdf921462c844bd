"""Improvement: known differences, known statistics of graphs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cells import Cell
from experiments.surface.rules import graph_statistics
from rebench.analysis import Paired
from rebench.analysis.improvement import improvement as improvement_of


def improvement(before, after):
    return improvement_of(Paired.of_values(before, after))


def test_improvement_of_one_seed_is_scipys_paired_analysis():
    rng = np.random.default_rng(0)
    before = rng.normal(90, 2, 50)
    after = before + rng.normal(0.3, 0.5, 50)
    row = improvement(before, after)
    test = stats.ttest_rel(after, before)
    bounds = test.confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((bounds.low, bounds.high))
    assert row["p_value"] == pytest.approx(test.pvalue)
    assert row["difference"] == pytest.approx((after - before).mean())
    wins = (after > before).sum()
    share = stats.binomtest(int(wins), 50).proportion_ci(method="wilson")
    assert row["improved"] == wins / 50
    assert (row["improved_low"], row["improved_high"]) == pytest.approx((share.low, share.high))


@pytest.mark.parametrize("shared", [True, False])
def test_intervals_of_points_cover_what_cells_and_seeds_do(shared):
    """A true difference of 1, cells of 1 point, seeds of .5 that all cells feel, runs of 1."""
    names = [(1, 2, 3), (1, 2, 3) if shared else (4, 5, 6)]
    covered = {True: 0, False: 0}
    for repeat in range(200):
        rng = np.random.default_rng([repeat, shared])
        cell, seed = rng.normal(0, 1, (40, 1)), rng.normal(0, 0.5, 3)
        after = 1 + cell + rng.normal(0, 1, (40, 3)) + seed
        before = rng.normal(0, 1, (40, 3)) + (0 if shared else rng.normal(0, 0.5, 3))
        tables = [pd.DataFrame(x, columns=k) for x, k in zip((before, after), names, strict=True)]
        row = improvement(*tables)
        covered[True] += row["low"] <= 1 <= row["high"]
        alone = improvement(before.mean(axis=1), after.mean(axis=1))
        covered[False] += alone["low"] <= 1 <= alone["high"]
    assert covered[True] >= 180  # of 190; 180 has a probability of 2 %
    assert covered[False] < 165  # seeds counted as fixed


def test_no_difference_at_all_is_zero():
    row = improvement([1.0, 2.0], [1.0, 2.0])
    assert (row["difference"], row["improved"], row["p_value"]) == (0.0, 0.0, 1.0)


def test_statistics_of_cells_known_by_hand():
    # All six edges 3x3 convolutions: paths of 1, 2, 2 and 3 convolutions; 2^3+3^3+3^3+4^3 = 126.
    dense = Cell.parse("3_33_333").index
    empty = Cell.parse("0_00_000").index
    table = graph_statistics(np.array([dense, empty]))
    assert table.loc[0, ["n_paths", "mean_depth"]].tolist() == [4.0, 2.0]
    assert table.loc[0, "log2_multiplier"] == pytest.approx(-0.5 * np.log2(126))
    assert table.loc[1, "n_paths"] == 0
    assert table.loc[1, ["mean_depth", "log2_multiplier"]].isna().all()


@pytest.mark.parametrize(("names", "shared"), [((1, 2, 3), True), ((4, 5, 6), False)])
def test_seeds_are_one_sample_where_tables_share_them_and_two_where_not(names, shared):
    """By hand: a seed adds -1, 0 or 1 to every cell of a table, whose mean has variance 1/3.

    Where both tables have the same seeds their difference is 1 for sure; else its variance is 2/3,
    with Satterthwaite's (2/3)^2 / (2 (1/3)^2 / 2) = 4 degrees of freedom.
    """
    before = np.arange(20.0)[:, None] + np.array([-1.0, 0, 1])
    tables = pd.DataFrame(before, columns=[1, 2, 3]), pd.DataFrame(before + 1, columns=names)
    row = improvement(*tables)
    half = 0 if shared else stats.t.ppf(0.975, 4) * np.sqrt(2 / 3)
    assert (row["low"], row["high"]) == pytest.approx((1 - half, 1 + half))
