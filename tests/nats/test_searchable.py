"""Tables that lack values of which the benchmark's programs ask: 12 epochs, validation, CIFAR."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from nats_bench import create as nats_create

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.nats import ReBench, create
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats, export_pth
from rebench.nats.naslib import export_naslib
from rebench.nats.searchable import for_search, renamed
from rebench.nats.synetune import export_syne_tune
from rebench.tables import Table, open_table, write_table

CELLS = [0, 5, 11]
SUBSTITUTES = (
    "validation of cifar10 is ori-test; training times of nb201; validation times are 0; "
    "12 epochs are 200"
)
DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
OWN = "cifar10-jpeg16"
RENAMED = f"({OWN} is called cifar10)"


@pytest.fixture(scope="module")
def published() -> Table:
    """Some cells of `nb201`: validation by run, times, means of tests, 200 epochs."""
    rows = open_table("nb201").frame()
    return Table.from_frame(rows[rows["index"].isin(CELLS)], name="nb201", origin="published")


@pytest.fixture(scope="module")
def tested() -> Table:
    """A table with one test accuracy of each cell; the seed is unknown."""
    rows = {
        "index": CELLS, "dataset": "cifar10", "split": "ori-test", "epochs": 200, "seed": -2,
        "accuracy": [80.0, 85.5, 91.25], "recipe": "analog",
    }  # fmt: skip
    return Table.from_frame(pd.DataFrame(rows), name="theirs")


@pytest.fixture(scope="module")
def mini() -> Table:
    """Three cells of `mini`, with curves of 5 epochs, of a data set that no program knows."""
    table = open_table("mini@topology")
    rows = table.frame()
    return table.with_rows(rows[rows["index"].isin([102, 1062, 8420])], "mini")


@pytest.fixture(scope="module")
def completed(published: Table, tested: Table, mini: Table) -> dict[str, Table]:
    tables = (published, tested, renamed(mini, {OWN: "cifar10"}))
    return dict(zip(("nb201", "theirs", "mini"), map(for_search, tables), strict=True))


def random_search(
    api: Any, dataset: str, seconds: float, cells: list[int] = CELLS
) -> list[tuple[str, float, float]]:
    """Make the same calls, in the same order, as the authors' script of random search."""
    random.seed(3)
    api.reset_time()
    told: list[tuple[str, float, float]] = []
    while not told or told[-1][2] < seconds:
        arch = str(Cell.from_index(random.choice(cells)))
        accuracy, _, _, total = api.simulate_train_eval(arch, dataset, hp="12")
        told.append((arch, accuracy, total))
    best, *_ = max(told, key=lambda one: one[1])
    assert api.query_index_by_arch(best) in cells
    assert best in api.query_info_str_by_arch(best, "200")
    return told


@pytest.mark.parametrize("dataset", DATASETS)
def test_search_of_the_published_table_sees_its_validation_runs_and_pays_their_time(
    published: Table, dataset: str
):
    trained = "cifar10-valid" if dataset == "cifar10" else dataset
    before = 0.0
    for arch, accuracy, total in random_search(ReBench(published), dataset, 2e4):
        index = Cell.parse(arch).index
        assert accuracy in published.seeds(index, trained, "x-valid").values()
        paid = published.group(trained, "train").by_seed("seconds", index).values()
        assert any(math.isclose(total - before, seconds, rel_tol=1e-6) for seconds in paid)
        before = total


