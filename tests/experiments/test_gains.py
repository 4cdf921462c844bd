"""Gains and rankings by the choice of the learning rate, on surfaces with a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from made_surfaces import made_surface, some_cells, surface_table
from scipy import stats

from experiments.surface.gains import of_most, rate_gains, rate_reranking
from rebench.analysis.seed_tau import TauSamples

CELLS = some_cells(60)


def surface(best_rates, **options):
    return made_surface(best_rates, CELLS, **options)


def gain(made, of, over):
    table = rate_gains(made, reference=0.1, top_percent=(100.0,)).set_index(["of", "over"])
    return table.loc[(of, over)]


def reranked(made):
    table = rate_reranking(made, reference=0.1, rng=np.random.default_rng(0))
    [row] = table.query(
        "before == '0.1 for all' and after == 'own best rate' and top_percent == 100"
    ).to_dict("records")
    return row


def test_gain_is_nothing_where_the_rate_does_not_matter():
    # Only noise: the highest of nine means is a point better, and none of it is a gain.
    found = gain(surface(0.1, bend=0, noise=1.0), "own best rate", "0.1 for all")
    assert found["gain_low"] <= 0 <= found["gain_high"]
    assert abs(found["gain"]) < 0.15
    assert found["in_sample"] > 0.7


def test_gain_of_one_rate_for_all_is_what_was_planted():
    # All cells are best at 0.4, two octaves from 0.1: 4 x 0.5 points.
    made = surface(0.4, noise=0.2)
    single = gain(made, "best single rate", "0.1 for all")
    assert single["gain_low"] <= 2 <= single["gain_high"]
    assert abs(gain(made, "own best rate", "best single rate")["gain"]) < 0.05


def test_gain_of_own_rates_is_what_was_planted():
    # The best rate is 0.05 for half of the cells and 0.2 for the others: one octave from 0.1.
    made = surface(np.where(np.arange(len(CELLS)) % 2, 0.05, 0.2), noise=0.05)
    assert gain(made, "own best rate", "0.1 for all")["gain"] == pytest.approx(0.5, abs=0.03)


def test_gain_among_the_best_cells_is_theirs():
    # The best quarter of the cells has the best rate 0.4, the others have 0.1.
    table = surface_table(0.1, CELLS, noise=0.05)
    tops = table.groupby("index")["accuracy"].max()
    best = np.where(tops.loc[CELLS] >= np.quantile(tops, 0.75), 0.4, 0.1)
    made = surface(best, noise=0.05)
    found = rate_gains(made, reference=0.1, top_percent=(100.0, 10.0))
    own = found[(found["of"] == "own best rate") & (found["over"] == "0.1 for all")]
    by_top = dict(zip(own["top_percent"], own["gain"], strict=True))
    assert by_top[10.0] == pytest.approx(2, abs=0.2)
    assert by_top[100.0] == pytest.approx(0.5, abs=0.2)


def test_reranking_is_nothing_where_all_cells_like_one_rate():
    found = reranked(surface(0.1, noise=0.5))
    assert found["drop_low"] <= 0 <= found["drop_high"]
    assert found["tau"] > 0.8


def test_reranking_is_seen_where_cells_like_different_rates():
    best = np.random.default_rng(1).choice([0.0125, 0.1, 0.8], len(CELLS))
    found = reranked(surface(best, noise=0.1, bend=1.5))
    assert found["seed_tau"] > 0.95
    assert found["drop_low"] > 0.2


def test_the_largest_of_several_has_bonferronis_interval():
    drop = np.array([0.2, 0.1, 0.4, np.nan, 0.1])[:, None]
    found = of_most(TauSamples(-drop, np.zeros((5, 1)), np.array([60])), 0, 10)
    half = stats.norm.ppf(0.9975) * np.std([0.1, 0.4, 0.1])
    assert found == pytest.approx({"most_low": 0.2 - half, "most_high": 0.2 + half})
