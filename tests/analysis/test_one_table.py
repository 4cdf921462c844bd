"""Analysis of a single table: seed tau at each K, and the cells that may be the best."""

from __future__ import annotations

import html

import numpy as np
import pytest
from scipy.stats import kendalltau

from rebench.analysis import Paired, agreement, rank_intervals, read_accuracies, reliability
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau
from rebench.tables import Table, open_table


def test_seed_tau_of_a_table_is_scipys_over_pairs_of_seeds():
    rows = open_table("mini@fixed").frame()
    table = read_accuracies(rows, dataset="cifar10-jpeg16", split="ori-test")
    found = reliability("mini@fixed", top_percent=(100, 50), draws=50)
    runs = table.runs.T
    taus = [kendalltau(runs[i], runs[j]).statistic for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.frame()["seed_tau"].iloc[0] == pytest.approx(np.mean(taus))
    own = agreement(Paired.of(table, table), (100, 50), draws=0)
    np.testing.assert_allclose(found.frame()["seed_tau"], own["seed_tau"])
    low, high = found.frame()[["seed_tau_low", "seed_tau_high"]].to_numpy().T
    assert (low < found.frame()["seed_tau"]).all()
    assert (found.frame()["seed_tau"] < high).all()
    assert found.name == "mini@fixed, cifar10-jpeg16 ori-test, 5 epochs"
    assert found.may_be_best == rank_intervals(table)["may_be_best"].sum() == 37
    best = table.cells[table.centred_means.argmax()]
    assert found.sentence == (
        f"Among the top 100 % two runs with different seeds agree with tau = {np.mean(taus):.3f} "
        f"(95 % CI {low[0]:.3f} to {high[0]:.3f}). 37 of 60 cells cannot be separated from the "
        f"best (95 %); the best mean is that of cell {best}."
    )
    assert str(found) == f"{found.name}: {found.sentence}"
    assert repr(found) == f"<Reliability: {found}>"
    fewer = rows[(rows["seed"] == 777) | rows["index"].isin(table.cells[:40])]
    some = reliability(Table.from_frame(fewer, name="some"), top_percent=(100,), draws=19)
    assert some.notes[-1] == "seed tau is of the 40 cells that have two seeds"
    assert some.frame()["n_cells"].tolist() == [40]


def test_the_split_that_has_runs_is_taken_and_all_cells_have_two():
    found = reliability("nb201", dataset="cifar10-valid", top_percent=(100,), draws=20)
    assert (found.split, len(found.accuracies.cells)) == ("x-valid", 15_625)
    assert found.frame()["seed_tau"].iloc[0] == pytest.approx(0.910, abs=5e-4)
    [note] = found.notes
    assert note.startswith("nb201: 7456 cells with fewer than 3 seeds (kept)")


def test_means_over_seeds_are_not_called_runs():
    """The values of `nb201` on CIFAR-10 are published means over seeds."""
    found = reliability("nb201", dataset="cifar10", top_percent=(100,))
    assert "two means over seeds agree with tau = 0.932 " in found.sentence
    assert "; single runs agree less." in found.sentence
    assert found.notes[-1].startswith("one mean over seeds of each cell: seed tau is")


def test_a_table_of_single_runs_is_measured_on_equal_cells():
    rows = open_table("nb201").frame(dataset="cifar10-valid", split="x-valid", epochs=200)
    rows = rows[rows["seed"].isin((-2, 777))].drop_duplicates("index")
    table = Table.from_frame(rows, name="single")
    found = reliability(table, top_percent=(100, 50))
    values = rows.set_index("index")["accuracy"].sort_index()
    equal = EqualCells.among(values.index)
    told = equal_cell_tau(values.to_numpy(), equal, (100, 50), rng=0)
    assert found.frame()["seed_tau"].tolist() == told["tau"].tolist()
    assert found.frame()["seed_tau_low"].tolist() == told["tau_low"].tolist()
    assert found.frame()["n_cells"].tolist() == told["n_cells"].tolist()
    assert found.cells is None
    assert found.may_be_best is None
    assert "Ranks have no intervals" in found.sentence
    assert found.notes[-1].startswith("one run of each cell: seed tau is that between cells")
    said = "\n".join(f"Note: {note}." for note in found.notes)
    assert str(found) == f"{found.name}: {found.sentence}\n{said}"
    shown = "".join(f"<p>Note: {html.escape(note)}.</p>" for note in found.notes)
    assert found._repr_html_().endswith(f"</table>{shown}")


def test_few_cells_without_seeds_have_no_seed_tau():
    rows = open_table("mini@fixed").frame().drop_duplicates("index")
    found = reliability(Table.from_frame(rows, name="single"), top_percent=(100,))
    assert found.frame()["seed_tau"].isna().all()
    assert found.sentence.startswith("Seed tau is not known")