def test_search_of_test_accuracies_sees_these_and_pays_the_published_time(
    published: Table, tested: Table
):
    api = ReBench(tested)
    assert api.filename == f"theirs@analog ({SUBSTITUTES})"
    before = 0.0
    for arch, accuracy, total in random_search(api, "cifar10", 2e4):
        assert accuracy == tested.accuracy(arch)
        paid = published.group("cifar10-valid", "train").mean("seconds")[Cell.parse(arch).index]
        assert total - before == pytest.approx(paid)
        before = total
    info = api.get_more_info(11, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == 91.25


def test_published_time_is_in_proportion_to_the_epochs(published: Table, tested: Table):
    frame = tested.frame()
    rows = [frame.assign(epochs=20), frame.assign(epochs=5, accuracy=frame["accuracy"] - 30)]
    short = Table.from_frame(pd.concat(rows))
    seconds = published.group("cifar10-valid", "train").mean("seconds")[11]
    info = ReBench(short).get_more_info(11, "cifar10-valid", hp="20")
    assert info["train-all-time"] == pytest.approx(seconds / 10)
    assert info["train-per-time"] == pytest.approx(seconds / 200)
    # Answers for 12 and 200 epochs are those of the longest training, with its time.
    for hp in (12, 200):
        copied = ReBench(short).get_more_info(11, "cifar10-valid", hp=hp)
        assert copied["train-all-time"] == pytest.approx(seconds / 10)
        assert copied["train-per-time"] == pytest.approx(seconds / 10 / hp)
        assert copied["valid-accuracy"] == 91.25


def test_each_data_set_gets_the_epochs_that_it_lacks(tested: Table):
    """Data sets with other lengths of training do not change the longest training of a data set."""
    rows = tested.frame()
    both = [rows, rows.assign(dataset="cifar100", epochs=90)]
    found = for_search(Table.from_frame(pd.concat(both), name="theirs"))
    for told in ("12 epochs are 200", "12 epochs are 90", "200 epochs are 90"):
        assert told in found.name
    held = {(key.dataset, key.epochs) for key in found.keys if key.split == "x-valid"}
    assert held == {
        *itertools.product(["cifar10-valid"], [12, 200]),
        *itertools.product(["cifar100"], [12, 90, 200]),
    }


def test_times_do_not_replace_accuracies_of_the_training_images(published: Table):
    rows = synthetic_frame(0, cells=CELLS, datasets=["cifar100"], epochs=[200])
    untimed = rows.drop(columns=["seconds", "epoch_seconds"])
    info = ReBench(Table.from_frame(untimed)).get_more_info(5, "cifar100", hp="200", is_random=777)
    (expected,) = rows.query("index == 5 and split == 'train' and seed == 777")["accuracy"]
    assert info["train-accuracy"] == expected
    assert info["train-all-time"] == published.group("cifar100", "train").mean("seconds")[5]


def test_a_value_of_one_table_is_not_replaced_in_the_other(published: Table):
    frame = synthetic_frame(0, cells=CELLS, datasets=["cifar10"], epochs=[200])
    api = ReBench(published, Table.from_frame(frame, origin="retrained"))
    assert api.source_of(5, "cifar10", 200) == api.source_of(5, "cifar10", 12) == "retrained"
    assert api.source_of(5, "cifar10-valid", 200) == "published"
    accuracy, *_ = api.simulate_train_eval(5, "cifar10", hp="200")
    assert accuracy in published.seeds(5, "cifar10-valid", "x-valid").values()


def test_a_field_that_no_table_has_is_named(published: Table, tested: Table):
    info = ReBench(published).get_more_info(5, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == published.accuracy(5, "cifar10", "ori-test")
    assert "train-accuracy" not in info
    with pytest.raises(
        MissingDataError, match=r"nb201 \(.*\) has no train-accuracy of cifar10 with hp"
    ):
        info["train-accuracy"]
    with pytest.raises(KeyError, match=r"for dataset 'cifar100' with hp '12'; there are cifar10 "):
        ReBench(tested).simulate_train_eval(5, "cifar100")


def test_means_over_seeds_answer_for_the_mean_alone(published: Table):
    api = ReBench(published)
    expected = published.accuracy(5, "cifar100", "x-test")
    info = api.get_more_info(5, "cifar100", hp="200", is_random=False)
    assert (info["test-accuracy"], info["test-all-time"]) == (expected, None)
    assert "test-accuracy" not in api.get_more_info(5, "cifar100", hp="200")
    best = published.best("cifar100", "x-test", 200)
    assert api.find_best("cifar100", "x-test", hp="200") == (best.index[0], best["mean"].iloc[0])


@pytest.mark.parametrize("is_random", [True, False, -1])
def test_means_over_seeds_are_the_only_trial_of_a_data_set_without_runs(
    published: Table, is_random: bool | int
):
    """The package, too, answers a query for any trial with the only trial that there is."""
    info = ReBench(published).get_more_info(5, "cifar10", hp="200", is_random=is_random)
    assert info["test-accuracy"] == published.accuracy(5, "cifar10", "ori-test")
    with pytest.raises(ValueError, match=r"can not find random seed \(777\) from \[-1\]"):
        ReBench(published).get_more_info(5, "cifar10", hp="200", is_random=777)


def test_test_accuracy_of_cifar10_valid_replaces_its_validation(mini: Table):
    api = ReBench(mini, dataset_as={OWN: "cifar10-valid"})
    accuracy, *_ = api.simulate_train_eval(102, "cifar10")
    assert accuracy in mini.seeds(102).values()


def test_a_complete_table_is_left_as_it_is():
    complete = Table.from_frame(synthetic_frame(0, cells=CELLS))
    assert for_search(complete) is complete
    frame = synthetic_frame(0, cells=CELLS, datasets=["cifar10"], epochs=[200])
    trained = Table.from_frame(frame[frame["split"] == "train"])
    assert for_search(trained).name == f"{trained.name} (12 epochs are 200)"


@pytest.mark.parametrize(
    ("names", "dataset", "filename"),
    [(None, OWN, "mini@topology"), ({OWN: "cifar10"}, "cifar10", f"mini@topology {RENAMED}")],
)
def test_search_script_trains_the_cells_of_a_small_table(mini, names, dataset, filename):
    api = ReBench(retrained=mini, dataset_as=names)
    assert api.filename == (
        f"{filename} (validation of {dataset} is ori-test; validation times are 0; "
        "12 epochs are 5; 200 epochs are 5)"
    )
    seconds = mini.group(split="train").by_seed("seconds", 102)
    accuracy, latency, paid, used = api.simulate_train_eval(str(Cell.from_index(102)), dataset)
    assert accuracy in mini.seeds(102).values()
    assert (paid, used) == pytest.approx((seconds[777], seconds[777]), rel=1e-15)
    assert latency is None
    assert f"arch-index={102}" in api.query_info_str_by_arch(102, "200")
    again = create("mini@topology", verbose=False, dataset_as=names)
    asked = {"index": 102, "dataset": dataset, "is_random": 888}
    assert again.get_more_info(**asked) == api.get_more_info(**asked)


def test_printed_api_names_its_tables_with_their_recipes():
    assert "file=mini@topology (validation of " in str(ReBench("mini@topology"))
    assert "file=nb201 (validation times are 0; 12 epochs are 200))" in str(ReBench("nb201"))
    rows = synthetic_frame(0, cells=CELLS).assign(recipe="topology")
    api = ReBench("nb201", Table.from_frame(rows, name="own"))
    assert "file=own@topology and nb201 (validation times are 0))" in str(api)


def test_cell_that_the_table_lacks_is_named_with_the_number_of_cells(mini):
    api = ReBench(retrained=mini)
    with pytest.raises(
        ValueError, match=r"Did not find 1 .* has 3 of 15625 cells.*api.evaluated_indexes"
    ):
        api.simulate_train_eval(1, OWN)
    with pytest.raises(ValueError, match=f"Invalid dataset name : digits vs .*'{OWN}'"):
        api.simulate_train_eval(102, "digits")


def test_renamed_table_keeps_rows_and_curves(mini):
    other = renamed(mini, {OWN: "cifar100"})
    assert {key.dataset for key in other.keys} == {"cifar100"}
    pd.testing.assert_frame_equal(other.frame().drop(columns="dataset"),
                                  mini.frame().drop(columns="dataset"))  # fmt: skip
    pd.testing.assert_frame_equal(other.curve(102), mini.curve(102))
    key = mini.default_key()
    both = [
        t.accuracies_after(key._replace(dataset=d), [2, 5])
        for t, d in ((mini, OWN), (other, "cifar100"))
    ]
    np.testing.assert_array_equal(*both)


def test_a_name_that_cannot_be_given_is_refused(mini):
    with pytest.raises(UnknownNameError, match=f"valid: {OWN}"):
        renamed(mini, {"cifar10": "cifar100"})
    rows = mini.frame()
    both = Table.from_frame(pd.concat([rows, rows.assign(dataset="digits")]), recipe="topology")
    with pytest.raises(InputError, match="two data sets would have one name: digits, digits"):
        renamed(both, {OWN: "digits"})


def test_unknown_times_of_an_own_data_set_are_named_by_a_search(mini):
    rows = mini.frame()
    untimed = Table.from_frame(rows[rows["split"] == "ori-test"], recipe="topology")
    with pytest.raises(MissingDataError, match=f"has no valid-per-time of {OWN}|train-all-time"):
        ReBench(untimed).simulate_train_eval(102, OWN, hp="5")


@pytest.mark.parametrize("one_file", [False, True])
def test_nats_bench_searches_the_exports(completed, one_file, tmp_path):
    for name, table in completed.items():
        out = tmp_path / f"{name}.pickle.pbz2"
        made = export_nats(Choice(published=table), out, one_file=one_file)
        api = nats_create(str(made.path), "tss", fast_mode=not one_file, verbose=False)
        for dataset in DATASETS if name == "nb201" else DATASETS[:1]:
            cells = table.group("cifar10").index.tolist()
            budget = 200 if name == "mini" else 2e4
            told = random_search(api, dataset, budget, cells)
            ours = random_search(ReBench(table), dataset, budget, cells)
            assert [one[:2] for one in told] == [one[:2] for one in ours]
            # The package sums the times of epochs, so its times differ by rounding.
            assert [one[2] for one in told] == pytest.approx([one[2] for one in ours])
        about = json.loads((tmp_path / f"{out.name}.about.json").read_text())
        assert "12 epochs are " in about["tables"][0]["name"]


def test_what_exports_lack_is_nan_to_nats_bench(published: Table, tmp_path: Path):
    made = export_nats(Choice(published=published), tmp_path / "out")
    api = nats_create(str(made.path), "tss", fast_mode=True, verbose=False)
    info = api.get_more_info(5, "cifar100", hp="200", is_random=False)
    assert info["valid-accuracy"] == published.accuracy(5, "cifar100", "x-valid")
    assert math.isnan(info["test-accuracy"])
    assert math.isnan(info["train-accuracy"])
    assert "top1 = nan%" in api.query_info_str_by_arch(5, "200")


def test_nas_201_api_opens_all(published, tested, mini, completed, tmp_path):
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    # In the file of `mini`, the trainings of 12 and 200 epochs are both its longest training.
    for table, hps in ((published, [200]), (tested, [200]), (completed["mini"], [12, 200])):
        made = export_pth(Choice(published=table), tmp_path / f"{table.name}.pth")
        api = nas_201_api.NASBench201API(str(made.path), verbose=False)
        assert list(api.evaluated_indexes) == table.group("cifar10").index.tolist()
        for index in api.evaluated_indexes:
            for hp in hps:
                info = api.get_more_info(index, "cifar10", None, str(hp), is_random=False)
                expected = table.accuracy(index, "cifar10", "ori-test", hp)
                assert info["test-accuracy"] == pytest.approx(expected, rel=1e-15)
    (about,) = tmp_path.glob("mini*.about.json")
    assert "trainings of 5 epochs are omitted" in about.read_text()


def test_syne_tunes_values_are_the_substitutes_or_those_of_the_curves(
    published, completed, mini, tmp_path
):
    values, tasks, elapsed = {}, {}, {}
    for table in (completed["nb201"], completed["theirs"], mini):
        made = export_syne_tune(Choice(published=table), tmp_path / table.name)
        name = table.name.split()[0]
        # Task, cell, seed, fidelity; then the objectives, first the error of validation.
        values[name] = np.load(made.path / "objectives_evaluations.npy")
        metadata = json.loads((made.path / "metadata.json").read_text())
        tasks[name] = metadata["task_names"]
        elapsed[name] = metadata["objectives_names"].index("metric_elapsed_time")
    assert tasks == {"nb201": list(DATASETS), "theirs": ["cifar10"], "mini": [OWN]}
    answer = values["theirs"][0, CELLS.index(11), 0, -1]
    assert answer[0] == pytest.approx(1 - 0.9125)
    seconds = published.group("cifar10-valid", "train").mean("seconds")[11]
    assert answer[elapsed["theirs"]] == pytest.approx(seconds, rel=1e-5)
    errors = values["nb201"][1, CELLS.index(11), :, -1, 0]
    for accuracy in published.seeds(11, "cifar100", "x-valid").values():
        assert np.abs(errors - (1 - accuracy / 100)).min() < 1e-6
    assert np.isfinite(values["nb201"][..., -1, elapsed["nb201"]]).all()
    # Every epoch of a curve is a fidelity.
    curves = mini.curve(102)["accuracy"][[777, 888, 999]].to_numpy().T
    for metric in (0, 2):
        np.testing.assert_allclose(values["mini"][0, 0, ..., metric], 1 - curves / 100, atol=1e-6)


def test_naslibs_files_hold_all(published, tested, mini, completed, tmp_path):
    with pytest.raises(InputError, match=f"--dataset-as {OWN}=cifar10-valid"):
        export_naslib(Choice(retrained=mini), tmp_path / "none")
    named = renamed(mini, {OWN: "cifar10-valid"})
    for table, index, dataset, expected in (
        (completed["nb201"], 11, "cifar100", [published.accuracy(11, "cifar100", "x-valid")]),
        (completed["theirs"], 11, "cifar10-valid", [91.25]),
        (named, 102, "cifar10-valid", mini.curve(102)["accuracy"].mean(axis=1).tolist()),
    ):
        made = export_naslib(Choice(published=table), tmp_path / table.name)
        name = f"nb201_{dataset.removesuffix('-valid')}_full_training.pickle"
        data = pickle.loads((made.path / name).read_bytes())
        assert len(data) == 3
        found = data[str(Cell.from_index(index))][dataset]
        assert found["eval_acc1es"][-len(expected) :] == pytest.approx(expected)
        assert found["cost_info"]["train_time"] == table.cost(index, dataset).train_seconds > 0


def test_export_command_completes_and_renames_the_table(tested: Table, tmp_path: Path, capsys):
    write_table(tmp_path / "theirs.parquet", tested.frame(), name="theirs", origin="retrained")
    command = ["export", "naslib", str(tmp_path / "theirs.parquet"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    about = json.loads((tmp_path / "out.about.json").read_text())
    assert about["notes"][0] == f"replaced values: theirs ({SUBSTITUTES})"
    assert about["notes"] == capsys.readouterr().err.splitlines()
    command = ["export", "syne-tune", "mini@topology", "--out", str(tmp_path / "mini")]
    assert main([*command, "--dataset-as", OWN]) == 2
    assert "takes OURS=THEIRS" in capsys.readouterr().err
    assert main([*command, "--dataset-as", f"{OWN}=cifar10", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"]) == (60, 15565)
    assert f"mini {RENAMED}" in (tmp_path / "mini.about.json").read_text()
