"""A small table with a data set of its own, `mini`, for the programs that know the benchmark."""

from __future__ import annotations

import json
import pickle
import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
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
from rebench.tables import Table, open_table

OWN = "cifar10-jpeg16"
CELL = 102
RENAMED = f"mini ({OWN} is called cifar10)"


@pytest.fixture(scope="module")
def mini() -> Table:
    """Three of the table's 60 cells, with their curves."""
    table = open_table("mini@topology")
    rows = table.frame()
    return table.with_rows(rows[rows["index"].isin([CELL, 1062, 8420])], "mini")


@pytest.fixture(scope="module")
def tests(mini: Table) -> list[float]:
    """Test accuracies of one cell, by seed."""
    return [mini.accuracy(CELL, seed=seed) for seed in (777, 888, 999)]


@pytest.fixture(scope="module")
def completed(mini: Table) -> Table:
    return for_search(renamed(mini, {OWN: "cifar10"}))


@pytest.mark.parametrize(
    ("names", "dataset", "filename"), [(None, OWN, "mini"), ({OWN: "cifar10"}, "cifar10", RENAMED)]
)
def test_search_script_trains_the_cells_of_the_table(mini, tests, names, dataset, filename):
    api = ReBench(retrained=mini, for_search=True, dataset_as=names)
    assert api.filename == (
        f"{filename} (validation of {dataset} is ori-test; validation times are 0; "
        "12 epochs are 5; 200 epochs are 5)"
    )
    seconds = mini.group(split="train").by_seed("seconds", CELL)
    accuracy, latency, paid, used = api.simulate_train_eval(str(Cell.from_index(CELL)), dataset)
    assert accuracy in tests
    assert (paid, used) == (seconds[777], seconds[777])
    assert latency is None
    assert f"arch-index={CELL}" in api.query_info_str_by_arch(CELL, "200")
    again = create("mini@topology", verbose=False, for_search=True, dataset_as=names)
    asked = {"index": CELL, "dataset": dataset, "is_random": 888}
    assert again.get_more_info(**asked) == api.get_more_info(**asked)


def test_cell_that_the_table_lacks_is_named_with_the_number_of_cells(mini):
    api = ReBench(retrained=mini, for_search=True)
    with pytest.raises(ValueError, match=r"Did not find 1 .* has 3 of 15625 cells.*search run"):
        api.simulate_train_eval(1, OWN)
    with pytest.raises(ValueError, match=f"Invalid dataset name : digits vs .*'{OWN}'"):
        api.simulate_train_eval(CELL, "digits")
    with pytest.raises(KeyError, match=r"no valid-per-time of .*for_search=True"):
        ReBench(retrained=mini).simulate_train_eval(CELL, OWN, hp="5")


def test_renamed_table_keeps_rows_and_curves(mini):
    other = renamed(mini, {OWN: "cifar100"})
    assert {key.dataset for key in other.keys} == {"cifar100"}
    pd.testing.assert_frame_equal(other.frame().drop(columns="dataset"),
                                  mini.frame().drop(columns="dataset"))  # fmt: skip
    pd.testing.assert_frame_equal(other.curve(CELL), mini.curve(CELL))
    key = mini.usual_key()
    both = [t.along(key._replace(dataset=d), [2, 5]) for t, d in ((mini, OWN), (other, "cifar100"))]
    np.testing.assert_array_equal(*both)


def test_a_name_that_cannot_be_given_is_refused(mini):
    with pytest.raises(UnknownNameError, match=f"valid: {OWN}"):
        renamed(mini, {"cifar10": "cifar100"})
    rows = mini.frame()
    both = Table.from_frame(pd.concat([rows, rows.assign(dataset="digits")]), recipe="topology")
    with pytest.raises(InputError, match="two data sets would have one name: digits, digits"):
        renamed(both, {OWN: "digits"})
    untimed = Table.from_frame(rows[rows["split"] == "ori-test"], recipe="topology")
    with pytest.raises(MissingDataError, match=f"training times of {OWN} are not known"):
        for_search(untimed)


