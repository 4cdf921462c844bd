"""Every number of an ingested table against the real nats_bench package over the same files."""

from __future__ import annotations

import math
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nats_bench import create
from nats_folder import make_folder

from cells import Cell
from rebench.errors import InputError, MissingDataError, StoreError, UnsafeFileError
from rebench.nats.ingest import _Member, _parts, ingest
from rebench.tables import Table, open_table
from rebench.tables.foreign import Naming

GENERATED = [2, 9, 10, 13, 14, 33, 15624]
REAL = pytest.param("real", marks=pytest.mark.shared_data)
# The files take 6 s to make, so one process makes them once.
MANY = pytest.param("20 generated", marks=[pytest.mark.slow, pytest.mark.xdist_group("20 cells")])

COLUMNS = "index,dataset,split,epochs,seed,accuracy"
ROW = "0,cifar10,ori-test,200,1,90"


@pytest.fixture(scope="module", params=["generated", REAL, MANY])
def folder(request, tmp_path_factory) -> Path:
    if request.param != "real":
        cells = GENERATED if request.param == "generated" else range(0, 15625, 782)
        return make_folder(tmp_path_factory.mktemp("nats") / "NATS-tss-v1_0-gen-simple", cells)
    return request.getfixturevalue("real_folder")


@pytest.fixture(scope="module")
def ingested(folder, tmp_path_factory):
    return ingest(folder, tmp_path_factory.mktemp("out") / "table.parquet", jobs=1)


@pytest.fixture(scope="module")
def table(ingested) -> Table:
    return open_table(ingested.path)


@pytest.fixture(scope="module")
def trials(folder) -> dict:
    """Every trial as the real package holds it: (cell, epochs, data set, seed) -> ResultsCount."""
    api = create(str(folder), "tss", fast_mode=True, verbose=False)
    found = {}
    for index in sorted(int(p.name[:6]) for p in folder.glob("0*.pickle.pbz2")):
        for epochs in (12, 200):
            results = api.query_by_index(index, hp=str(epochs))
            for dataset in results.get_dataset_names():
                for seed, trial in results.query(dataset).items():
                    found[index, epochs, dataset, seed] = trial
    return found


def test_every_final_accuracy_and_loss_is_the_packages(table, trials):
    compared = 0
    for (index, epochs, dataset, seed), trial in trials.items():
        for split in ("train", *trial.get_eval_set()):
            got = trial.get_train() if split == "train" else trial.get_eval(split)
            key = (dataset, split, epochs)
            assert table.accuracy(index, *key, seed) == got["accuracy"]
            assert table.group(*key).by_seed("loss", index)[seed] == got["loss"]
            compared += 1
    assert compared == len(table.frame())


def test_every_time_and_cost_is_the_packages(table, trials):
    frame = table.frame().set_index(["index", "epochs", "dataset", "seed", "split"]).sort_index()
    for (index, epochs, dataset, seed), trial in trials.items():
        rows = frame.loc[index, epochs, dataset, seed]
        times = trial.get_times()
        for split, row in rows.iterrows():
            name = "train" if split == "train" else split
            total = times[f"T-{name}@total"]
            assert row["seconds"] == total or (total is None and math.isnan(row["seconds"]))
        assert (rows["params_m"] == trial.params).all()
        assert (rows["mflops"] == trial.flop).all()
        latency = trial.get_latency()
        assert ((rows["latency_s"] == latency) | (rows["latency_s"].isna() & (latency < 0))).all()


def test_every_epoch_of_every_curve_is_the_packages(table, trials):
    for index in sorted({key[0] for key in trials}):
        curves = table.curves(index)
        for (other, epochs, dataset, seed), trial in trials.items():
            if other != index:
                continue
            curve = curves[(dataset, "train", epochs), seed]
            expected = [trial.get_train(epoch) for epoch in range(epochs)]
            assert curve.accuracy.tolist() == [e["accuracy"] for e in expected]
            assert curve.loss.tolist() == [e["loss"] for e in expected]
            for split in trial.get_eval_set():
                known = [e for e in range(epochs) if f"{split}@{e}" in trial.eval_acc1es]
                if len(known) == 1:
                    assert ((dataset, split, epochs), seed) not in curves
                else:
                    accuracy = curves[(dataset, split, epochs), seed].accuracy
                    assert accuracy.tolist() == [trial.eval_acc1es[f"{split}@{e}"] for e in known]


