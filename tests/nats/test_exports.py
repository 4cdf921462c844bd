"""Each export is opened by the program it is for, unmodified, and every value is the table's."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from generated_tables import synthetic_frame
from nats_bench import create as nats_create
from nats_bench.api_utils import pickle_load
from nats_folder import make_folder
from simulated_tables import synthetic_table

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError, MissingDataError, StoreError
from rebench.nats import ReBench
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats, export_pth
from rebench.nats.fastpath import Values
from rebench.nats.ingest import ingest
from rebench.nats.naslib import export_naslib
from rebench.nats.packaged import package_results
from rebench.nats.synetune import export_syne_tune
from rebench.tables import Table, open_table

CELLS = [2, 13, 14]
# Evaluations that other programs show: data set, their name of the split, our name.
SHOWN = [
    ("cifar10-valid", "valid", "x-valid"),
    ("cifar10", "test", "ori-test"),
    ("cifar100", "valid", "x-valid"),
    ("cifar100", "test", "x-test"),
    ("ImageNet16-120", "valtest", "ori-test"),
]


@pytest.fixture(scope="module")
def generated() -> Table:
    """A table without curves; one latency is unknown."""
    return synthetic_table(0, cells=CELLS)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Table:
    """A table with curves, made from files in the benchmark's own format."""
    folder = make_folder(tmp_path_factory.mktemp("nats") / "simple", CELLS)
    return open_table(ingest(folder, folder.with_name("t.parquet"), jobs=1).path)


def test_cells_with_other_seeds_and_unknown_values_are_written_as_the_packages_objects(tmp_path):
    frame = synthetic_frame(1, cells=range(30), missing_seeds=0.5)
    draw = np.random.default_rng(0)
    for column in ("loss", "epoch_seconds", "params_m", "latency_s"):
        frame.loc[draw.random(len(frame)) < 0.1, column] = np.nan
    choice = Choice(published=Table.from_frame(frame))
    export_nats(choice, tmp_path / "out")
    files = {}
    for index in range(30):
        states = pickle_load(str(tmp_path / "out" / f"{index:06d}.pickle.pbz2"))
        expected = package_results(index, choice)
        for hp, results in expected.items():
            for trial in results.all_results.values():
                trial.latency = trial.latency or [-1.0]
            # Compare texts: in them NaN equals NaN, and the order of dicts counts.
            assert repr(states[hp]) == repr(results.state_dict())
        assert list(states) == list(expected) == ["12", "200"]
        files[index] = {hp: list(state["all_results"]) for hp, state in states.items()}
    assert len(set(map(str, files.values()))) > 10, "the cells have different trials"


@pytest.mark.parametrize("name", ["generated", "ingested"])
def test_nas_201_api_opens_the_pth(name, request, tmp_path):
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    table = request.getfixturevalue(name)
    made = export_pth(Choice(published=table), tmp_path / "NAS-Bench-201-v1_1.pth")
    api = nas_201_api.NASBench201API(str(made.path), verbose=False)
    assert list(api.evaluated_indexes) == CELLS
    for index in CELLS:
        for hp in (12, 200):
            for dataset, word, split in SHOWN:
                info = api.get_more_info(index, dataset, None, str(hp), is_random=False)
                expected = table.accuracy(index, dataset, split, hp)
                assert info[f"{word}-accuracy"] == pytest.approx(expected, rel=1e-15)
        cost = api.get_cost_info(index, "cifar100", "200")
        latency = table.cost(index, "cifar100", 200).latency_s
        assert cost["latency"] == (None if latency is None else pytest.approx(latency))


def test_a_pth_of_one_training_has_it_twice(tmp_path):
    nas_201_api = pytest.importorskip("nas_201_api", reason="nas-bench-201 is not installed")
    table = synthetic_table(0, cells=CELLS, epochs=[200])
    made = export_pth(Choice(published=table), tmp_path / "t.pth")
    api = nas_201_api.NASBench201API(str(made.path), verbose=False)
    for hp in ("12", "200"):
        assert api.find_best("cifar10", "test", hp=hp)[0] == table.best("cifar10").index[0]
    assert "12 epochs are 200" in (tmp_path / "t.pth.about.json").read_text()


