"""Tables with one cell of each network answer for all cells; other tables do not."""

import itertools
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
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
from rebench.tables.whole_space import trained_cell_of, trained_cells, whole_space

DATASET = "cifar10-jpeg16"
KEY = (DATASET, "ori-test", 2)


class Cells(NamedTuple):
    """Cells of the benchmark, computed when a test needs them and not when tests are collected."""

    networks: np.ndarray  # of each cell, the first cell with the same network
    with_path: np.ndarray  # from input to output
    first: np.ndarray  # one cell of each network with a path
    trained: int
    equal: int  # a cell equal to `trained`, with other parameters


@pytest.fixture(scope="module")
def space() -> Cells:
    networks = functional_classes("strict")
    with_path = np.flatnonzero(depth_array(space_ops()).sum(axis=1) > 0)
    params = open_table("nb201").group("cifar10", "ori-test", 200).network_cost("params_m")
    other = np.flatnonzero((np.arange(SPACE_SIZE) != networks) & (params != params[networks]))
    equal = int(np.intersect1d(other, with_path)[0])
    first = np.unique(networks[with_path])
    return Cells(networks, with_path, first, int(networks[equal]), equal)


@pytest.fixture(scope="module")
def complete(space) -> Table:
    """A table of one cell of each network with a path."""
    return synthetic_table(0, cells=space.first, datasets=["cifar10-valid"], epochs=[200])


@pytest.fixture(scope="module")
def run(space, tmp_path_factory) -> Path:
    """A run of one cell of each network with a path, two recipes; made without training."""
    rng = np.random.default_rng(0)
    trial = {"dataset": DATASET, "skeleton": Skeleton(channels=8, cells_per_stage=1)}
    records = []
    for cell, recipe in itertools.product(space.first.tolist(), ("fixed", "topology")):
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


def test_the_same_cell_answers_or_else_the_first_equal_one(space):
    answers = trained_cell_of([space.trained, space.equal])
    assert answers[space.trained] == space.trained
    assert answers[space.equal] == space.equal
    members = np.flatnonzero(space.networks == space.trained)
    others = np.setdiff1d(members, [space.trained, space.equal])
    assert (answers[others] == min(space.trained, space.equal)).all()
    assert (np.delete(answers, members) == -1).all()


def test_trained_cells_are_those_of_all_data_sets_together():
    parts = [synthetic_frame(0, cells=[at], datasets=[name])
             for at, name in ((3, "cifar10"), (5, "cifar100"))]  # fmt: skip
    assert trained_cells(Table.from_frame(pd.concat(parts))).tolist() == [3, 5]


def test_a_table_of_all_networks_answers_for_all_cells(complete, space):
    whole = whole_space(complete)
    group, own = whole.group(), complete.group()
    np.testing.assert_array_equal(group.index, space.with_path)
    for name in ("accuracy", "loss"):
        trained = own.column(name)[space.networks[space.with_path]]
        np.testing.assert_array_equal(group.column(name)[space.with_path], trained)
    # The parameters are those of each cell, not of the cell that was trained.
    published = open_table("nb201").group("cifar10-valid", "x-valid", 200)
    for name in ("params_m", "mflops"):
        np.testing.assert_allclose(
            whole.group().network_cost(name)[space.with_path],
            published.network_cost(name)[space.with_path],
            rtol=1e-5,
        )


@pytest.mark.parametrize("lacking", ["one", "most"])
def test_a_table_that_lacks_a_network_is_left_as_it_is(lacking, space):
    cells = space.first[1:] if lacking == "one" else np.arange(60)
    table = synthetic_table(0, cells=cells, datasets=["cifar10"], epochs=[200])
    assert whole_space(table) is table
    assert whole_space(open_table("nb201")).group().index.size == SPACE_SIZE


def test_a_search_sees_all_cells_and_says_so(complete, space):
    table = search_table(complete, "cifar10-valid")
    np.testing.assert_array_equal(table.space.indices, space.with_path)
    assert table.protocol.startswith(
        "cifar10-valid, 15,284 cells, 9,808 of them with the accuracy of an equal cell;"
    )
    np.testing.assert_array_equal(table.trained, space.networks[space.with_path])
    only = table.restrict([space.equal])
    assert only.trained.tolist() == [space.trained]


def test_reruns_repeat_the_runs_of_an_equal_cell(complete, space):
    """The noise of a copy is that of a table of the trained cells alone."""
    table = search_table(complete, "cifar10-valid")
    alone = table.restrict(space.first.tolist())
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    (expected,) = rerun_tables(alone, 1, np.random.default_rng(0))
    first = np.searchsorted(space.first, space.networks[space.with_path])
    np.testing.assert_array_equal(rerun.tested, expected.tested[first])
    assert np.isclose(rerun.tested, table.tested).mean() < 0.01


def test_reruns_keep_the_own_runs_of_a_signal(complete, space):
    signal = open_table("nb201")
    table = search_table(complete, "cifar10-valid", signal=signal)
    (rerun,) = rerun_tables(table, 1, np.random.default_rng(0))
    shown = rerun.fidelities[0].accuracy
    pair = np.searchsorted(space.with_path, [space.trained, space.equal])
    assert not np.array_equal(*shown[pair], equal_nan=True)
    np.testing.assert_array_equal(*rerun.tested[pair])


def test_rebench_answers_for_all_cells_of_a_run(run, space):
    api = ReBench(retrained=f"{run}@fixed")
    assert api.evaluated_indexes == set(space.with_path.tolist())
    told = [api.get_more_info(cell, DATASET, hp="2") for cell in (space.trained, space.equal)]
    assert told[0] == told[1]
    curves = [
        api.get_more_info(cell, DATASET, iepoch=0, hp="2") for cell in (space.trained, space.equal)
    ]
    assert curves[0] == curves[1]
    assert curves[0]["valtest-accuracy"] == 20.0
    costs = [api.get_cost_info(cell, DATASET, hp="2") for cell in (space.trained, space.equal)]
    assert costs[0]["params"] != costs[1]["params"]


def test_an_export_contains_all_cells_of_a_run(run, tmp_path, capsys, space):
    out = tmp_path / "made"
    words = ["--out", str(out), "--epochs", "2", "--for-search", "--json"]
    words += ["--dataset-as", f"{DATASET}=cifar10"]
    assert main(["export", "syne-tune", f"{run}@fixed", *words]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"]) == (
        len(space.with_path),
        SPACE_SIZE - len(space.with_path),
    )


def test_two_recipes_are_searched_on_all_cells(run, capsys):
    words = ["search", "compare", f"{run}@fixed", f"{run}@topology", "--algorithm", "random"]
    words += ["--algorithm", "local", "--repeats", "5", "--evaluations", "20", "--reruns", "0"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert "15,284 cells, 9,808 of them with the accuracy of an equal cell" in " ".join(
        (told.out + told.err).split()
    )


def test_a_query_shows_the_equal_cell_and_says_so(run, capsys, space):
    shown = []
    for cell in (space.trained, space.equal):
        assert main(["query", str(run), str(cell), "--json"]) == 0
        told = capsys.readouterr()
        shown.append(json.loads(told.out))
    assert shown[0] == shown[1]
    assert (
        f"cell {space.equal} is the same network as cell {space.trained}; the results are"
        in told.err
    )
    # In Python, the table has only the cells that were trained.
    with pytest.raises(MissingDataError, match=f"cell {space.trained} is the same network"):
        open_table(f"{run}@fixed").accuracy(space.equal)
