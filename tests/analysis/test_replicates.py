"""Equal cells as second runs of a table with one run of each cell, against known noise."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from simulated_tables import table_of
from support import PROJECT

from cells.classes import trainable_networks
from rebench.analysis import Accuracies, Paired, agreement, rerank
from rebench.analysis.drop import rank_curve
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau, partners
from rebench.analysis.p_values import bootstrap_p_values
from rebench.analysis.replicates import shared_seed_bias, with_replicates
from rebench.analysis.result_table import caption_of

CELLS = np.sort(np.random.default_rng(0).choice(15_625, 3000, replace=False))


def _tables(seed: int = 1, change: float = 0.0) -> tuple[Accuracies, Accuracies, np.ndarray]:
    """Return a table with three seeds, one run of a noisier table, and a second run of it."""
    rng = np.random.default_rng(seed)
    networks = trainable_networks(CELLS)
    true, moved = rng.normal(size=(2, networks.max() + 1))
    before = true[networks, None] + 0.15 * rng.normal(size=(len(CELLS), 3))
    second = (np.sqrt(1 - change) * true + np.sqrt(change) * moved)[networks, None]
    after = second + 0.6 * rng.normal(size=(len(CELLS), 2))
    first = table_of(90 + before, "first", cells=CELLS, seeds=(1, 2, 3))
    noisier = table_of(90 + after[:, :1], "noisier", cells=CELLS, seeds=(9,))
    return first, noisier, 90 + after[:, 1]


def test_a_noisier_table_of_single_runs_is_not_taken_for_a_change():
    before, after, second = _tables()
    paired = Paired.of(before, after)
    found = rerank(paired, dataset="", top_percent=(100, 50), draws=99, rng=0)
    rows = EqualCells.among(CELLS).rows
    # The second run exists here: seed tau of both tables is known on the equal cells.
    own = [
        np.mean([kendalltau(*runs[rows][:, pair].T).statistic for pair in pairs])
        for runs, pairs in (
            (before.runs, [[0, 1], [0, 2], [1, 2]]),
            (np.column_stack([after.runs, second]), [[0, 1]]),
        )
    ]
    whole = found.frame().iloc[0]
    assert whole["n_cells"] == len(rows)
    assert whole["seed_tau"] == pytest.approx(np.sqrt(own[0] * own[1]), abs=0.01)
    assert whole["seed_tau_low"] < np.sqrt(own[0] * own[1]) < whole["seed_tau_high"]
    assert whole["drop_low"] < 0 < whole["drop_high"] + 0.01
    assert found.p_value > 0.05
    assert "no noisier than" not in found.sentence
    # If the second table had the noise of the first, the drop would be over 0.1.
    assert own[0] - found.tau > 0.1


def test_own_agreement_of_the_single_runs_is_that_of_equal_cells():
    _, after, _ = _tables()
    alone = replace(after, name="again", seeds=(8,))
    found = rerank(Paired.of(after, alone), dataset="", top_percent=(100, 50), draws=0, rng=0)
    told = equal_cell_tau(after.runs[:, 0], EqualCells.among(CELLS), (100, 50), draws=50, rng=0)
    # The comparison uses one pairing of equal cells; the expected value is a mean over 50.
    assert found.frame()["seed_tau"].tolist() == pytest.approx(told["tau"].tolist(), abs=0.015)


def test_a_change_shows_between_two_tables_of_single_runs():
    _, after, second = _tables()
    _, changed, _ = _tables(change=0.5)
    again = replace(after, name="again", seeds=(8,), runs=second[:, None])
    options = {"dataset": "", "top_percent": (100, 50), "draws": 99, "rng": 0}
    null = rerank(Paired.of(after, again), **options)
    moved = rerank(Paired.of(after, changed), **options)
    assert null.p_value > 0.05
    assert moved.p_value == pytest.approx(1 / 100)  # the smallest p of 99 draws
    assert moved.drop[1] > 0.1
    assert "This verdict assumes" not in moved.sentence
    few = rerank(Paired.of(after, changed), **options | {"top_percent": (100,), "draws": 1400})
    assert few.p_value == pytest.approx(1 / 1401)  # p needs more draws than an interval
    *_, note, shared = moved.notes
    assert note.startswith("noisier: one run of each cell, so seed tau is measured")
    assert shared.startswith("If equal cells share their seed, seed tau between them is too high")
    equal = EqualCells.among(CELLS)
    assert f"({len(equal.rows)} of the 3000 cells, in {equal.n_classes} classes)" in note


def test_texts_name_the_bootstrap_as_the_test():
    before, after, _ = _tables()
    found = rerank(Paired.of(before, after), dataset="", top_percent=(100,), draws=19, rng=0)
    assert "$p$: one-sided bootstrap test" in caption_of([found])
    curve = found.by_k.assign(p_family=0.04, drop_low=-0.01)
    said = replace(found, by_k=curve).sentence
    assert "contains 0, so its size is unknown: p is one-sided, and the interval is" in said
    assert "means over seeds" not in said


def test_lower_end_of_the_drop_allows_for_seeds_that_equal_cells_share():
    """The end is lowered by 0.006, the measured bias over all cells, and a little for the noise."""
    _, after, second = _tables()
    paired = Paired.of(after, replace(after, name="again", seeds=(8,), runs=second[:, None]))
    curve, _ = rank_curve(paired, (100,), draws=99, rng=0)
    rng = np.random.default_rng(0)
    cells, _ = with_replicates(paired, rng.spawn(1)[0])
    alone = agreement(cells, (100,), draws=99, rng=rng)
    assert curve["drop_high"].item() == alone["drop_high"].item()
    allowed = alone["drop_low"].item() - curve["drop_low"].item()
    assert 0.006 <= allowed + 1e-12 < 0.012


def test_the_partner_in_both_tables_is_one_cell_whose_seed_meets_no_equal_seed():
    _, after, _ = _tables()
    paired, _ = with_replicates(Paired.of(after, after), rng=3)
    equal = EqualCells.among(CELLS)
    own = after.runs[equal.rows, 0]
    partner = partners(equal.classes, 3)
    for table in (paired.baseline, paired.other):
        np.testing.assert_array_equal(table.runs, np.column_stack([own, own[partner]]))
        assert table.seeds == (9, 8)


def test_a_third_table_chooses_among_the_equal_cells():
    before, after, second = _tables()
    third = table_of(second[:, None], "third", cells=CELLS)
    paired = Paired.of(before, after).chosen_by(third)
    found = rerank(
        paired,
        dataset="",
        top_percent=(100, 20),
        by="third",
        draws=99,
        rng=np.random.default_rng(0),
    )
    rows = EqualCells.among(CELLS).rows
    size = -(-len(rows) // 5)
    assert found.by_k["n_cells"].tolist() == [len(rows), size]
    assert found.by_k["p_family"].notna().all()


def test_accuracies_without_cells_have_no_equal_cells():
    rng = np.random.default_rng(2)
    paired = Paired.of_values(rng.normal(size=(300, 2)), rng.normal(size=300))
    same, notes = with_replicates(paired)
    assert same is paired
    assert notes == ["other has one seed per cell: its noise is assumed to be that of baseline"]


def test_p_values_of_a_bootstrap_are_the_shares_of_draws():
    # Deviations of both K are -2, -1, 1, 2 (in units of one scale); estimates 1.5 and 3 above 0.
    drop = np.array([1.5, 3.0]) + np.array([[0, 0], [-2, 1], [-1, 2], [1, -2], [2, -1]])
    single, family = bootstrap_p_values(drop, np.zeros(2))
    np.testing.assert_allclose(single, [2 / 5, 1 / 5])
    np.testing.assert_allclose(family, [3 / 5, 1 / 5])
    # A drop that is expected without a change is subtracted.
    np.testing.assert_allclose(bootstrap_p_values(drop, np.array([1.5, 3.0]))[0], [3 / 5, 3 / 5])
    missing = np.column_stack([drop[:, 0], np.full(5, np.nan)])
    np.testing.assert_allclose(bootstrap_p_values(missing, np.zeros(2))[0], [2 / 5, np.nan])
    shorter = drop.copy()
    shorter[-2:, 1] = np.nan  # the second K has fewer draws: both are compared in these
    # In units of each scale, the largest deviations are 2 and 4; the estimates are 0.95 and 6.
    np.testing.assert_allclose(bootstrap_p_values(shorter, np.zeros(2))[1], [3 / 3, 1 / 3])


def test_allowance_for_a_shared_seed_is_what_was_measured():
    path = PROJECT / "experiments" / "published" / "results" / "equal_cells.json"
    rows = pd.DataFrame(json.loads(path.read_text())["published"])
    largest = (rows["same_seed"] - rows["seed_tau"]).groupby(rows["top_percent"]).max()
    allowed = shared_seed_bias(largest.index, 2)
    np.testing.assert_allclose(allowed, largest, atol=0.001)
    assert (allowed >= largest).all()
    np.testing.assert_allclose(shared_seed_bias((75,), 1), [0.5 * (0.006 + 0.015) / 2])
