"""Seed tau from equal cells on the published runs, where seed tau is known: the kept figures."""

from __future__ import annotations

import json

import pytest

from experiments.published.equal_cells import RESULTS, coverage, published

KEPT = json.loads(RESULTS.read_text())
WHOLE = [row for row in KEPT["published"] if row["top_percent"] == 100]


@pytest.mark.slow
def test_kept_figures_are_measured_again():
    assert list(published()) == KEPT["published"]


def test_runs_of_other_seeds_give_seed_tau_and_runs_of_one_seed_a_little_more():
    for row in WHOLE:
        assert row["other_seed"] == pytest.approx(row["seed_tau"], abs=0.002)
        assert 0.003 < row["same_seed"] - row["seed_tau"] < 0.007


def test_the_interval_covers_as_often_as_it_says():
    kept = KEPT["coverage"]
    # 95 % of 400, within three standard errors of such a count.
    assert kept["covered"] == pytest.approx(380, abs=3 * (400 * 0.95 * 0.05) ** 0.5)


@pytest.mark.slow
def test_coverage_is_measured_again_at_a_tenth():
    assert coverage(tables=40)["covered"] >= 33