def test_curve_is_a_frame_by_epoch(table, trials):
    index = next(iter(trials))[0]
    frame = table.curve(index, "cifar10", "train", 200)
    assert frame.index[0] == 1
    assert frame.index[-1] == 200
    seeds = [
        seed
        for i, epochs, dataset, seed in trials
        if (i, epochs, dataset) == (index, 200, "cifar10")
    ]
    for seed in seeds:
        assert frame["accuracy", seed].iloc[-1] == table.accuracy(
            index, "cifar10", "train", seed=seed
        )
    with pytest.raises(MissingDataError, match="at the end only"):
        table.curve(index, "cifar10-valid", "ori-test", 200)


def test_a_tar_gives_the_same_table(folder, table, tmp_path):
    archive = tmp_path / f"{folder.name}.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, arcname=folder.name)
    done = ingest(archive, tmp_path / "t.parquet", jobs=1, curves=False)
    assert done.curves is None
    pd.testing.assert_frame_equal(open_table(done.path).frame(), table.frame())


def test_parallel_workers_give_the_same_table(tmp_path):
    folder = make_folder(tmp_path / "simple", [5, 70, 140])
    one = ingest(folder, tmp_path / "one.parquet", jobs=1)
    two = ingest(folder, tmp_path / "two.parquet", jobs=2)
    assert one.path.read_bytes().replace(b"one", b"two") == two.path.read_bytes()
    assert one.curves.read_bytes() == two.curves.read_bytes()


def test_full_files_are_read_without_their_weights(tmp_path):
    torch = pytest.importorskip("torch")
    weights = torch.nn.Linear(3, 2).state_dict()
    full = make_folder(tmp_path / "NATS-tss-v1_0-gen-full", [3, 8], weights=weights)
    simple = make_folder(tmp_path / "NATS-tss-v1_0-gen-simple", [3, 8])
    assert create(str(full), "tss", True, False).get_net_param(3, "cifar10", 777, "200")
    frames = [
        open_table(ingest(source, tmp_path / f"{source.name}.parquet", jobs=1).path).frame()
        for source in (full, simple)
    ]
    pd.testing.assert_frame_equal(*frames)


def test_ingest_keeps_files_that_are_not_its_parts(tmp_path):
    source = make_folder(tmp_path / "simple", [2])
    mine = tmp_path / "t.parquet.parts" / "mine.parquet"
    mine.parent.mkdir()
    mine.write_text("mine")
    (mine.parent / f".{'0' * 64}.parquet.12.3f").write_text("of an ingest that was killed")
    ingest(source, tmp_path / "t.parquet", jobs=1)
    assert list(mine.parent.iterdir()) == [mine]


def test_an_interrupted_ingest_goes_on_where_it_stopped(tmp_path):
    folder = make_folder(tmp_path / "simple", [1, 70, 200])
    good = (folder / "000200.pickle.pbz2").read_bytes()
    (folder / "000200.pickle.pbz2").write_bytes(good[:500])
    out = tmp_path / "t.parquet"
    with pytest.raises(UnsafeFileError, match=r"000200.*truncated.*1 of 3"):
        ingest(folder, out, jobs=1)
    assert not out.exists()
    parts = sorted((tmp_path / "t.parquet.parts").glob("*.parquet"))
    assert len(parts) == 4, "rows and curves of two parts"
    before = [p.stat().st_mtime_ns for p in parts]
    (folder / "000200.pickle.pbz2").write_bytes(good)
    steps = []
    stamps = []

    def watch(count: int) -> None:
        steps.append(count)
        stamps[:] = [p.stat().st_mtime_ns for p in parts]

    assert ingest(folder, out, jobs=1, on_progress=watch).cells == 3
    assert sum(steps) == 3
    assert stamps == before, "finished parts are not read again"
    assert not (tmp_path / "t.parquet.parts").exists()


