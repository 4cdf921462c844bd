"""NAS-HPO-Bench-II: conversion of its files to a table, compared with its own package."""

from __future__ import annotations

import itertools
import pickle
import random
from pathlib import Path

import pandas as pd
import pytest
from foreign_files import RATES, SEEDS, bench12, codes, write_nas_hpo_bench

from cells import Cell
from rebench.errors import InputError, MissingDataError, RebenchError, UnknownNameError
from rebench.nats.ingest import ingest_surface as ingest
from rebench.tables.opening import read_rows

HASHES = codes(12)
BENCH = bench12(HASHES, batch_sizes=(128, 256))
SPLITS = {"train": "train", "valid": "x-valid", "test": "ori-test"}
KEY = ["index", "learning_rate", "batch_size", "seed", "split"]


def cell_of(code: str) -> Cell:
    """Return the cell of a code, with the edges as numbered in the figure of its README."""
    names = ("nor_conv_3x3", "avg_pool_3x3", "skip_connect", "none")
    a, b, c, d, e, f = (names[int(digit)] for digit in code.replace("|", ""))
    return Cell.parse(f"|{a}~0|+|{b}~0|{c}~1|+|{d}~0|{e}~1|{f}~2|")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_nas_hpo_bench(tmp_path_factory.mktemp("bench"), HASHES, BENCH)


@pytest.fixture(scope="module")
def table(folder: Path) -> pd.DataFrame:
    out = folder / "table.parquet"
    made = ingest("nas-hpo-bench-ii", folder, out)
    rows = read_rows(out)
    assert (made.cells, made.rows) == (len(HASHES), len(rows))
    assert made.rows == len(HASHES) * len(RATES) * 2 * len(SEEDS) * len(SPLITS)
    return rows


def test_answers_are_those_of_its_own_package(folder: Path, table: pd.DataFrame):
    package = pytest.importorskip("nashpobench2api", reason="needs nashpobench2api 1.0.0")
    api = package.NASHPOBench2API(str(folder), verbose=False)
    ours = table.set_index(KEY)[["accuracy", "seconds"]].sort_index()
    asked = list(itertools.product(HASHES, RATES, (128, 256), SEEDS, SPLITS))
    for code, rate, batch_size, seed, split in random.Random(0).sample(asked, 400):
        accuracy, cost = api.query_by_key(
            code, rate, batch_size, mode=split, seed=seed, enable_log=False
        )
        told = ours.loc[(cell_of(code).index, rate, batch_size, seed)]
        assert told.loc[SPLITS[split], "accuracy"] == accuracy
        # The package's cost of an accuracy is the time of training and of all its evaluations.
        counted = {"train": ["train"], "valid": ["train", "x-valid"]}.get(split, told.index)
        assert told.loc[counted, "seconds"].sum() == pytest.approx(cost)


def test_every_value_of_the_dicts_is_in_the_table(table: pd.DataFrame):
    ours = table.set_index(KEY)["accuracy"].to_dict()
    assert len(ours) == len(table)
    cells = {code: cell_of(code).index for code in HASHES}
    for split, name in SPLITS.items():
        values = BENCH[f"{split}_acc_11"]
        for code, rate, batch, seed in itertools.product(HASHES, RATES, (128, 256), SEEDS):
            expected = values[HASHES[code], rate, batch, seed]
            assert ours[cells[code], rate, batch, seed, name] == expected


def test_table_says_how_it_was_trained(table: pd.DataFrame):
    said = ["dataset", "train_split", "epochs", "channels", "cells_per_stage", "weight_decay"]
    assert table[said].drop_duplicates().to_numpy().tolist() == [
        ["cifar10-valid", "cifar10-valid", 12, 16, 5, 5e-4]
    ]
    labels = dict(zip(table["recipe"], table["learning_rate"], strict=True))
    assert labels == {f"fixed(lr={rate})": rate for rate in RATES}


def test_cells_of_one_hash_name_the_first_of_them(table: pd.DataFrame):
    groups: dict[str, list[int]] = {}
    for code, value in HASHES.items():
        groups.setdefault(value, []).append(cell_of(code).index)
    first = {index: min(held) for held in groups.values() for index in held}
    assert dict(zip(table["index"], table["trained_as"], strict=True)) == first
    assert len(set(first.values())) == 12


@pytest.mark.parametrize("protocol", [2, 3, 5])
def test_files_of_every_binary_protocol_are_one_table(protocol: int, table, tmp_path: Path):
    # The tuples that are keys are shared between the dicts in the original, and copied here.
    apart = {
        name: {(key[0][:1] + key[0][1:], *key[1:]): value for key, value in values.items()}
        for name, values in BENCH.items()
    }
    write_nas_hpo_bench(tmp_path, HASHES, apart, protocol)
    ingest("nas-hpo-bench-ii", tmp_path, tmp_path / "again.parquet")
    pd.testing.assert_frame_equal(read_rows(tmp_path / "again.parquet"), table)


FIRST = next(iter(BENCH["lr"]))
HASH = FIRST[0]


