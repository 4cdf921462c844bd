"""Improvement of accuracies: known differences and their intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_tables import two_tables

from rebench.analysis import Paired
from rebench.analysis.accuracy_change import improvement as improvement_of
from rebench.intervals import share_interval


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


def test_no_difference_at_all_is_zero():
    row = improvement([1.0, 2.0], [1.0, 2.0])
    assert (row["difference"], row["improved"], row["p_value"]) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize(("names", "shared"), [((1, 2, 3), True), ((4, 5, 6), False)])
def test_seeds_are_one_sample_where_tables_share_them_and_two_where_not(names, shared):
    """Each seed adds -1, 0 or 1 to every cell, so the mean of a table has the variance 1/3.

    If both tables have the same seeds, their difference is exactly 1. Otherwise its variance is
    2/3, with (2/3)^2 / (2 (1/3)^2 / 2) = 4 degrees of freedom (Satterthwaite).
    """
    before = np.arange(20.0)[:, None] + np.array([-1.0, 0, 1])
    tables = pd.DataFrame(before, columns=[1, 2, 3]), pd.DataFrame(before + 1, columns=names)
    row = improvement(*tables)
    half = 0 if shared else stats.t.ppf(0.975, 4) * np.sqrt(2 / 3)
    assert (row["low"], row["high"]) == pytest.approx((1 - half, 1 + half))


def test_cells_of_one_class_are_one_observation():
    """Four equal cells count as one: the interval is that of the means of classes."""
    rng = np.random.default_rng(0)
    whole = two_tables(30, (1, 1), rng, change=1.0)
    a, b = (np.repeat(table, 4, axis=0) + rng.normal(0, 0.05, (120, 1)) for table in whole)
    paired = Paired.of_values(a, b)
    found = improvement_of(replace(paired, classes=np.repeat(np.arange(30), 4)))
    expected = stats.ttest_1samp((b - a).reshape(-1, 4).mean(axis=1), 0)
    bounds = expected.confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((bounds.low, bounds.high))
    assert found["n_classes"] == 30
    assert found["p_value"] == pytest.approx(expected.pvalue)
    share = share_interval(found["improved"], 30)
    assert (found["improved_low"], found["improved_high"]) == share[1:]