@pytest.mark.parametrize("lost", ["rows", "curves"])
def test_a_part_that_lacks_one_of_its_two_files_is_read_again(tmp_path, lost):
    folder, out = make_folder(tmp_path / "simple", [1, 70]), tmp_path / "t.parquet"
    whole = ingest(folder, tmp_path / "whole.parquet", jobs=1)
    bad = folder / "000070.pickle.pbz2"
    good = bad.read_bytes()
    bad.write_bytes(good[:500])
    with pytest.raises(UnsafeFileError, match="truncated"):
        ingest(folder, out, jobs=1)
    bad.write_bytes(good)
    curves, rows = sorted((tmp_path / "t.parquet.parts").iterdir(), key=lambda p: len(p.name))[::-1]
    (rows if lost == "rows" else curves).unlink()
    steps: list[int] = []
    done = ingest(folder, out, jobs=1, on_progress=steps.append)
    assert steps == [0, 1, 1]
    frames = [open_table(one.path).frame() for one in (done, whole)]
    pd.testing.assert_frame_equal(*frames)
    assert done.curves.read_bytes() == whole.curves.read_bytes()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    folder = make_folder(tmp_path / "simple", [1])
    (tmp_path / "t.parquet.parts").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write .*t\.parquet\.parts"):
        ingest(folder, tmp_path / "t.parquet", jobs=1)


def test_first_five_of_many_damaged_files_are_named(tmp_path):
    folder = tmp_path / "simple"
    folder.mkdir()
    for index in range(7):
        (folder / f"{index:06d}.pickle.pbz2").write_bytes(b"")
    with pytest.raises(UnsafeFileError, match="; 7 of 7 files were refused") as refused:
        ingest(folder, tmp_path / "t.parquet", jobs=1)
    assert str(refused.value).count("the file is empty") == 5


def test_a_changed_file_is_read_again(tmp_path):
    folder = make_folder(tmp_path / "simple", [1, 70])
    (folder / "000070.pickle.pbz2").write_bytes(b"")
    out = tmp_path / "t.parquet"
    with pytest.raises(UnsafeFileError, match=r"000070.*empty"):
        ingest(folder, out, jobs=1)
    make_folder(folder, [2])
    (folder / "000070.pickle.pbz2").unlink()
    assert ingest(folder, out, jobs=1).cells == 2
    assert set(open_table(out).frame()["index"]) == {1, 2}


def test_a_long_csv_is_a_source(tmp_path):
    rows = ["arch,dataset,split,epochs,seed,accuracy,loss"]
    arch = str(Cell.from_index(0))
    rows += [f"{arch},cifar10,ori-test,200,{s},{a},0.5" for s, a in ((777, 86.0), (888, 85.0))]
    source = tmp_path / "values.csv"
    source.write_text("\n".join(rows))
    done = ingest(source, tmp_path / "t.parquet")
    table = open_table(done.path)
    assert (done.cells, done.missing, done.rows) == (1, 15624, 2)
    assert table.seeds(0, "cifar10") == {777: 86.0, 888: 85.0}
    assert table.query(0, "cifar10").std == 0.5


def test_published_means_of_the_real_file(real_data, tmp_path):
    source = real_data / "nb201" / "nb201-200epochs-mean.csv"
    table = open_table(ingest(source, tmp_path / "t.parquet").path)
    # The benchmark's optima, as published.
    best = {
        ("cifar10", "ori-test"): 6111,
        ("cifar100", "x-test"): 9930,
        ("ImageNet16-120", "x-test"): 857,
    }
    for (dataset, split), index in best.items():
        assert table.query(index, dataset, split).rank == 1
        assert table.best(dataset, split).index[0] == index
    np.testing.assert_array_equal(
        table.means("cifar10"), pd.read_csv(source)["cifar10_ori_test"].to_numpy()
    )


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("nothing.parquet", None, "no folder or file"),
        ("empty-folder", lambda path: path.mkdir(), "NNNNNN.pickle.pbz2"),
        ("x.tar.gz", lambda path: path.write_bytes(b"\x1f\x8b" + b"0" * 600), "uncompressed tar"),
        ("x.csv", lambda path: path.write_text("a,b\n1,2\n"), "missing: index"),
        (
            "acc.csv",
            lambda path: path.write_text("arch_id,recipe,seed,test_acc\n0,nb201,1,90\n"),
            "if arch_id is the index and test_acc is the accuracy: `rebench table ingest FILE",
        ),
        ("y.csv", lambda path: path.write_text(""), "y.csv is empty"),
        (
            "z.csv",
            lambda path: path.write_text(f"{COLUMNS},recipe\n{ROW},nb201\n"),
            "contains re-trained results; it needs no ingest",
        ),
    ],
)
def test_a_source_that_is_none_is_named(tmp_path, name, make, message):
    if make is not None:
        make(tmp_path / name)
    with pytest.raises(InputError, match=message):
        ingest(tmp_path / name, tmp_path / "t.parquet")


