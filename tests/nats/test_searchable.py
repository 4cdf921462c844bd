"""Tables with 200 epochs only, or test accuracy only, under the benchmark's own search scripts."""

from __future__ import annotations

import json
import math
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from nats_bench import create as nats_create

from cells import Cell
from rebench.cli import main
from rebench.errors import MissingDataError
from rebench.nats import ReBench
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats, export_pth
from rebench.nats.naslib import export_naslib
from rebench.nats.searchable import for_search
from rebench.nats.synetune import export_syne_tune
from rebench.tables import Table, open_table, write_table

CELLS = [0, 5, 11]
SUBSTITUTES = (
    "validation of cifar10 is ori-test; training times of nb201; validation times are 0; "
    "12 epochs are 200"
)
DATASETS = ("cifar10", "cifar100", "ImageNet16-120")


@pytest.fixture(scope="module")
def published() -> Table:
    """Some cells of `nb201`: validation by run, times, means of tests, 200 epochs."""
    rows = open_table("nb201").frame()
    return Table.from_frame(rows[rows["index"].isin(CELLS)], name="nb201", origin="published")


@pytest.fixture(scope="module")
def tested() -> Table:
    """A table of one test accuracy a cell, of a run whose seed is unknown."""
    rows = {
        "index": CELLS, "dataset": "cifar10", "split": "ori-test", "epochs": 200, "seed": -2,
        "accuracy": [80.0, 85.5, 91.25], "recipe": "analog",
    }  # fmt: skip
    return Table.from_frame(pd.DataFrame(rows), name="theirs")


def random_search(api: Any, dataset: str, seconds: float) -> list[tuple[str, float, float]]:
    """Call what the authors' script of random search calls, in its order."""
    random.seed(3)
    api.reset_time()
    told: list[tuple[str, float, float]] = []
    while not told or told[-1][2] < seconds:
        arch = str(Cell.from_index(random.choice(CELLS)))
        accuracy, _, _, total = api.simulate_train_eval(arch, dataset, hp="12")
        told.append((arch, accuracy, total))
    best, *_ = max(told, key=lambda one: one[1])
    assert api.query_index_by_arch(best) in CELLS
    assert best in api.query_info_str_by_arch(best, "200")
    return told


@pytest.mark.parametrize("dataset", DATASETS)
def test_search_of_the_published_table_sees_its_validation_runs_and_pays_their_time(
    published: Table, dataset: str
):
    trained = "cifar10-valid" if dataset == "cifar10" else dataset
    before = 0.0
    for arch, accuracy, total in random_search(ReBench(published, for_search=True), dataset, 2e4):
        index = Cell.parse(arch).index
        assert accuracy in published.seeds(index, trained, "x-valid").values()
        paid = published.group(trained, "train").by_seed("seconds", index).values()
        assert any(math.isclose(total - before, seconds, rel_tol=1e-6) for seconds in paid)
        before = total


