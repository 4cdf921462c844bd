"""Cells that are one function are one observation: in bootstraps, tests and intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_tables import final_accuracy
from support import shared_data

from cells import trainable_networks
from cells.classes import functional_classes
from rebench.analysis import improvement, rank_agreement, regression, seed_test
from rebench.analysis.concordance import dense_codes
from rebench.analysis.exchange import Exchange
from rebench.analysis.improvement import improvement_by
from rebench.analysis.resampling import resampled_tau


def _tables(n_classes=30, alike=4, seeds=3, seed=0):
    """Two tables in which `alike` cells at a time are one function, and their class numbers."""
    rng = np.random.default_rng(seed)
    true = np.repeat(rng.normal(90, 2, n_classes), alike)[:, None]
    shift = np.repeat(rng.normal(0.5, 1, n_classes), alike)[:, None]
    noise = [rng.normal(0, 0.05, (len(true), seeds)) for _ in range(2)]
    return true + noise[0], true + shift + noise[1], np.repeat(np.arange(n_classes), alike)


def test_numbers_of_networks_are_the_strict_partition_of_these_cells_alone():
    cells = np.random.default_rng(0).choice(15_625, 400, replace=False)
    found, whole = trainable_networks(cells), functional_classes("strict")[cells]
    assert len(np.unique(found)) == len(np.unique(whole))
    assert len(np.unique(np.stack([found, whole]), axis=1).T) == len(np.unique(whole))


def test_every_cell_its_own_class_changes_nothing():
    a, b, _ = _tables()
    alone = np.arange(len(a))
    for run in (
        lambda **more: rank_agreement(a, b, (100, 50), draws=30, rng=0, **more),
        lambda **more: seed_test(a, b, (100, 50), draws=30, rng=0, **more),
        lambda **more: pd.DataFrame([improvement(a, b, **more)]),
        lambda **more: improvement_by(a, b, a.mean(axis=1), **more),
        lambda **more: regression(a, b, np.arange(len(a)) * 130, **more),
    ):
        pd.testing.assert_frame_equal(run(), run(classes=alone))


def test_a_bootstrap_draw_is_a_table_of_whole_classes():
    """Against tables written out: every class of a draw with all its cells, tau by scipy."""
    a, b, classes = _tables(12, 3)
    codes = dense_codes(np.array([a.mean(axis=1).round(2), b.mean(axis=1).round(2)]))
    found = resampled_tau(
        *codes, [36, 18], "benchmark", draws=20, classes=classes, rng=np.random.default_rng(1)
    )
    rng = np.random.default_rng(1)
    for row in found:
        drawn = rng.integers(0, 12, size=12)
        cells = np.concatenate([np.flatnonzero(classes == one) for one in drawn])
        x, y = codes[:, cells]
        best = x >= np.sort(x)[-18]
        expected = [stats.kendalltau(x, y).statistic, stats.kendalltau(x[best], y[best]).statistic]
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_intervals_cover_as_wide_as_classes_differ():
    """Four equal cells say no more than one: the interval is that of the classes' means."""
    a, b, classes = _tables(alike=4)
    found = improvement(a, b, classes=classes)
    means = (b - a).mean(axis=1).reshape(-1, 4).mean(axis=1)
    expected = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["n_classes"] == 30
    assert found["p_value"] == pytest.approx(stats.wilcoxon(means).pvalue)
    alone = improvement(a, b)
    assert found["high"] - found["low"] > 1.8 * (alone["high"] - alone["low"])
    assert found["improved_high"] - found["improved_low"] > 1.5 * (
        alone["improved_high"] - alone["improved_low"]
    )


def test_regression_errors_are_clustered():
    """Cells copied four times have the error of the cells themselves, not half of it."""
    rng = np.random.default_rng(1)
    cells = rng.choice(15_625, 60, replace=False)
    before, after = rng.normal(90, 1, (2, 60))
    once = regression(before, after, cells)
    copied = [np.repeat(x, 4) for x in (before, after, cells)]
    clustered = regression(*copied, classes=np.repeat(np.arange(60), 4))
    np.testing.assert_allclose(clustered["coefficient"], once["coefficient"], rtol=1e-6)
    widths = [table["high"] - table["low"] for table in (clustered, once, regression(*copied))]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.2)
    assert (widths[2] < 0.7 * widths[1]).all()


def test_runs_of_one_class_are_dealt_alike():
    a, b, classes = _tables(10, 3)
    exchange = Exchange.build(a, b, 0, classes=classes)
    assert len(np.unique(exchange.blocks)) == 10
    same = Exchange.build(np.repeat(a[::3], 3, axis=0), np.repeat(b[::3], 3, axis=0), 0,
                          classes=classes)  # fmt: skip
    for first, second in same.draw(5, 1):
        for table in (first, second):
            assert (np.ptp(table.reshape(5, 10, 3), axis=2) == 0).all()


def test_cells_of_a_class_that_lack_a_seed_are_dealt_apart():
    a, b, classes = _tables(10, 3)
    a[0, 1] = np.nan
    assert len(np.unique(Exchange.build(a, b, 0, classes=classes).blocks)) == 11


@pytest.mark.slow
@pytest.mark.skipif(shared_data() is None, reason="no ../shared/data")
def test_the_published_table_says_less_than_15625_independent_cells_would():
    """CIFAR-10 against CIFAR-100: bootstrap standard deviations over classes and over cells."""
    means = np.array([final_accuracy(name) for name in ("cifar10", "cifar100")])
    codes = dense_codes(means)
    classes = trainable_networks(range(15_625))
    spreads = [
        resampled_tau(
            *codes, [15_625, 3_125], "benchmark", draws=60, classes=groups,
            rng=np.random.default_rng(0),
        ).std(axis=0)
        for groups in (classes, None)
    ]  # fmt: skip
    assert (spreads[0] > [3 * spreads[1][0], 1.5 * spreads[1][1]]).all()
