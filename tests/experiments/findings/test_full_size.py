"""Numbers of the full-size tables, compared with scipy."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cells import compile_space
from cells.classes import trainable_networks
from experiments.findings import full_size
from rebench.tables.opening import open_table


@pytest.fixture(scope="module")
def runs():
    """Return the published runs of CIFAR-10 [15625, seeds 777, 888, 999]; NaN for missing runs."""
    group = open_table("nb201").group("cifar10-valid", "x-valid", 200)
    return group.column("accuracy")[:, [group.seeds.index(seed) for seed in (777, 888, 999)]]


@pytest.mark.slow
def test_another_procedure_is_compared_on_the_cells_with_an_equal_cell(runs, tmp_path):
    """The other procedure is the published means plus noise of one point.

    Tau over all cells, and over those with an equal cell, is computed by scipy.
    """
    means = open_table("nb201").means("cifar10", "ori-test", 200).to_numpy()
    other = means + np.random.default_rng(1).normal(size=len(means))
    frame = pd.DataFrame({"index": np.arange(len(means)), "accuracy": other, "seed": 777})
    frame = frame.assign(dataset="cifar10", split="ori-test", epochs=200, recipe="other")
    frame.to_parquet(tmp_path / "other.parquet")
    rows = full_size.retrained("nb201", str(tmp_path / "other.parquet")).set_index("top_percent")
    networks = trainable_networks(np.arange(len(means)))
    _, kind, count = np.unique(networks, return_inverse=True, return_counts=True)
    equal = np.flatnonzero((count[kind] > 1) & (compile_space().n_paths > 0))
    assert len(equal) == rows["n_cells"].iloc[0] == full_size.equal_cells()[0]
    _, published, _, _ = full_size._published("cifar10-valid")

    def tau(cells):
        pairs = [(published[cells, seed], other[cells]) for seed in (0, 1)]
        return np.mean([stats.kendalltau(*pair).statistic for pair in pairs])

    assert rows["tau"].iloc[0] == pytest.approx(tau(equal), abs=0.005)
    assert rows["tau_all"].iloc[0] == pytest.approx(tau(np.arange(len(means))), abs=1e-4)
    for row in rows.itertuples():
        assert row.drop == pytest.approx(row.seed_tau - row.tau)
        assert row.drop_low < row.drop < row.drop_high


@pytest.mark.slow
def test_seeds_agree_as_scipy_says(runs):
    """On the cells with three runs; on all cells the page's value differs little."""
    known = runs[np.isfinite(runs).all(axis=1)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    whole = np.mean([stats.kendalltau(known[:, i], known[:, j]).statistic for i, j in pairs])
    assert full_size.seed_agreement("cifar10-valid")[100.0].value == pytest.approx(whole, abs=0.01)
    sampled = full_size.seed_agreement_of_samples("cifar10-valid", 100)
    assert sampled[100.0].value == pytest.approx(whole, abs=0.02)
    assert list(sampled) == [100.0, 50.0, 20.0, 10.0], "of 100 cells, 5 % are too few"


def test_cells_have_two_or_three_runs(runs):
    assert full_size.cells_with_runs(3) == np.isfinite(runs).all(axis=1).sum() == 8169
    assert full_size.cells_with_runs(2) == 15625 - 8169


def test_stored_rows_are_the_numbers_of_the_page():
    stored = json.loads(full_size.STORED.read_text())["retrained"]
    assert len(stored["sha256"]) == 64
    assert {row["recipe"] for row in stored["rows"]} == set(full_size.PROCEDURES)
    row = full_size.against_published("qat", 50.0)
    assert row["drop"].value == pytest.approx(row["seed_tau"].value - row["tau"].value, abs=2e-4)
    other = full_size.against_published("analog", 50.0, by="retrained")
    assert other["drop"].value < full_size.against_published("analog", 50.0)["drop"].value


@pytest.mark.parametrize("by", ["cifar100", "baseline"])
def test_best_cells_chosen_by_a_third_ranking_change_their_order(by):
    """Chosen by one of the two compared rankings, the interval contains 0."""
    assert full_size.against_published("analog", 5.0, by=by)["drop"].low > 0
    assert full_size.against_published("analog", 5.0)["drop"].low < 0


def test_equal_cells_that_share_a_seed_agree_too_well():
    assert 0 < full_size.shared_seed_bias() < full_size.shared_seed_bias("cifar10-valid", 50.0)
