"""NAS-HPO-Bench-II: the cells without 1x1 convolutions at eight rates and six batch sizes.

Hirose, Yoshinari, Shirakawa (ACML 2021). ``cellinfo.pkl`` gives the hash of each code; codes with
the same hash are the same network. ``bench12.pkl`` contains, for each metric, a dict with the keys
(hash, rate, batch size, seed). A code's digits are the edges in the order of architecture strings,
as its training code builds them. The values of 200 epochs in ``avgaccs200.pkl`` are predictions of
a surrogate, not trainings, and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from cells import Cell
from cells.ops import AVG_POOL, CONV_3X3, NONE, SKIP
from rebench.data.safe_pickle import load_pickle, shown
from rebench.errors import MissingDataError, UnsafeFileError
from rebench.machine import bounded_memory
from rebench.runs import RecipeSpec
from rebench.tables.checks import check_column
from rebench.tables.columns import RULES

__all__ = ["read_nas_hpo_bench"]

_EPOCHS: Final = 12
_CODE: Final = re.compile(r"([0-3])\|([0-3])([0-3])\|([0-3])([0-3])([0-3])", re.ASCII)
_OPS: Final = (CONV_3X3, AVG_POOL, SKIP, NONE)
# Largest accepted size of each file; the published files have 232 MB in total.
_LARGEST_BYTES: Final = {"cellinfo.pkl": 64 * 2**20, "bench12.pkl": 2**30}
_MOST_MEMORY: Final = 8 * 2**30
_SPLITS: Final = {"train": "train", "valid": "x-valid", "test": "ori-test"}
_SETTING: Final = ("learning_rate", "batch_size", "seed")
_TIMES: Final = ("total_train_time", "total_trainval_time", "total_test_time")


def read_nas_hpo_bench(folder: Path) -> pd.DataFrame:
    """Return the trainings as a long table: a row per code, setting, seed and split."""
    cells = _read_cells(folder)
    hashes = {value: number for number, value in enumerate(dict.fromkeys(cells.values()))}
    path = folder / "bench12.pkl"
    with bounded_memory(str(path), most_bytes=_MOST_MEMORY):
        bench = _load(path)
        runs = _runs(bench, hashes, str(path))
    trained = pd.DataFrame(
        {"index": list(cells), "hash": [hashes[value] for value in cells.values()]}
    ).sort_values("index")
    trained["trained_as"] = trained.groupby("hash")["index"].transform("min")
    runs = trained.merge(runs, on="hash", how="inner")
    seconds = {
        "train": runs["total_train_time"],
        "valid": runs["total_trainval_time"] - runs["total_train_time"],
        "test": runs["total_test_time"],
    }
    archs = {index: str(Cell.from_index(index)) for index in cells}
    labels = {}
    for rate in set(runs["learning_rate"]):
        labels[rate] = RecipeSpec(name="fixed", parameters={"lr": rate}).label
    settings = runs[["index", "trained_as", *_SETTING]].assign(
        dataset="cifar10",
        train_split="cifar10-valid",
        epochs=_EPOCHS,
        weight_decay=5e-4,
        channels=16,
        cells_per_stage=5,
        arch=runs["index"].map(archs),
        recipe=runs["learning_rate"].map(labels),
    )
    parts = []
    for name, split in _SPLITS.items():
        accuracy = runs[f"{name}_acc_{_EPOCHS - 1}"]
        parts.append(settings.assign(split=split, accuracy=accuracy, seconds=seconds[name]))
    return pd.concat(parts, ignore_index=True)


def _read_cells(folder: Path) -> dict[int, str]:
    """Return the hash of every cell by its index."""
    path = folder / "cellinfo.pkl"
    with bounded_memory(str(path), most_bytes=_MOST_MEMORY):
        told = _dict(_load(path), f"{path}").get("hash")
    cells: dict[int, str] = {}
    for code, value in _dict(told, f"{path}: hash").items():
        match = _CODE.fullmatch(code) if type(code) is str else None
        if match is None or type(value) is not str:
            raise UnsafeFileError(
                f"{path}: {shown(code)} with hash {shown(value)}; a code is one, two and three "
                f"digits from 0 to 3, as in 0|10|210"
            )
        one, two, three, four, five, six = (_OPS[int(digit)] for digit in match.groups())
        cells[Cell((one, two, three, four, five, six)).index] = value
    if not cells:
        raise UnsafeFileError(f"{path}: no codes")
    return cells


def _load(path: Path) -> Any:
    largest = _LARGEST_BYTES[path.name]
    try:
        with path.open("rb") as stream:
            data = stream.read(largest + 1)
    except FileNotFoundError as error:
        raise MissingDataError(
            f"no {path.name} in {path.parent}; FOLDER contains {' and '.join(_LARGEST_BYTES)} of "
            f"NAS-HPO-Bench-II (`rebench table fetch nas-hpo-bench-ii` says where to get them)"
        ) from error
    except OSError as error:
        raise MissingDataError(f"{path}: {error.strerror or error}") from error
    if len(data) > largest:
        raise UnsafeFileError(f"{path}: larger than {largest} bytes; refused")
    return load_pickle(data, max_bytes=largest, what=str(path))


def _runs(bench: Any, hashes: Mapping[str, int], what: str) -> pd.DataFrame:
    """Return setting and metrics of every run, checked by the rules of our columns."""
    held = _dict(bench, what)
    metrics = {f"{split}_acc_{_EPOCHS - 1}": "accuracy" for split in _SPLITS}
    metrics |= dict.fromkeys(_TIMES, "seconds")
    told = {name: _dict(held.get(name), f"{what}: {name}") for name in metrics}
    keys: list[Any] = list(told[f"train_acc_{_EPOCHS - 1}"])
    for name, values in told.items():
        # Dicts made from one data frame have the same keys in the same order; other dicts are
        # refused.
        if list(values) != keys:
            raise UnsafeFileError(
                f"{what}: {name} has other runs than train_acc_11, or in another order"
            )
    for key in keys:
        if type(key) is not tuple or len(key) != 1 + len(_SETTING):
            raise UnsafeFileError(
                f"{what}: expected (hash, lr, batch_size, seed), got {shown(key)}"
            )
        if key[0] not in hashes:
            raise UnsafeFileError(f"{what}: hash {shown(key[0])} is of no cell in cellinfo.pkl")
    own, *setting = zip(*keys, strict=True)
    columns = {}
    for name, values in told.items():
        columns[name] = _checked(name, metrics[name], list(values.values()), what)
    for name, told_of in zip(_SETTING, setting, strict=True):
        columns[name] = _checked(name, name, list(told_of), what)
    runs = pd.DataFrame(columns)
    if (runs["learning_rate"] == 0).any():
        raise UnsafeFileError(f"{what}: learning_rate: must be above 0")
    return runs.assign(hash=[hashes[value] for value in own])


def _checked(name: str, rule: str, values: list[Any], what: str) -> pd.Series[Any]:
    for value in values:
        if type(value) not in (float, int):
            raise UnsafeFileError(f"{what}: {name}: expected a number, got {shown(value)}")
    # NaN is valid for an accuracy: it means that the run diverged.
    told = pd.Series(values, name=name)
    return check_column(told, RULES[rule], what, complete=rule != "accuracy")


def _dict(value: Any, what: str) -> dict[Any, Any]:
    if type(value) is not dict:
        raise UnsafeFileError(f"{what}: expected a dict, got {shown(value)}")
    return value