def test_search_of_test_accuracies_sees_these_and_pays_the_published_time(
    published: Table, tested: Table
):
    api = ReBench(tested, for_search=True)
    assert api.filename == f"theirs ({SUBSTITUTES})"
    before = 0.0
    for arch, accuracy, total in random_search(api, "cifar10", 2e4):
        assert accuracy == tested.accuracy(arch)
        paid = published.group("cifar10-valid", "train").mean("seconds")[Cell.parse(arch).index]
        assert total - before == pytest.approx(paid)
        before = total
    info = api.get_more_info(11, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == 91.25


def test_a_field_that_no_table_has_is_named(published: Table, tested: Table):
    info = ReBench(published).get_more_info(5, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == published.accuracy(5, "cifar10", "ori-test")
    assert "train-accuracy" not in info
    with pytest.raises(MissingDataError, match="nb201 has no train-accuracy of cifar10 with hp"):
        info["train-accuracy"]
    with pytest.raises(KeyError, match=r"hp '12'; there are .*for_search=True\) takes other"):
        ReBench(published).simulate_train_eval(5, "cifar10")
    with pytest.raises(KeyError, match="'cifar10-valid' with hp '200'"):
        ReBench(tested).simulate_train_eval(5, "cifar10", hp="200")
    rows = published.frame(dataset="cifar100", split="x-valid").drop(
        columns=["seconds", "epoch_seconds"]
    )
    with pytest.raises(MissingDataError, match="no train-all-time of cifar100"):
        ReBench(Table.from_frame(rows.assign(split="x-valid"))).simulate_train_eval(
            5, "cifar100", hp="200"
        )


def test_means_over_seeds_answer_for_the_mean_alone(published: Table):
    api = ReBench(published)
    expected = published.accuracy(5, "cifar100", "x-test")
    info = api.get_more_info(5, "cifar100", hp="200", is_random=False)
    assert (info["test-accuracy"], info["test-all-time"]) == (expected, None)
    assert "test-accuracy" not in api.get_more_info(5, "cifar100", hp="200")
    best = published.best("cifar100", "x-test", 200)
    assert api.find_best("cifar100", "x-test", hp="200") == (best.index[0], best["mean"].iloc[0])


def test_a_complete_table_is_left_as_it_is():
    complete = Table.from_frame(synthetic_frame(0, cells=CELLS))
    assert for_search(complete) is complete
    frame = synthetic_frame(0, cells=CELLS, datasets=["cifar10"], epochs=[200])
    trained = Table.from_frame(frame[frame["split"] == "train"])
    with pytest.raises(MissingDataError, match=r"no accuracy .* it has cifar10, train, 200 epochs"):
        for_search(trained)


@pytest.mark.parametrize("one_file", [False, True])
def test_nats_bench_searches_the_exports(published, tested, one_file, tmp_path):
    for name, table in (("published", published), ("tested", tested)):
        choice = Choice(published=for_search(table))
        out = tmp_path / f"{name}.pickle.pbz2"
        made = export_nats(choice, out, one_file=one_file)
        api = nats_create(str(made.path), "tss", fast_mode=not one_file, verbose=False)
        for dataset in DATASETS if table is published else DATASETS[:1]:
            told = random_search(api, dataset, 2e4)
            ours = random_search(ReBench(table, for_search=True), dataset, 2e4)
            assert [one[:2] for one in told] == [one[:2] for one in ours]
            # The package adds the times of the epochs up.
            assert [one[2] for one in told] == pytest.approx([one[2] for one in ours])
        about = json.loads((tmp_path / f"{out.name}.about.json").read_text())
        assert about["tables"][0]["name"].endswith("12 epochs are 200)")


def test_what_exports_lack_is_nan_to_nats_bench(published: Table, tmp_path: Path):
    made = export_nats(Choice(published=published), tmp_path / "out")
    api = nats_create(str(made.path), "tss", fast_mode=True, verbose=False)
    info = api.get_more_info(5, "cifar100", hp="200", is_random=False)
    assert info["valid-accuracy"] == published.accuracy(5, "cifar100", "x-valid")
    assert math.isnan(info["test-accuracy"])
    assert math.isnan(info["train-accuracy"])
    assert "top1 = nan%" in api.query_info_str_by_arch(5, "200")


def test_nas_201_api_opens_both(published: Table, tested: Table, tmp_path: Path):
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    for table in (published, tested):
        made = export_pth(Choice(published=table), tmp_path / f"{table.name}.pth")
        api = nas_201_api.NASBench201API(str(made.path), verbose=False)
        info = api.get_more_info(11, "cifar10", None, "200", is_random=False)
        assert info["test-accuracy"] == table.accuracy(11, "cifar10", "ori-test")


def test_syne_tune_opens_both(published: Table, tested: Table, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports warn
        tabular = pytest.importorskip(
            "syne_tune.blackbox_repository.blackbox_tabular", reason="syne-tune is not installed"
        )
        boxes = {}
        for table in (published, tested):
            choice = Choice(published=for_search(table))
            made = export_syne_tune(choice, tmp_path / table.name, impute=True)
            boxes[table.name] = tabular.deserialize(str(made.path))
    assert {name: list(box) for name, box in boxes.items()} == {
        "nb201": list(DATASETS), "theirs": ["cifar10"],
    }  # fmt: skip
    ops = [part.split("~")[0] for part in str(Cell.from_index(11)).split("|") if "~" in part]
    setting = {f"hp_x{edge}": op for edge, op in enumerate(ops)}
    answer = boxes["theirs"]["cifar10"].objective_function(setting, {"hp_epoch": 200}, seed=0)
    assert answer["metric_valid_error"] == pytest.approx(1 - 0.9125)
    seconds = published.group("cifar10-valid", "train").mean("seconds")[11]
    assert answer["metric_elapsed_time"] == pytest.approx(seconds, rel=1e-5)
    answers = [
        boxes["nb201"]["cifar100"].objective_function(setting, {"hp_epoch": 200}, seed=seed)
        for seed in range(boxes["nb201"]["cifar100"].num_seeds)
    ]
    runs = published.seeds(11, "cifar100", "x-valid").values()
    errors = [float(answer["metric_valid_error"]) for answer in answers]
    for accuracy in runs:
        assert min(errors, key=lambda error: abs(error - (1 - accuracy / 100))) == pytest.approx(
            1 - accuracy / 100, abs=1e-6
        )
    assert all(np.isfinite(answer["metric_elapsed_time"]) for answer in answers)


def test_naslibs_files_hold_both(published: Table, tested: Table, tmp_path: Path):
    arch = str(Cell.from_index(11))
    for table, dataset, name in (
        (published, "cifar100", "cifar100"), (tested, "cifar10-valid", "cifar10"),
    ):  # fmt: skip
        made = export_naslib(Choice(published=for_search(table)), tmp_path / table.name)
        data = pickle.loads((made.path / f"nb201_{name}_full_training.pickle").read_bytes())
        found = data[arch][dataset]
        expected = 91.25 if table is tested else published.accuracy(11, "cifar100", "x-valid")
        assert found["eval_acc1es"][-1] == expected
        assert found["cost_info"]["train_time"] > 0
    with pytest.raises(MissingDataError, match="--for-search makes cifar10-valid"):
        export_naslib(Choice(published=tested), tmp_path / "none")


def test_export_command_completes_the_table(tested: Table, tmp_path: Path, capsys):
    write_table(tmp_path / "theirs.parquet", tested.frame(), name="theirs", origin="retrained")
    out = tmp_path / "naslib"
    command = ["export", "naslib", str(tmp_path / "theirs.parquet"), "--out", str(out)]
    assert main(command) != 0
    assert main([*command, "--for-search"]) == 0
    assert SUBSTITUTES in (tmp_path / "naslib.about.json").read_text()
    assert capsys.readouterr()
