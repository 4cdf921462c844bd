"""JAHS-Bench-201: conversion of the published pickles to a table, through pandas."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import PROJECT

from cells import Cell
from rebench.errors import InputError, MissingDataError, RebenchError
from rebench.nats.ingest import ingest_surface as ingest
from rebench.tables.opening import read_rows

ARCHIVE = PROJECT / "tests/nats/jahs/metric_data.tar"
SPLITS = {"train": "train-acc", "x-valid": "valid-acc", "ori-test": "test-acc"}


def frames(names: tuple[str, ...] = ("train", "valid", "test")) -> dict[str, pd.DataFrame]:
    """Return the tables of the archive by data set, read as the page on import and export says."""
    made = {}
    with tarfile.open(ARCHIVE) as archive:
        for task in ("cifar10", "fashion_mnist"):
            files = (archive.extractfile(f"metric_data/{task}/{name}_set.pkl.gz") for name in names)
            frame = pd.concat([pd.read_pickle(file, "gzip") for file in files])
            made[task] = frame[["features", "labels"]].droplevel(0, axis=1)
    return made


def write(folder: Path, tables: dict[str, pd.DataFrame], end: str = ".parquet") -> Path:
    folder.mkdir(exist_ok=True)
    for task, frame in tables.items():
        if end == ".csv":
            frame.to_csv(folder / f"{task}.csv", index=False)
        else:
            frame.to_parquet(folder / f"{task}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("jahs")
    out = folder / "jahs-table.parquet"
    made = ingest("jahs-bench-201", write(folder / "files", frames()), out)
    assert made.rows == 360
    return read_rows(out)


def raw(task: str) -> pd.DataFrame:
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile(f"metric_data/{task}/raw.pkl.gz")
        return pd.read_pickle(file, "gzip")


def cell_of(features: pd.Series) -> int:
    """Return the cell of a configuration of JAHS-Bench-201.

    Its code numbers the vertices from 1 and names edges (from, to).
    """
    names = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")
    edges = ((1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4))
    op = {edge: names[int(features[f"Op{i}"])] for i, edge in enumerate(edges, start=1)}
    return Cell.parse(
        f"|{op[1, 2]}~0|+|{op[1, 3]}~0|{op[2, 3]}~1|+|{op[1, 4]}~0|{op[2, 4]}~1|{op[3, 4]}~2|"
    ).index


@pytest.mark.parametrize("task", ["cifar10", "fashion_mnist"])
def test_table_holds_the_last_epoch_of_every_configuration(task: str, table: pd.DataFrame):
    whole = raw(task)
    last = whole.groupby(("sampling_index", "model_ID")).tail(1)
    assert len(last) == 60
    ours = table[table["dataset"] == task].set_index(["learning_rate", "split"])
    assert len(ours) == 180
    for _, row in last.iterrows():
        features = row["features"]
        for split, metric in SPLITS.items():
            told = ours.loc[(features["LearningRate"], split)]
            assert told["index"] == cell_of(features)
            assert told["arch"] == str(Cell.from_index(told["index"]))
            assert told["accuracy"] == pytest.approx(row["labels"][metric], nan_ok=True, abs=0)
            assert told["epochs"] == features["epoch"]
            assert told["recipe"] == f"fixed(lr={features['LearningRate']!r})"
            for column, name in (
                ("channels", "W"), ("cells_per_stage", "N"), ("resolution", "Resolution"),
                ("weight_decay", "WeightDecay"), ("activation", "Activation"),
            ):  # fmt: skip
                assert told[column] == features[name]
            assert (told["augmentation"] == "trivial") == features["TrivialAugment"]


def test_csv_and_parquet_are_one_table(table: pd.DataFrame, tmp_path: Path):
    ingest("jahs-bench-201", write(tmp_path / "files", frames(), ".csv"), tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(read_rows(tmp_path / "out.parquet"), table)


def test_folder_of_pickles_is_told_what_to_do(tmp_path: Path):
    (tmp_path / "cifar10").mkdir()
    with pytest.raises(MissingDataError, match=r"has none of cifar10\.parquet.*import and export"):
        ingest("jahs-bench-201", tmp_path, tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("test-acc", 100.5, "row 2, column test-acc: must be a number from 0 to 100 percent, got"),
        ("valid-acc", -1.0, "column valid-acc: must be a number from 0 to 100"),
        ("train-acc", np.inf, "column train-acc: must be"),
        ("LearningRate", np.nan, "column LearningRate: must be a number from 0"),
        ("LearningRate", "fast", "column LearningRate: must be a number"),
        ("WeightDecay", -1.0, "column WeightDecay: must be"),
        ("Resolution", -1.0, "column Resolution: must be"),
        ("W", 2.5, "column W: must be a whole number from 1"),
        ("N", 0, "column N: must be a whole number from 1"),
        ("epoch", 0, "column epoch: must be a whole number from 1"),
        ("Op3", 5, "column Op3: must be a whole number from 0 to 4, got 5"),
        ("Optimizer", "GSD", "column Optimizer: must be one of SGD, got 'GSD'"),
        ("TrivialAugment", "maybe", "TrivialAugment must be True or False"),
    ],
)
def test_value_that_is_wrong_is_named(column, value, message, tmp_path: Path):
    frame = frames(("train",))["cifar10"].reset_index(drop=True).astype({column: object})
    frame.loc[1, column] = value
    files = write(tmp_path, {"cifar10": frame}, ".csv")
    with pytest.raises(RebenchError, match=rf"cifar10\.csv: .*{message}") as refused:
        ingest("jahs-bench-201", files, tmp_path / "out.parquet")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.parquet").exists()


def test_column_that_is_missing_is_named(tmp_path: Path):
    frame = frames(("train",))["cifar10"].drop(columns=["Op3", "test-acc"])
    with pytest.raises(InputError, match=r"cifar10\.parquet: no column test-acc, Op3"):
        ingest("jahs-bench-201", write(tmp_path, {"cifar10": frame}), tmp_path / "out.parquet")


def test_configuration_that_was_run_twice_has_two_seeds(tmp_path: Path):
    again = {"cifar10": frames(("train", "valid", "valid"))["cifar10"]}
    ingest("jahs-bench-201", write(tmp_path, again), tmp_path / "out.parquet")
    rows = read_rows(tmp_path / "out.parquet")
    assert rows["seed"].value_counts().to_dict() == {0: 150, 1: 30}
