"""Tables with one cell of each network answer for all cells; other tables do not."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from made_records import make_record, make_run, write_records
from simulated_tables import synthetic_table

from cells import SPACE_SIZE
from cells.classes import functional_classes
from cells.paths import depth_array
from cells.table import space_ops
from rebench.cli import main
from rebench.errors import MissingDataError
from rebench.nats import ReBench
from rebench.runs import Curve, RecipeSpec, Skeleton
from rebench.search import search_table
from rebench.search.reruns import rerun_tables
from rebench.tables import Table, open_table
from rebench.tables.whole_space import trained_cell_of, whole_space

NETWORKS = functional_classes("strict")
WITH_PATH = np.flatnonzero(depth_array(space_ops()).sum(axis=1) > 0)
FIRST = np.unique(NETWORKS[WITH_PATH])
DATASET = "cifar10-jpeg16"
KEY = (DATASET, "ori-test", 2)


def _equal_pair() -> tuple[int, int]:
    """Return a trained cell, and an equal cell with other parameters."""
    params = open_table("nb201").group("cifar10", "ori-test", 200).network_cost("params_m")
    other = np.flatnonzero((np.arange(SPACE_SIZE) != NETWORKS) & (params != params[NETWORKS]))
    cell = int(np.intersect1d(other, WITH_PATH)[0])
    return int(NETWORKS[cell]), cell


TRAINED, EQUAL = _equal_pair()


@pytest.fixture(scope="module")
def complete() -> Table:
    """A table of one cell of each network with a path."""
    return synthetic_table(0, cells=FIRST, datasets=["cifar10-valid"], epochs=[200])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of one cell of each network with a path, two recipes; made without training."""
    rng = np.random.default_rng(0)
    trial = {"dataset": DATASET, "skeleton": Skeleton(channels=8, cells_per_stage=1)}
    records = []
    for cell, recipe in itertools.product(FIRST.tolist(), ("fixed", "topology")):
        accuracy = rng.uniform(30, 60)
        curve = Curve(accuracy=[20.0, accuracy], loss=[2.0, 1.5])
        curves = {"train": curve, "ori-test": curve}
        outcome = {"status": "done", "learning_rate": 0.1, "curves": curves}
        spec = RecipeSpec(name=recipe)
        records.append(make_record(cell, 777, recipe=spec, trial=trial, outcome=outcome))
    folder = tmp_path_factory.mktemp("complete") / "run"
    make_run(folder, records)
    write_records(folder, "worker", *records)
    return folder


def test_the_same_cell_answers_or_else_the_first_equal_one():
    answers = trained_cell_of([TRAINED, EQUAL])
    assert answers[TRAINED] == TRAINED
    assert answers[EQUAL] == EQUAL
    members = np.flatnonzero(NETWORKS == TRAINED)
    others = np.setdiff1d(members, [TRAINED, EQUAL])
    assert (answers[others] == min(TRAINED, EQUAL)).all()
    assert (np.delete(answers, members) == -1).all()


def test_a_table_of_all_networks_answers_for_all_cells(complete):
    whole = whole_space(complete)
    group, own = whole.group(), complete.group()
    np.testing.assert_array_equal(group.index, WITH_PATH)
    for name in ("accuracy", "loss"):
        trained = own.column(name)[NETWORKS[WITH_PATH]]
        np.testing.assert_array_equal(group.column(name)[WITH_PATH], trained)
    # The parameters are those of each cell, not of the cell that was trained.
    published = open_table("nb201").group("cifar10-valid", "x-valid", 200)
    for name in ("params_m", "mflops"):
        np.testing.assert_allclose(
            whole.group().network_cost(name)[WITH_PATH],
            published.network_cost(name)[WITH_PATH],
            rtol=1e-5,
        )