@pytest.mark.parametrize(("row", "columns", "words"), [
    ("0,cifar10,ori-test,1,90", COLUMNS.replace("epochs,", ""), {"epochs": 200}),
    (ROW.replace("90", "0.9"), COLUMNS, {"fractions": True}),
])  # fmt: skip
def test_a_table_of_recipes_that_cannot_be_used_directly_is_ingested(tmp_path, row, columns, words):
    (tmp_path / "a.csv").write_text(f"{columns},recipe\n{row},nb201\n")
    done = ingest(tmp_path / "a.csv", tmp_path / "t.parquet", **words)
    assert open_table(f"{done.path}@nb201").seeds(0, "cifar10") == {1: 90.0}


def test_two_accuracies_of_a_run_of_a_recipe_are_refused(tmp_path):
    """Equal rows are one run. Other recipes, cells and seeds are other runs."""
    rows = [f"{ROW},a", f"{ROW},a", f"{ROW},b", f"1{ROW[1:]},a", "0,cifar10,ori-test,200,2,91,a"]
    (tmp_path / "a.csv").write_text("\n".join([f"{COLUMNS},method", *rows]))
    naming = Naming.of({"recipe": "method"}, {})
    assert ingest(tmp_path / "a.csv", tmp_path / "t.parquet", naming=naming).rows == 5
    (tmp_path / "a.csv").write_text("\n".join([f"{COLUMNS},method", *rows, f"{ROW}.5,a"]))
    told = r"a\.csv@a: 1 cells have two different .* epochs \(first: cell 0\); keep one of each"
    with pytest.raises(InputError, match=told):
        ingest(tmp_path / "a.csv", tmp_path / "u.parquet", naming=naming)
    assert not (tmp_path / "u.parquet").exists()


def test_a_source_that_holds_a_cell_twice_or_one_too_many_is_refused(tmp_path):
    folder = make_folder(tmp_path / "simple", [1])
    good = folder / "000001.pickle.pbz2"
    shutil.copy(good, folder / "1.pickle.bz2")
    with pytest.raises(InputError, match="contains cell 1 twice"):
        ingest(folder, tmp_path / "t.parquet", jobs=1)
    (folder / "1.pickle.bz2").rename(folder / "015625.pickle.pbz2")
    with pytest.raises(InputError, match="contains a cell 15625"):
        ingest(folder, tmp_path / "t.parquet", jobs=1)
    (folder / "015625.pickle.pbz2").unlink()
    (folder / "015624.pickle.pbz2").mkdir()
    for wrong in ({"epochs": 12}, {"fractions": True}):
        with pytest.raises(InputError, match="in the benchmark's format: names of columns"):
            ingest(folder, tmp_path / "t.parquet", jobs=1, **wrong)
    counted = []
    done = ingest(folder, tmp_path / "t.parquet", jobs=1, on_start=counted.append)
    assert (done.cells, counted) == (1, [1]), "a folder is no file of a cell"


def test_parts_are_of_sixty_four_indices_of_cells(tmp_path):
    members = {
        index: _Member(tmp_path, f"{index:06d}.pickle.pbz2", 0, 1, 0)
        for index in (0, 1, 63, 64, 127, 129)
    }
    parts = list(_parts(members, tmp_path, curves=False))
    assert [[index for index, _ in part.members] for part in parts] == [
        [0, 1, 63],
        [64, 127],
        [129],
    ]
    assert len({part.rows for part in parts}) == 3