@pytest.mark.parametrize("one_file", [False, True])
def test_nats_bench_trains_the_cells_of_the_table(completed, tests, one_file, tmp_path):
    made = export_nats(Choice(retrained=completed), tmp_path / "o.pickle.pbz2", one_file=one_file)
    api = nats_create(str(made.path), "tss", fast_mode=not one_file, verbose=False)
    for epochs in ("12", "200"):
        random.seed(1)
        told = api.simulate_train_eval(CELL, "cifar10", hp=epochs)
        random.seed(1)
        ours = ReBench(retrained=completed).simulate_train_eval(CELL, "cifar10", hp=epochs)
        assert told[0] == ours[0]
        assert told[2] == pytest.approx(ours[2])
    info = api.get_more_info(CELL, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == pytest.approx(np.mean(tests))


def test_nas_201_api_opens_the_longest_training_as_both_of_its_trainings(
    mini, completed, tests, tmp_path
):
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    with pytest.raises(InputError, match=r"tables hold 5: nothing is written. --for-search"):
        export_pth(Choice(retrained=mini), tmp_path / "refused.pth")
    made = export_pth(Choice(retrained=completed), tmp_path / "mini.pth")
    assert "trainings of 5 epochs are omitted" in (tmp_path / "mini.pth.about.json").read_text()
    api = nas_201_api.NASBench201API(str(made.path), verbose=False)
    assert len(api.evaluated_indexes) == 3
    for epochs in ("12", "200"):
        info = api.get_more_info(CELL, "cifar10", None, epochs, is_random=False)
        assert info["test-accuracy"] == pytest.approx(np.mean(tests))


def test_syne_tune_opens_the_curves_as_a_task_of_that_name(mini, tests, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports warn
        tabular = pytest.importorskip(
            "syne_tune.blackbox_repository.blackbox_tabular", reason="syne-tune is not installed"
        )
        made = export_syne_tune(Choice(retrained=mini), tmp_path / "mini")
        (box,) = tabular.deserialize(str(made.path)).values()
    assert box.fidelity_values.tolist() == [1, 2, 3, 4, 5]
    settings = box.hyperparameters.to_dict("records")
    assert len(settings) == 3
    place = mini.group().index.tolist().index(CELL)
    curve = mini.curve(CELL)["accuracy", 888]
    for epoch in (1, 5):
        answer = box.objective_function(settings[place], {"hp_epoch": epoch}, seed=1)
        assert answer["metric_valid_error"] == pytest.approx(1 - curve[epoch] / 100, abs=1e-6)
    assert answer["metric_test_error"] == pytest.approx(1 - tests[1] / 100, abs=1e-6)


def test_naslibs_file_holds_the_curves_under_a_data_set_that_it_knows(mini, tests, tmp_path):
    with pytest.raises(InputError, match=f"--dataset-as {OWN}=cifar10-valid"):
        export_naslib(Choice(retrained=mini), tmp_path / "refused")
    named = renamed(mini, {OWN: "cifar10-valid"})
    made = export_naslib(Choice(retrained=named), tmp_path / "mini")
    data = pickle.loads((made.path / "nb201_cifar10_full_training.pickle").read_bytes())
    assert len(data) == 3
    found = data[str(Cell.from_index(CELL))]["cifar10-valid"]
    assert found["eval_acc1es"] == pytest.approx(mini.curve(CELL)["accuracy"].mean(axis=1).tolist())
    assert found["eval_acc1es"][-1] == pytest.approx(np.mean(tests))
    assert found["cost_info"]["train_time"] == mini.cost(CELL).train_seconds


def test_export_command_gives_the_data_set_another_name(tmp_path, capsys):
    out = str(tmp_path / "out")
    command = ["export", "syne-tune", "mini@topology", "--out", out, "--for-search"]
    assert main([*command, "--dataset-as", OWN]) == 2
    assert "takes OURS=THEIRS" in capsys.readouterr().err
    assert main([*command, "--dataset-as", f"{OWN}=cifar10", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["cells"], row["missing"]) == (60, 15565)
    assert RENAMED in Path(f"{row['out']}.about.json").read_text()
