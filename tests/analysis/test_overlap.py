"""Overlap and regret of the transfer, compared with a slow computation, run by run."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from simulated_tables import two_tables

from rebench.analysis import Paired, compare
from rebench.analysis.overlap import transfer
from rebench.analysis.seed_tau import resampled


def _pairs(a, b, names):
    """Return pairs of runs with different seeds: between the tables, and in each of them."""
    crossed = []
    for i, j in itertools.product(range(a.shape[1]), range(b.shape[1])):
        if names[0][i] != names[1][j]:
            crossed.append((a[:, i], b[:, j]))
    own = []
    for runs in (a, b):
        columns = range(runs.shape[1])
        own.append([(runs[:, i], runs[:, j]) for i, j in itertools.combinations(columns, 2)])
    return crossed, own


def _overlap(x, y, size):
    best = [set(np.flatnonzero(runs >= np.sort(runs)[-size])) for runs in (x, y)]
    return len(best[0] & best[1]) / max(map(len, best))


def _regret(x, y):
    return y.max() - y[x == x.max()].mean()


@pytest.mark.parametrize("its", [(1, 2, 3), (4, 5)])
def test_overlap_and_regret_are_those_of_all_pairs_of_runs(its):
    """In all cells; accuracies of 0.5 points have ties."""
    rng = np.random.default_rng(3)
    names = ((1, 2, 3), its)
    a, b = (np.rint(2 * runs) / 2 for runs in two_tables(60, (3, len(its)), rng, change=2.0))
    paired = Paired.of_values(*map(pd.DataFrame, (a, b), [None] * 2, names))
    found = transfer(paired, (100, 50, 20, 10), draws=50, rng=0)
    crossed, own = _pairs(a, b, names)
    for row, size in zip(found.to_dict("records"), (60, 30, 12, 6), strict=True):
        seeds = [[_overlap(x, y, size) for x, y in pairs] for pairs in own]
        both = zip(*seeds, strict=True) if its == names[0] else itertools.product(*seeds)
        if size < 10:
            assert np.isnan([row["overlap"], row["seed_overlap"], row["overlap_low"]]).all()
        else:
            assert row["overlap"] == pytest.approx(np.mean([_overlap(*p, size) for p in crossed]))
            assert row["seed_overlap"] == pytest.approx(np.mean([np.sqrt(x * y) for x, y in both]))
        assert row["regret"] == pytest.approx(np.mean([_regret(x, y) for x, y in crossed]))
        ways = [*own[1], *((y, x) for x, y in own[1])]
        assert row["seed_regret"] == pytest.approx(np.mean([_regret(x, y) for x, y in ways]))
    known = found.iloc[:3]
    for name in ("overlap", "seed_overlap", "regret", "seed_regret"):
        assert (known[f"{name}_low"] <= known[f"{name}_high"]).all()
        assert (known[f"{name}_low"] >= 0).all()
    assert (known[["overlap_high", "seed_overlap_high"]] <= 1).all(axis=None)
    assert (known[["overlap_low", "overlap_high"]].iloc[0] == 1).all()


def test_intervals_are_those_of_samples_of_cells():
    rng = np.random.default_rng(4)
    a, b = two_tables(40, (1, 2), rng, change=2.0)
    paired = Paired.of_values(pd.DataFrame(a), pd.DataFrame(b, columns=[7, 8]))
    found = transfer(paired, (50,), draws=300, rng=0).iloc[0]
    sample = resampled(np.arange(40), 300, np.random.default_rng(0))
    drawn = []
    for rows in sample[1:]:
        crossed, _ = _pairs(a[rows], b[rows], ((0,), (7, 8)))
        drawn.append([np.mean([_overlap(*p, 20) for p in crossed]),
                      np.mean([_regret(*p) for p in crossed])])  # fmt: skip
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    ends = [found["overlap_low"], found["regret_low"]]
    np.testing.assert_allclose(ends, low, atol=0.04)
    np.testing.assert_allclose([found["overlap_high"], found["regret_high"]], high, atol=0.08)


def test_a_table_of_one_run_has_no_regret_between_seeds():
    a, b = two_tables(40, (3, 1), np.random.default_rng(5))
    found = compare(a, pd.DataFrame(b).to_numpy(), draws=0, top_percent=(50,)).frame().iloc[0]
    assert np.isfinite(found[["overlap", "seed_overlap", "regret"]].astype(float)).all()
    assert np.isnan(found["seed_regret"])
    assert np.isnan(found["overlap_low"])
