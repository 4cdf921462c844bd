"""What a choice of the learning rate gains and re-ranks, on surfaces whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from made_surfaces import some_cells, surface_table
from scipy import stats

from experiments.surface.gains import of_most, rate_gains, rate_reranking
from experiments.surface.grid import read_surface
from rebench.analysis.ranking import TauSamples

CELLS = some_cells(60)


def surface(best_rates, **options):
    return read_surface(surface_table(best_rates, CELLS, **options), dataset="made")


def row(table, *names):
    first, second = table.columns[:2]
    [found] = table[
        (table[first] == names[0]) & (table[second] == names[1]) & (table["top_percent"] == 100)
    ].to_dict("records")
    return found


def test_gain_is_nothing_where_the_rate_does_not_matter():
    # Seeds alone: the highest of nine means is a point better, and none of it is a gain.
    made = surface(0.1, bend=0, noise=1.0)
    found = row(
        rate_gains(made, reference=0.1),
        "own best rate",
        "0.1 for all",
    )
    assert found["gain_low"] <= 0 <= found["gain_high"]
    assert abs(found["gain"]) < 0.15
    assert found["in_sample"] > 0.7


def test_gain_of_one_rate_for_all_is_what_was_planted():
    # All cells are best at 0.4, two octaves from 0.1: 4 x 0.5 points.
    made = surface(0.4, noise=0.2)
    table = rate_gains(made, reference=0.1)
    single = row(table, "best single rate", "0.1 for all")
    assert single["gain_low"] <= 2 <= single["gain_high"]
    own = row(table, "own best rate", "best single rate")
    assert abs(own["gain"]) < 0.05


def test_gain_of_own_rates_is_what_was_planted():
    # Half of the cells are best an octave below 0.1, half an octave above.
    best = np.where(np.arange(len(CELLS)) % 2, 0.05, 0.2)
    made = surface(best, noise=0.05)
    table = rate_gains(made, reference=0.1)
    assert row(table, "own best rate", "0.1 for all")["gain"] == pytest.approx(0.5, abs=0.03)


def test_gain_among_the_best_cells_is_theirs():
    # The best fifth of cells are best at 0.4, the others at 0.1.
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
    found = row(
        rate_reranking(surface(0.1, noise=0.5), reference=0.1, rng=np.random.default_rng(0)),
        "0.1 for all",
        "own best rate",
    )
    assert found["drop_low"] <= 0 <= found["drop_high"]
    assert found["tau"] > 0.8


def test_reranking_is_seen_where_cells_like_different_rates():
    best = np.random.default_rng(1).choice([0.0125, 0.1, 0.8], len(CELLS))
    made = surface(best, noise=0.1, bend=1.5)
    found = row(
        rate_reranking(made, reference=0.1, rng=np.random.default_rng(0)),
        "0.1 for all",
        "own best rate",
    )
    assert found["seed_tau"] > 0.95
    assert found["drop_low"] > 0.2


def test_the_largest_of_several_has_bonferronis_interval():
    drop = np.array([0.2, 0.1, 0.4, np.nan, 0.1])[:, None]
    found = of_most(TauSamples(-drop, np.zeros((5, 1)), np.array([60])), 0, 10)
    half = stats.norm.ppf(0.9975) * np.std([0.1, 0.4, 0.1])
    assert found == pytest.approx({"most_low": 0.2 - half, "most_high": 0.2 + half})
