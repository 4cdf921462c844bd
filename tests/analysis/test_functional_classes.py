"""Cells of one functional class are one observation in bootstraps, tests and intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cells import trainable_networks
from cells.classes import functional_classes
from rebench.analysis import Paired
from rebench.analysis.exchange import Exchange
from rebench.analysis.improvement import improvement


def _tables(n_classes=30, alike=4, seeds=3, seed=0):
    """Return two tables in which groups of `alike` cells are one class, and the class numbers."""
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


def test_intervals_cover_as_wide_as_classes_differ():
    """Four equal cells count as one observation: the interval is that of the means of classes."""
    a, b, classes = _tables(alike=4)
    a, b = a.mean(axis=1), b.mean(axis=1)  # one seed, so its effect is unknown
    paired = Paired.of_values(a, b)
    found = improvement(replace(paired, classes=classes))
    means = (b - a).reshape(-1, 4).mean(axis=1)
    expected = stats.ttest_1samp(means, 0)
    bounds = expected.confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((bounds.low, bounds.high))
    assert found["n_classes"] == 30
    assert found["p_value"] == pytest.approx(expected.pvalue)
    alone = improvement(paired)
    assert found["high"] - found["low"] > 1.8 * (alone["high"] - alone["low"])
    assert found["improved_high"] - found["improved_low"] > 1.5 * (
        alone["improved_high"] - alone["improved_low"]
    )


def test_runs_of_one_class_are_dealt_alike():
    a, b, classes = _tables(10, 3)
    exchange = Exchange.build(a, b, classes, np.random.default_rng(0))
    assert len(np.unique(exchange.blocks)) == 10
    alike = [np.repeat(runs[::3], 3, axis=0) for runs in (a, b)]
    same = Exchange.build(*alike, classes, np.random.default_rng(0))
    for first, second in same.draw(5, np.random.default_rng(1)):
        for table in (first, second):
            assert (np.ptp(table.reshape(5, 10, 3), axis=2) == 0).all()


def test_cells_of_a_class_that_lack_a_seed_are_dealt_apart():
    a, b, classes = _tables(10, 3)
    a[0, 1] = np.nan
    assert len(np.unique(Exchange.build(a, b, classes, np.random.default_rng(0)).blocks)) == 11