def _with(name: str, value: object) -> dict:
    """Return the files' contents with another value of the first run."""
    return {**BENCH, name: BENCH[name] | {FIRST: value}}


def _renamed(name: str, *key: object) -> dict:
    """Return a dict of the files in which the first run has another key."""
    return {(key if run == FIRST else run): value for run, value in BENCH[name].items()}


def _with_key(*key: object) -> dict:
    """Return the files' contents with another key of the first run in every dict."""
    return {name: _renamed(name, *key) for name in BENCH}


WRONG = {
    "accuracy above 100": (_with("test_acc_11", 100.5), "from 0 to 100 percent, got 100.5"),
    "negative time": (_with("total_test_time", -1.0), "test_time: must be .*, got -1"),
    "accuracy that is text": (_with("train_acc_11", "much"), "expected .*, got 'much'"),
    "accuracy that is true": (_with("test_acc_11", True), "expected a number, got True"),
    "endless time": (_with("total_train_time", float("inf")), "time: must .* got inf"),
    "time that runs backwards": (_with("total_trainval_time", 0.0), "seconds: .*got -"),
    "missing column": ({k: v for k, v in BENCH.items() if k != "test_acc_11"}, "test_acc_11"),
    "column that is a list": ({**BENCH, "test_acc_11": [1.0]}, "expected a dict, got a list"),
    "no dict at all": ([BENCH["lr"]], "expected a dict, got a list"),
    "unknown hash": (_with_key("x", 0.1, 256, 222), "hash 'x' is of no cell"),
    "rate of 0": (_with_key(HASH, 0.0, 256, 1), "learning_rate: must be above"),
    "batch of 0": (_with_key(HASH, 0.1, 0, 1), "batch_size: must be .* got 0"),
    "endless rate": (_with_key(HASH, float("inf"), 256, 1), "got inf"),
    "rate that is text": (_with_key(HASH, "much", 256, 1), "got 'much'"),
    "seed below -4": (_with_key(HASH, 0.1, 256, -5), "seed: must be .* got -5"),
    "seed that is true": (_with_key(HASH, 0.1, 256, True), "expected a number, got True"),
    "key of three": (_with_key(HASH, 0.1, 256), "got a tuple"),
    "other runs": ({**BENCH, "test_acc_11": _renamed("test_acc_11", "x", 1)}, "other runs than"),
    "fewer runs": ({**BENCH, "test_acc_11": {FIRST: 1.0}}, "other runs than train_acc_11"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_file_that_is_wrong_is_one_line_and_no_table(kind: str, tmp_path: Path):
    bench, message = WRONG[kind]
    (tmp_path / "cellinfo.pkl").write_bytes(pickle.dumps({"hash": HASHES}, 4))
    (tmp_path / "bench12.pkl").write_bytes(pickle.dumps(bench, 4))
    with pytest.raises(RebenchError, match=message) as refused:
        ingest("nas-hpo-bench-ii", tmp_path, tmp_path / "out.parquet")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("hashes", [
    {"0|00|00": "a"}, {"4|00|000": "a"}, {"0|00|000": 1.5}, {"0|00|000": None}, {}, ["a"],
    {1: "a"},
], ids=str)  # fmt: skip
def test_cellinfo_that_is_wrong_is_one_line(hashes: object, tmp_path: Path):
    (tmp_path / "cellinfo.pkl").write_bytes(pickle.dumps({"hash": hashes}, 4))
    (tmp_path / "bench12.pkl").write_bytes(pickle.dumps(BENCH, 4))
    with pytest.raises(RebenchError, match=r"cellinfo\.pkl"):
        ingest("nas-hpo-bench-ii", tmp_path, tmp_path / "out.parquet")


def test_run_that_diverged_stays_a_run_without_a_number(tmp_path: Path):
    write_nas_hpo_bench(tmp_path, HASHES, _with("test_acc_11", float("nan")))
    ingest("nas-hpo-bench-ii", tmp_path, tmp_path / "out.parquet")
    rows = read_rows(tmp_path / "out.parquet")
    diverged = rows[rows["accuracy"].isna()]
    shared = sum(value == next(iter(BENCH["lr"]))[0] for value in HASHES.values())
    assert (len(diverged), set(diverged["split"])) == (shared, {"ori-test"})


def test_what_is_missing_or_misspelt_is_named(folder: Path, tmp_path: Path):
    with pytest.raises(UnknownNameError, match=r"valid: nas-hpo-bench-ii$"):
        ingest("nas-hpo-bench-2", folder, tmp_path / "out.parquet")
    with pytest.raises(MissingDataError, match=r"no cellinfo\.pkl"):
        ingest("nas-hpo-bench-ii", tmp_path, tmp_path / "out.parquet")
    with pytest.raises(InputError, match="no folder or file"):
        ingest("nas-hpo-bench-ii", tmp_path / "nothing", tmp_path / "out.parquet")
    with pytest.raises(InputError, match=r"must end in \.parquet"):
        ingest("nas-hpo-bench-ii", folder, tmp_path / "out.csv")