@pytest.mark.parametrize("name", ["generated", "ingested"])
def test_syne_tune_opens_the_blackbox(name, request, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports warn
        tabular = pytest.importorskip(
            "syne_tune.blackbox_repository.blackbox_tabular", reason="syne-tune is not installed"
        )
        table = request.getfixturevalue(name)
        made = export_syne_tune(Choice(published=table), tmp_path / "nasbench201")
        boxes = tabular.deserialize(str(made.path))
    assert list(boxes) == ["cifar10", "cifar100", "ImageNet16-120"]
    for dataset, box in boxes.items():
        assert box.num_fidelities == (200 if name == "ingested" else 1)
        for index in CELLS:
            ops = [
                part.split("~")[0] for part in str(Cell.from_index(index)).split("|") if "~" in part
            ]
            setting = {f"hp_x{edge}": op for edge, op in enumerate(ops)}
            trained = "cifar10-valid" if dataset == "cifar10" else dataset
            # The benchmark has validation curves only for training on half of CIFAR-10. For other
            # data sets the curve of the whole test set replaces them.
            whole = name == "ingested" and dataset != "cifar10"
            valid = table.seeds(index, trained, "ori-test" if whole else "x-valid")
            tested = table.seeds(index, trained, "ori-test")
            known = [777, 888, 999]
            for place, seed in enumerate(known):
                answer = box.objective_function(setting, {"hp_epoch": 200}, seed=place)
                for metric, seeds in (("valid", valid), ("test", tested)):
                    error = 1 - seeds.get(seed, np.mean(list(seeds.values()))) / 100
                    assert answer[f"metric_{metric}_error"] == pytest.approx(error, abs=1e-6)
                cost = table.cost(index, dataset)
                assert answer["metric_flops"] == pytest.approx(cost.mflops, rel=1e-6)
            if name == "ingested":
                split = "ori-test" if whole else "x-valid"
                curve = table.curve(index, trained, split)["accuracy", 888 if 888 in seeds else 777]
                answer = box.objective_function(
                    setting, {"hp_epoch": 7}, seed=known.index(888 if 888 in seeds else 777)
                )
                assert answer["metric_valid_error"] == pytest.approx(1 - curve[7] / 100, abs=1e-7)


def test_absent_trials_are_means_over_the_cells_other_trials(ingested, tmp_path):
    made = export_syne_tune(Choice(published=ingested), tmp_path / "out")
    values = np.load(made.path / "objectives_evaluations.npy")[0, :, :, -1, 0]
    absent = 0
    for row, index in enumerate(CELLS):
        seeds = ingested.seeds(index, "cifar10-valid", "x-valid")
        mean = np.mean(list(seeds.values()))
        for place, seed in enumerate((777, 888, 999)):
            absent += seed not in seeds
            assert values[row, place] == pytest.approx(1 - seeds.get(seed, mean) / 100, abs=1e-6)
    assert absent


def test_runs_with_unknown_seeds_take_the_places_of_absent_seeds(tmp_path):
    table = open_table("nb201")
    rows = table.frame()
    cells = rows["index"].unique()[:40]
    few = Table.from_frame(rows[rows["index"].isin(cells)], name="few", origin="published")
    made = export_syne_tune(Choice(published=few), tmp_path / "out")
    metadata = json.loads((made.path / "metadata.json").read_text())
    lacking = {"metric_train_error", "metric_test_error"}
    assert lacking.isdisjoint(metadata["objectives_names"])
    values = np.load(made.path / "objectives_evaluations.npy")
    assert values.shape == (3, 40, 3, 1, 6)
    assert np.isfinite(values).all()
    for row, index in enumerate(sorted(cells)):
        seeds = table.seeds(index, "cifar100", "x-valid")
        told = (100 * (1 - values[1, row, :, 0, 0])).tolist()
        for place, seed in enumerate((777, 888, 999)):
            if seed in seeds:
                assert told[place] == pytest.approx(seeds[seed], abs=1e-4)
        assert {round(value, 2) for value in seeds.values()} <= {round(value, 2) for value in told}


def test_syne_tunes_test_error_is_there_without_metrics_of_the_training_images(tmp_path):
    frame = synthetic_frame(0, cells=CELLS, epochs=[200])
    table = Table.from_frame(frame[frame["split"] != "train"])
    made = export_syne_tune(Choice(published=table), tmp_path / "out")
    values = np.load(made.path / "objectives_evaluations.npy")
    # Task, cell, seed, fidelity; then validation and test: the error of training is left out.
    assert values.shape[:4] == (3, 3, 3, 1)
    for place, dataset in enumerate(("cifar10-valid", "cifar100", "ImageNet16-120")):
        for row, index in enumerate(CELLS):
            seeds = table.seeds(index, dataset, "ori-test")
            expected = [1 - seeds[seed] / 100 for seed in (777, 888, 999)]
            assert values[place, row, :, 0, 1] == pytest.approx(expected, rel=1e-6)


def test_two_tables_have_curves_where_both_do_and_each_answers_for_its_cells(ingested):
    frame = synthetic_frame(0, cells=[13], datasets=["cifar10"], epochs=[200])
    ours = Table.from_frame(frame, origin="retrained")
    both = Choice(published=ingested, retrained=ours)
    assert [Choice(published=one).has_curves for one in (ingested, ours)] == [True, False]
    assert not both.has_curves
    assert both.cells.tolist() == CELLS
    assert both.epochs == (12, 200)
    answers = [both.table(index, "cifar10", 200) for index in (1, *CELLS)]
    assert answers == [None, ingested, ours, ingested]
    assert both.table(13, "cifar100", 200) is ingested
    assert both.table(13, "cifar10", 11) is None


def test_trials_of_a_cell_are_those_of_any_split():
    frame = synthetic_frame(0, cells=CELLS, datasets=["cifar100"], epochs=[200])
    lacking = (frame["index"] == 13) & (frame["split"] == "train") & (frame["seed"] == 777)
    values = Values(Table.from_frame(frame[~lacking]), "cifar100", 200)
    assert [values.n[index] for index in (0, *CELLS)] == [0, 3, 3, 3]
    assert [values.is_plain("train")[index] for index in CELLS] == [True, False, True]
    assert [values.is_plain("x-test")[index] for index in CELLS] == [True] * 3
    assert values.more_info(2, False, None) is None, "the package stops with an error at 13"


@pytest.mark.parametrize("seeds", [[], [777], [777, 888, 999]])
def test_package_reads_a_split_without_times_next_to_one_with_times(seeds, tmp_path):
    frame = synthetic_frame(0, cells=[13], datasets=["cifar100"], epochs=[200])
    timed = (frame["split"] == "train") | (frame["split"] == "ori-test") & frame["seed"].isin(seeds)
    frame.loc[~timed, ["seconds", "epoch_seconds"]] = np.nan
    table = Table.from_frame(frame)
    made = export_nats(Choice(published=table), tmp_path / "out")
    api = nats_create(str(made.path), "tss", fast_mode=True, verbose=False)
    info = api.get_more_info(13, "cifar100", hp="200", is_random=False)
    assert info["test-accuracy"] == table.accuracy(13, "cifar100", "x-test")
    assert ReBench(table).find_best("cifar100", "test", hp="200") == (13, info["test-accuracy"])


@pytest.mark.parametrize(("beside", "agree"), [(4e-6, True), (2e-5, False)])
def test_costs_of_a_cells_trials_are_compared_to_five_decimals(beside, agree):
    frame = synthetic_frame(0, cells=CELLS, datasets=["cifar100"], epochs=[200])
    frame.loc[frame["index"] == 13, "mflops"] = 10.0
    frame.loc[(frame["index"] == 13) & (frame["seed"] == 777), "mflops"] += beside
    plain = Values(Table.from_frame(frame), "cifar100", 200).is_plain("train")
    assert [plain[index] for index in CELLS] == [True, agree, True]


def test_export_into_a_place_that_cannot_be_is_one_line(generated, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*taken/out"):
        export_nats(Choice(published=generated), tmp_path / "taken" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_naslibs_files_answer_as_its_queries_ask(ingested, tmp_path):
    """The test makes the queries of NASLib itself, because pip cannot install NASLib.

    They are `data[arch][dataset][metric][epoch]` and `cost_info`.
    """
    made = export_naslib(Choice(published=ingested), tmp_path / "data")
    names = {"cifar10-valid": "cifar10", "cifar100": "cifar100", "ImageNet16-120": "ImageNet16"}
    for dataset, name in names.items():
        data = pickle.loads((made.path / f"nb201_{name}_full_training.pickle").read_bytes())
        split = "x-valid" if dataset == "cifar10-valid" else "ori-test"
        assert len(data) == len(CELLS)
        for index in CELLS:
            found = data[str(Cell.from_index(index))][dataset]
            curve = ingested.curve(index, dataset, split)["accuracy"].mean(axis=1)
            assert found["eval_acc1es"][50] == pytest.approx(curve[51])
            assert found["eval_acc1es"][-1] == ingested.accuracy(index, dataset, split)
            assert found["train_losses"][-1] == ingested.group(dataset, "train").mean("loss")[index]
            assert len(found["train_acc1es"]) == 200
            cost = ingested.cost(index, dataset)
            assert found["cost_info"]["train_time"] == cost.train_seconds
            assert found["cost_info"]["params"] == cost.params_m


EXPORTS = {
    "nats": "out",
    "nats one file": "out.pickle.pbz2",
    "nas-bench-201": "out.pth",
    "syne-tune": "out",
    "naslib": "out",
}


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_says_what_it_is_and_spares_what_is_there(name, generated, tmp_path, capsys):
    from rebench.tables import write_table

    source = tmp_path / "generated.parquet"
    write_table(source, generated.frame(), name="generated", origin="generated")
    file = EXPORTS[name]
    out = tmp_path / file
    command = ["export", name.split()[0], str(source), "--out", str(out), "--json"]
    assert main(command) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["out"], row["cells"], row["missing"]) == (str(out), 3, 15622)
    about = json.loads((tmp_path / f"{file}.about.json").read_text())
    assert (about["origin"], about["generated"], about["recipe"]) == ("generated", True, "nb201")
    assert about["missing"] == {"cells": 15622, "curves": True}
    assert about["rebench"]
    assert "generated" in _inside(out), "the file itself says that its values are generated"

    before = _inside(out)
    assert main(command) == 2
    assert "--force" in capsys.readouterr().err
    assert _inside(out) == before
    assert main([*command, "--force"]) == 0
    assert not list(tmp_path.glob("*.unfinished"))


WRITERS = {
    "nats": export_nats,
    "nas-bench-201": export_pth,
    "syne-tune": export_syne_tune,
    "naslib": export_naslib,
}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", ["thesis", "run", ".", "..", "file.txt", "link"])
def test_force_replaces_nothing_but_an_export(form, name, generated, tmp_path, monkeypatch):
    work = tmp_path / "own" / "work"
    for folder in ("thesis", "run/results"):
        (work / folder).mkdir(parents=True)
        (work / folder / "mine").write_text("mine")
    (work / "file.txt").write_text("mine")
    (work / "link").symlink_to("thesis")
    monkeypatch.chdir(work)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="exists; give another name, or --force"):
        WRITERS[form](Choice(published=generated), Path(name))
    with pytest.raises(InputError, match="is not an unchanged export"):
        WRITERS[form](Choice(published=generated), Path(name), force=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("form", WRITERS)
def test_an_export_with_another_file_is_not_replaced(form, generated, tmp_path):
    out = tmp_path / "out"
    choice = Choice(published=generated)
    WRITERS[form](choice, out)
    WRITERS[form](choice, out, force=True)
    own = out / "notes.txt" if out.is_dir() else out
    own.write_text("mine")
    with pytest.raises(InputError, match=r"is not an unchanged export.*out\.about\.json"):
        WRITERS[form](choice, out, force=True)
    assert own.read_text() == "mine"


def test_a_file_that_appears_during_an_export_is_kept(generated, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="exists"):
        export_nats(Choice(published=generated), out, on_progress=lambda _: out.write_text("mine"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert out.read_text() == "mine"


def test_files_next_to_an_export_are_kept(generated, tmp_path):
    (tmp_path / "out.unfinished").mkdir()
    (tmp_path / "out.unfinished" / "mine").write_text("mine")
    export_nats(Choice(published=generated), tmp_path / "out")
    assert (tmp_path / "out.unfinished" / "mine").read_text() == "mine"
    (tmp_path / "other.about.json").write_text('{"mine": 1}')
    with pytest.raises(InputError, match="does not describe an export"):
        export_nats(Choice(published=generated), tmp_path / "other", force=True)
    assert (tmp_path / "other.about.json").read_text() == '{"mine": 1}'


def test_command_of_an_export_into_this_folder_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["export", "naslib", "nb201", "--out", ".", "--force"]
    assert main(command) == 2
    assert "is not an unchanged export" in capsys.readouterr().err


def _inside(out: Path) -> str:
    """Return the marker that an export carries, as text."""
    if out.suffix == ".pbz2":
        return str(pickle_load(str(out))["rebench"])
    if out.suffix == ".pth":
        import torch

        return str(torch.load(out, weights_only=True)["rebench"])
    if (out / "metadata.json").is_file():
        return (out / "metadata.json").read_text()
    if (out / "meta.pickle.pbz2").is_file():
        return str(pickle_load(str(out / "meta.pickle.pbz2"))["rebench"])
    data = pickle.loads((out / "nb201_cifar100_full_training.pickle").read_bytes())
    return str(next(iter(data.values()))["rebench"])


def test_what_the_tables_do_not_hold_is_no_empty_export(tmp_path):
    short = Choice(published=synthetic_table(0, cells=CELLS, epochs=[12]))
    for export in (export_syne_tune, export_naslib):
        with pytest.raises(MissingDataError, match="at 200 epochs"):
            export(short, tmp_path / "out", epochs=200)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="exists"):
        export_pth(short, tmp_path)


@pytest.mark.parametrize(("export", "files"), [(export_naslib, 3), (export_syne_tune, 1)])
def test_progress_counts_each_cell_once_in_whatever_files(export, files, generated, tmp_path):
    steps: list[float] = []
    export(Choice(published=generated), tmp_path / "out", on_progress=steps.append)
    assert steps == [1 / files] * files * len(CELLS)
