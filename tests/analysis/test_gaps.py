"""Pairwise gaps against writing out every pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rebench.analysis import Paired, SeedNoise, gap_counts
from rebench.analysis.gaps import gaps as gaps_of
from rebench.errors import InputError


def gaps(before, after, **options):
    return gaps_of(Paired.of_values(before, after), **options)


def _all_gaps(means):
    return np.array([abs(x - y) for x, y in itertools.combinations(means, 2)])


def test_gap_counts_are_those_of_all_pairs():
    means = np.round(np.random.default_rng(0).normal(90, 2, 80), 1)  # many ties and round gaps
    edges = [0.0, 0.1, 0.55, 1.0, 3.0, 20.0]
    expected = [
        ((_all_gaps(means) >= low - 1e-6) & (_all_gaps(means) < high - 1e-6)).sum()
        for low, high in itertools.pairwise(edges)
    ]
    assert gap_counts(means, edges).tolist() == expected


def test_gaps_are_those_of_all_pairs():
    rng = np.random.default_rng(1)
    before = np.round(rng.normal(90, 2, (60, 3)), 1)
    after = np.round(before / 2 + 50, 2)
    table = gaps(before, after).set_index("table")
    for name, values in (("before", before), ("after", after)):
        expected = _all_gaps(values.mean(axis=1))
        row = table.loc[name]
        assert row["n_pairs"] == len(expected) == 60 * 59 // 2
        assert row["mean"] == pytest.approx(expected.mean())
        assert row["tied"] == pytest.approx((expected < 1e-6).mean())
        for share, column in ((0.1, "p10"), (0.5, "median"), (0.9, "p90")):
            nearest = np.quantile(expected, share, method="inverted_cdf")
            assert row[column] == pytest.approx(nearest, abs=2e-6)


def test_share_of_pairs_that_seeds_cannot_tell_apart_is_of_all_pairs():
    rng = np.random.default_rng(2)
    values = rng.normal(90, 1, (300, 1)) + rng.normal(0, 0.4, (300, 3))
    noise = SeedNoise.fit(values)
    variance = noise.run_sd**2 / 3
    close = [
        abs(noise.means[i] - noise.means[j]) < 1.959964 * np.sqrt(variance[i] + variance[j])
        for i, j in itertools.combinations(range(300), 2)
    ]
    share = gaps(values, values)["not_told_apart"]
    assert share.tolist() == pytest.approx([np.mean(close)] * 2)


def test_halved_gaps_are_harder_to_tell_apart():
    rng = np.random.default_rng(3)
    true, noise = rng.normal(90, 2, (200, 1)), rng.normal(0, 0.4, (200, 3))
    share = gaps(true + noise, true / 4 + noise, top_percent=50)["not_told_apart"]
    assert share[1] > 2 * share[0]


def test_one_seed_gives_gaps_but_no_resolution():
    table = gaps([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    assert table["median"].tolist() == pytest.approx([2.0, 2.0], abs=2e-6)
    assert table["not_told_apart"].isna().all()


def test_a_single_cell_has_no_gap():
    with pytest.raises(InputError, match="two cells, got 1"):
        gaps([1.0], [2.0])