@pytest.mark.parametrize("cells", [FIRST[1:], np.arange(60)])
def test_a_table_that_lacks_a_network_is_left_as_it_is(cells):
    table = synthetic_table(0, cells=cells, datasets=["cifar10"], epochs=[200])
    assert whole_space(table) is table
    assert whole_space(open_table("nb201")).group().index.size == SPACE_SIZE


def test_a_search_sees_all_cells_and_says_so(complete):
    table = search_table(complete, "cifar10-valid")
    np.testing.assert_array_equal(table.space.indices, WITH_PATH)
    assert table.protocol.startswith(
        "cifar10-valid, 15,284 cells, 9,808 of them with the accuracy of an equal cell;"
    )
    np.testing.assert_array_equal(table.trained, NETWORKS[WITH_PATH])
    only = table.restrict([EQUAL])
    assert only.trained.tolist() == [TRAINED]


def test_reruns_repeat_the_runs_of_an_equal_cell(complete):
    """The noise of a copy is that of a table of the trained cells alone."""
    table = search_table(complete, "cifar10-valid")
    alone = table.restrict(FIRST.tolist())
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    (expected,) = rerun_tables(alone, 1, np.random.default_rng(0))
    first = np.searchsorted(FIRST, NETWORKS[WITH_PATH])
    np.testing.assert_array_equal(rerun.tested, expected.tested[first])
    assert np.isclose(rerun.tested, table.tested).mean() < 0.01


def test_reruns_keep_the_own_runs_of_a_signal(complete):
    signal = open_table("nb201")
    table = search_table(complete, "cifar10-valid", signal=signal)
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    shown = rerun.fidelities[0].accuracy
    pair = np.searchsorted(WITH_PATH, [TRAINED, EQUAL])
    assert not np.array_equal(*shown[pair], equal_nan=True)
    np.testing.assert_array_equal(*rerun.tested[pair])


def test_rebench_answers_for_all_cells_of_a_run(run):
    api = ReBench(retrained=f"{run}@fixed")
    assert api.evaluated_indexes == set(WITH_PATH.tolist())
    told = [api.get_more_info(cell, DATASET, hp="2") for cell in (TRAINED, EQUAL)]
    assert told[0] == told[1]
    curves = [api.get_more_info(cell, DATASET, iepoch=0, hp="2") for cell in (TRAINED, EQUAL)]
    assert curves[0] == curves[1]
    assert curves[0]["valtest-accuracy"] == 20.0
    costs = [api.get_cost_info(cell, DATASET, hp="2") for cell in (TRAINED, EQUAL)]
    assert costs[0]["params"] != costs[1]["params"]


def test_an_export_contains_all_cells_of_a_run(run, tmp_path, capsys):
    out = tmp_path / "made"
    words = ["--out", str(out), "--epochs", "2", "--for-search", "--json"]
    words += ["--dataset-as", f"{DATASET}=cifar10"]
    assert main(["export", "syne-tune", f"{run}@fixed", *words]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"]) == (len(WITH_PATH), SPACE_SIZE - len(WITH_PATH))


def test_two_recipes_are_searched_on_all_cells(run, capsys):
    words = ["search", "compare", f"{run}@fixed", f"{run}@topology", "--algorithm", "random"]
    words += ["--algorithm", "local", "--repeats", "5", "--evaluations", "20", "--reruns", "0"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert "15,284 cells, 9,808 of them with the accuracy of an equal cell" in " ".join(
        (told.out + told.err).split()
    )


def test_a_query_shows_the_equal_cell_and_says_so(run, capsys):
    shown = []
    for cell in (TRAINED, EQUAL):
        assert main(["query", str(run), str(cell), "--json"]) == 0
        told = capsys.readouterr()
        shown.append(json.loads(told.out))
    assert shown[0] == shown[1]
    assert f"cell {EQUAL} is the same network as cell {TRAINED}; the results are" in told.err
    # In Python, the table has only the cells that were trained.
    with pytest.raises(MissingDataError, match=f"cell {TRAINED} is the same network"):
        open_table(f"{run}@fixed").accuracy(EQUAL)
