"""Tables with one cell of each network answer for all cells; other tables do not."""

import itertools
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from made_records import make_record, make_run, write_records
from nats_bench import create as nats_create
from simulated_tables import synthetic_table

from cells import SPACE_SIZE, Cell
from cells.classes import functional_classes
from cells.paths import depth_array
from cells.table import space_ops
from rebench.cli import main
from rebench.errors import MissingDataError
from rebench.nats import ReBench
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats, export_pth
from rebench.nats.naslib import export_naslib
from rebench.nats.searchable import renamed, with_chance
from rebench.runs import Curve, RecipeSpec, Skeleton
from rebench.search import search_table
from rebench.search.seeds import seed_tables
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


def test_equal_cells_without_a_run_of_their_own_are_no_second_seed(complete, space):
    table = search_table(complete, "cifar10-valid")
    assert [len(each.space) for each in seed_tables(table)] == [len(space.with_path)] * 3
    assert seed_tables(replace(table, seeds=())) == []


def test_rebench_answers_for_all_cells_of_a_run(run, space):
    api = ReBench(retrained=f"{run}@fixed")
    assert api.evaluated_indexes == set(range(SPACE_SIZE))
    chance = np.setdiff1d(np.arange(SPACE_SIZE), space.with_path).tolist()
    for cell in (chance[0], chance[-1]):
        for hp, epoch in (("2", 0), ("2", 1), ("12", None), ("200", None)):
            info = api.get_more_info(cell, DATASET, iepoch=epoch, hp=hp)
            assert info["valid-accuracy"] == info["valtest-accuracy"] == 10.0
            assert info["valid-loss"] == pytest.approx(np.log(10))
    told = [api.get_more_info(cell, DATASET, hp="2") for cell in (space.trained, space.equal)]
    assert told[0] == told[1]
    curves = [
        api.get_more_info(cell, DATASET, iepoch=0, hp="2") for cell in (space.trained, space.equal)
    ]
    assert curves[0] == curves[1]
    assert curves[0]["valtest-accuracy"] == 20.0
    costs = [api.get_cost_info(cell, DATASET, hp="2") for cell in (space.trained, space.equal)]
    assert costs[0]["params"] != costs[1]["params"]


@pytest.fixture(scope="module")
def chosen(run, space) -> Choice:
    """The exports of a run under a name of the benchmark; only 40 cells, 20 without a path."""
    choice = Choice(retrained=renamed(open_table(f"{run}@topology"), {DATASET: "cifar10"}))
    assert choice.cells.tolist() == list(range(SPACE_SIZE))
    chance = np.setdiff1d(np.arange(SPACE_SIZE), space.with_path)
    choice.__dict__["cells"] = np.sort([*chance[::17][:20], *space.with_path[::700][:20]])
    return choice


def test_search_scripts_draw_from_all_cells(run):
    """The calls of NATS-Bench's scripts: random search, REA and REINFORCE differ in the draws."""
    api = ReBench(retrained=f"{run}@topology", dataset_as={DATASET: "cifar10"})
    draw = np.random.default_rng(0)
    for index in draw.integers(0, SPACE_SIZE, 300).tolist():
        accuracy, _, seconds, _ = api.simulate_train_eval(str(Cell.from_index(index)), "cifar10")
        assert accuracy >= 10
        assert seconds > 0
        for dataset, metric in (("cifar10", "test"), ("cifar10-valid", "valid")):
            info = api.get_more_info(index, dataset, hp="200", is_random=False)
            assert info[f"{metric}-accuracy"] == accuracy


@pytest.mark.parametrize("one_file", [False, True])
def test_nats_bench_reads_cells_without_a_path(chosen, one_file, space, tmp_path):
    made = export_nats(chosen, tmp_path / "out.pickle.pbz2", one_file=one_file)
    api = nats_create(str(made.path), "tss", fast_mode=not one_file, verbose=False)
    for index in chosen.cells.tolist():
        accuracy, *_ = api.simulate_train_eval(str(Cell.from_index(index)), "cifar10")
        assert (accuracy == 10) == (index not in space.with_path)
        last = api.get_more_info(index, "cifar10", iepoch=1, hp="2", is_random=False)
        assert last["test-accuracy"] == accuracy
        first = api.get_more_info(index, "cifar10-valid", iepoch=0, hp="2", is_random=False)
        assert first["valid-accuracy"] == (10 if accuracy == 10 else 20)


def test_nas_201_api_reads_cells_without_a_path(chosen, space, tmp_path):
    """naszilla and NNI read this file."""
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    made = export_pth(chosen, tmp_path / "out.pth")
    api = nas_201_api.NASBench201API(str(made.path), verbose=False)
    for index in chosen.cells.tolist():
        info = api.get_more_info(index, "cifar10-valid", None, "200", is_random=False)
        assert (info["valid-accuracy"] == 10) == (index not in space.with_path)
        assert info["train-all-time"] > 0


def test_naslib_reads_cells_without_a_path(run, space, tmp_path):
    choice = Choice(retrained=renamed(open_table(f"{run}@topology"), {DATASET: "cifar10-valid"}))
    made = export_naslib(choice, tmp_path / "out")
    data = pickle.loads((made.path / "nb201_cifar10_full_training.pickle").read_bytes())
    assert len(data) == SPACE_SIZE
    chance = np.setdiff1d(np.arange(SPACE_SIZE), space.with_path)
    for index in chance[::30].tolist():
        held = data[str(Cell.from_index(index))]["cifar10-valid"]
        assert held["eval_acc1es"] == held["train_acc1es"] == [10.0, 10.0]
        assert held["cost_info"]["train_time"] > 0


def test_chance_is_the_published_accuracy_of_cells_without_a_path(space):
    """`nb201` has these cells; a copy without them gets the same accuracies."""
    published = open_table("nb201")
    rows = published.frame()
    rows = rows[rows["index"].isin(space.with_path)]
    told, cells = with_chance(Table.from_frame(rows, name="part"))
    assert len(cells) == 341
    for key in published.keys:
        found, expected = (t.group(*key).mean("accuracy")[cells] for t in (told, published))
        np.testing.assert_allclose(found, expected if key.split != "train" else found, atol=1e-4)
        assert np.isfinite(found).all()


def test_a_table_that_lacks_other_cells_gets_no_chance(space):
    table = synthetic_table(0, cells=space.with_path[1:], datasets=["cifar10"], epochs=[200])
    assert with_chance(table)[0] is table


def test_an_export_contains_all_cells_of_a_run(run, tmp_path, capsys, space):
    out, about = tmp_path / "made", tmp_path / "made.about.json"
    words = ["--out", str(out), "--epochs", "2", "--json"]
    words += ["--dataset-as", f"{DATASET}=cifar10"]
    assert main(["export", "syne-tune", f"{run}@fixed", *words]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"]) == (SPACE_SIZE, 0)
    (note,) = (note for note in json.loads(about.read_text())["notes"] if "replaced" in note)
    assert "341 cells without a path have the accuracy of chance" in note
    values = np.load(out / "objectives_evaluations.npy")
    chance = np.setdiff1d(np.arange(SPACE_SIZE), space.with_path)
    # Errors of validation, training and test after both epochs.
    np.testing.assert_allclose(values[0, chance, :, :, :3], 0.9, atol=1e-6)


def test_two_recipes_are_searched_on_all_cells(run, capsys):
    words = ["search", "compare", f"{run}@fixed", f"{run}@topology", "--algorithm", "random"]
    words += ["--algorithm", "local", "--repeats", "5", "--evaluations", "20", "--details"]
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
