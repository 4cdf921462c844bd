"""A run's results next to the published ones, and as files that the real nats_bench opens."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_records import make_record, make_run, write_records
from nats_bench import create as nats_create
from nats_folder import make_folder
from simulated_tables import synthetic_table

from rebench.cli import main
from rebench.errors import InputError, MissingDataError
from rebench.nats import ReBench
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats
from rebench.nats.ingest import ingest
from rebench.runs import Curve, Outcome, RecipeSpec, Record, Skeleton
from rebench.tables import Key, Table, open_any, open_table
from rebench.tables.cell_comparison import compare_cell
from rebench.tables.collecting import collect

EPOCHS = 3
KEY = Key("cifar10", "ori-test", 200)


def _record(cell: int, seed: int, *, split="full", recipe="nb201", channels=16, dataset="cifar10"):
    draw = np.random.default_rng([cell, seed, len(split)])
    splits = ["train", "ori-test", *(["x-valid"] if split != "full" else [])]
    curves = {
        name: Curve(accuracy=draw.uniform(20, 90, EPOCHS).tolist(), loss=[2.0, 1.5, 1.0])
        for name in splits
    }
    trial = {"dataset": dataset, "split": split, "epochs": EPOCHS}
    trial["skeleton"] = Skeleton(channels=channels)
    record = make_record(
        cell, seed, recipe=RecipeSpec(name=recipe), trial=trial, outcome={"curves": curves}
    )
    return record.model_copy(update={"cost": record.cost.model_copy(update={"seconds": 30 + seed})})


def _run(folder: Path, records: list[Record]) -> Path:
    write_records(folder, "worker", *records)
    collect(folder)
    return folder


@pytest.fixture(scope="module")
def records() -> list[Record]:
    both = [(split, seed) for split in ("full", "cifar10-valid") for seed in (0, 1)]
    return [_record(cell, seed, split=split) for cell in (3, 8) for split, seed in both]


@pytest.fixture(scope="module")
def run(records, tmp_path_factory) -> Path:
    return _run(tmp_path_factory.mktemp("sweep-7"), records)


def test_a_run_is_a_table_under_the_benchmarks_names(run, records):
    table = open_table(run)
    assert (table.origin, table.name) == ("retrained", run.name)
    for record in records:
        trial = record.trial
        dataset = "cifar10" if trial.split == "full" else "cifar10-valid"
        for split in record.outcome.curves:
            accuracy, loss = record.final(split)
            key = (dataset, split, EPOCHS)
            assert table.accuracy(trial.cell, *key, trial.seed) == accuracy
            losses = table.group(*key).by_seed("loss", trial.cell.index)
            assert losses[trial.seed] == loss
    assert table.cost(3, "cifar10", EPOCHS).train_seconds == 30.5
    assert table.cost(3, "cifar10", EPOCHS).params_m == 0.1


def test_a_runs_curves_are_its_records(run, records):
    table = open_table(run / "results.parquet")
    for record in records:
        dataset = "cifar10" if record.trial.split == "full" else "cifar10-valid"
        for split, curve in record.outcome.curves.items():
            got = table.curve(record.trial.cell, dataset, split, EPOCHS)
            assert got["accuracy", record.trial.seed].tolist() == curve.accuracy
            assert got["loss", record.trial.seed].tolist() == curve.loss


def test_rebench_answers_from_a_run(run, records):
    api = ReBench(retrained=run)
    info = api.get_more_info(3, "cifar10-valid", iepoch=1, hp=str(EPOCHS), is_random=1)
    record = next(r for r in records if r.trial.seed == 1 and r.trial.split != "full")
    assert info["valid-accuracy"] == record.outcome.curves["x-valid"].accuracy[1]
    assert api.source_of(3, "cifar10-valid", EPOCHS) == "retrained"
    whole = api.get_more_info(3, "cifar10", hp=EPOCHS, is_random=0)
    assert whole["train-all-time"] == pytest.approx(30.0)
    accuracy, _, seconds, used = api.simulate_train_eval(8, "cifar10", hp=str(EPOCHS))
    assert 20 < accuracy < 90
    assert seconds == used
    assert seconds in (30.0, 31.0)


def test_a_run_of_two_networks_is_not_one_table(tmp_path):
    run = _run(tmp_path, [_record(3, 0), _record(3, 0, channels=8)])
    with pytest.raises(InputError, match="2 networks"):
        open_table(run)


def test_data_sets_that_the_benchmark_has_not_are_tables_too(tmp_path):
    table = open_table(_run(tmp_path, [_record(3, 0, dataset="digits")]))
    assert table.query(3, "digits", "ori-test", EPOCHS).n == 1
    assert ReBench(retrained=table).get_cost_info(3, "digits", str(EPOCHS))["params"] == 0.1
    assert table.best("digits", epochs=EPOCHS)["mflops"].tolist() == [10.0]


def test_a_diverged_trial_is_a_result(tmp_path):
    record = _record(3, 0)
    curves = {name: Curve(accuracy=[11.0, 10.0, None], loss=[2.0, None, None])
              for name in record.outcome.curves}  # fmt: skip
    outcome = Outcome(status="diverged", learning_rate=9.0, curves=curves, diverged_epoch=1)
    table = open_table(
        _run(tmp_path, [record.model_copy(update={"outcome": outcome}), _record(4, 0)])
    )
    assert np.isnan(table.accuracy(3, "cifar10", epochs=EPOCHS))
    assert table.query(4, "cifar10", epochs=EPOCHS).rank == 1
    assert table.query(3, "cifar10", epochs=EPOCHS).rank == 2


@pytest.mark.parametrize("one_file", [False, True])
def test_the_real_package_opens_what_was_exported(one_file, tmp_path):
    source = make_folder(tmp_path / "simple", [2, 13, 14])
    table = open_table(ingest(source, tmp_path / "t.parquet", jobs=1).path)
    out = tmp_path / "exported.pickle.pbz2"
    made = export_nats(Choice(published=table), out, one_file=one_file)
    assert (made.cells, made.missing) == (3, 15622)
    before = nats_create(str(source), "tss", fast_mode=True, verbose=False)
    after = nats_create(str(made.path), "tss", fast_mode=not one_file, verbose=False)
    for index in (2, 13, 14):
        for hp in ("12", "200"):
            for dataset in ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120"):
                for epoch in (None, 7):
                    place = {"iepoch": epoch, "hp": hp, "is_random": False}
                    assert after.get_more_info(index, dataset, **place) == before.get_more_info(
                        index, dataset, **place
                    )
                assert after.get_cost_info(index, dataset, hp) == before.get_cost_info(
                    index, dataset, hp
                )
            random.seed(1)
            expected = before.simulate_train_eval(index, "cifar100", hp=hp)
            random.seed(1)
            assert after.simulate_train_eval(index, "cifar100", hp=hp) == expected
        before.reset_time(), after.reset_time()
    refused = ValueError if one_file else AssertionError  # as the documentation says
    with pytest.raises(refused, match="Did not find 3" if one_file else "invalid data path"):
        after.simulate_train_eval(3, "cifar100", hp="200")
    if not one_file:
        again = open_table(ingest(made.path, tmp_path / "again.parquet", jobs=1).path)
        pd.testing.assert_frame_equal(again.frame(), table.frame())
    with pytest.raises(InputError, match="exists"):
        export_nats(Choice(published=table), made.path)


def test_a_run_filled_in_with_published_values_exports_whole(run, tmp_path):
    published = synthetic_table(0, cells=[3, 5], epochs=[200])
    choice = Choice(published=published, retrained=open_table(run))
    api = nats_create(str(export_nats(choice, tmp_path / "out").path), "tss", True, False)
    retrained = open_table(run)
    info = api.get_more_info(3, "cifar10", hp=str(EPOCHS), is_random=False)
    assert info["test-accuracy"] == retrained.accuracy(3, "cifar10", epochs=EPOCHS)
    info = api.get_more_info(5, "cifar10", hp="200", is_random=False)
    assert info["test-accuracy"] == published.accuracy(5, "cifar10")


def _long(index: int, accuracies: list[float], recipe: str | None = None) -> pd.DataFrame:
    frame = pd.DataFrame({
        "index": index, "dataset": "cifar10", "split": "ori-test", "epochs": 200,
        "seed": range(len(accuracies)), "accuracy": accuracies,
    })  # fmt: skip
    return frame if recipe is None else frame.assign(recipe=recipe)


def test_comparison_has_the_difference_and_ranks_among_common_cells():
    old = pd.concat([_long(1, [90.0, 91.0, 92.0]), _long(2, [93.0]), _long(3, [95.0])])
    new = pd.concat([_long(1, [94.0, 95.5], "r"), _long(2, [93.5], "r"), _long(4, [99.0], "r")])
    found = compare_cell(Table.from_frame(old), Table.from_frame(new), 1, KEY)
    assert found.difference == pytest.approx(94.75 - 91.0)
    assert (found.ranks, found.common) == ((2, 1), 2)
    with pytest.raises(MissingDataError, match="cell 3"):
        compare_cell(Table.from_frame(old), Table.from_frame(new), 3, KEY)


@pytest.fixture
def unfinished(tmp_path, monkeypatch) -> Path:
    """A run of two recipes that lists four trials and has three records."""
    monkeypatch.chdir(tmp_path)
    records = [
        _record(cell, 777, recipe=recipe) for cell in (11, 12) for recipe in ("nb201", "fixed")
    ]
    make_run(tmp_path / "runs" / "two", records)
    write_records(tmp_path / "runs" / "two", "worker", *records[:3])
    return Path("runs/two")


@pytest.mark.parametrize("what", ["nats", "syne-tune", "table", "curves"])
def test_export_of_an_unfinished_run_says_how_many_trials_it_has(unfinished, what, capsys):
    assert main(["export", what, f"{unfinished}@nb201", "--out", "out.csv"]) == 0
    first, *notes = capsys.readouterr().err.splitlines()
    assert first == "runs/two@nb201: 3 of 4 trials have a record; the export contains these"
    about = Path("out.csv.about.json")
    assert notes == (json.loads(about.read_text())["notes"] if about.exists() else [])


def test_export_of_a_run_with_several_recipes_names_the_form_that_works(unfinished, capsys):
    assert main(["export", "nats", str(unfinished), "--out", "out"]) == 2
    told = capsys.readouterr().err
    assert "Choose one, such as runs/two@fixed" in told
    assert open_table("runs/two@fixed").recipe == "fixed"


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_table_of_several_recipes_is_exported_whole(unfinished, name):
    assert main(["export", "table", str(unfinished), "--out", name]) == 0
    assert open_table(f"{name}@fixed").accuracy(11) == open_table("runs/two@fixed").accuracy(11)
    assert sorted(open_any(name)) == ["fixed", "nb201"]
