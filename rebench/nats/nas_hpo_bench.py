"""NAS-HPO-Bench-II: the cells without 1x1 convolutions at eight rates and six batch sizes.

Hirose, Yoshinari, Shirakawa (ACML 2021). ``cellinfo.pkl`` says which codes are one network (by a
hash), ``bench12.pkl`` holds a dict per metric by (hash, rate, batch size, seed). A code's digits
are the edges in the order of architecture strings, as its training code builds them. What
``avgaccs200.pkl`` says of 200 epochs are predictions of a surrogate and no trainings: left out.
"""

from __future__ import annotations

import hashlib
import logging
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import Cell
from cells.ops import AVG_POOL, CONV_3X3, NONE, SKIP
from rebench.errors import MissingDataError, UnsafeFileError
from rebench.machine import bounded_memory
from rebench.nats.catalogue import FILES
from rebench.safe_pickle import load_pickle, shown
from rebench.sweep import RecipeSpec
from rebench.tables.longfile import check_digest

__all__ = ["read_nas_hpo_bench"]


_log = logging.getLogger("rebench.nats")

_EPOCHS: Final = 12
_CODE: Final = re.compile(r"([0-3])\|([0-3])([0-3])\|([0-3])([0-3])([0-3])", re.ASCII)
_OPS: Final = (CONV_3X3, AVG_POOL, SKIP, NONE)
# Published: 232 MB together.
_LARGEST_BYTES: Final = {"cellinfo.pkl": 64 * 2**20, "bench12.pkl": 2**30}
_MOST_MEMORY: Final = 8 * 2**30
_SPLITS: Final = {"train": "train", "valid": "x-valid", "test": "ori-test"}
_TIMES: Final = ("total_train_time", "total_trainval_time", "total_test_time")


def read_nas_hpo_bench(folder: Path) -> pd.DataFrame:
    """Its trainings as a long table: a row per code, setting, seed and split."""
    cells = _read_cells(folder)
    path = folder / "bench12.pkl"
    with bounded_memory(str(path), most_bytes=_MOST_MEMORY):
        bench = _load(path)
        keys, columns = _columns(bench, str(path))
    hashes = {value: number for number, value in enumerate(dict.fromkeys(cells.values()))}
    settings = _settings(keys, hashes, str(path))
    runs = pd.DataFrame({**settings, **columns})
    trained = pd.DataFrame(
        {"index": list(cells), "hash": [hashes[value] for value in cells.values()]}
    ).sort_values("index")
    trained["trained_as"] = trained.groupby("hash")["index"].transform("min")
    return _long(trained.merge(runs, on="hash", how="inner"))


def _long(runs: pd.DataFrame) -> pd.DataFrame:
    labels = {
        rate: RecipeSpec(name="fixed", parameters={"lr": rate}).label for rate in set(runs["lr"])
    }
    arch = {index: str(Cell.from_index(index)) for index in set(runs["index"])}
    shared = {
        "index": runs["index"],
        "arch": runs["index"].map(arch),
        "dataset": "cifar10",
        "train_split": "cifar10-valid",
        "epochs": _EPOCHS,
        "seed": runs["seed"],
        "recipe": runs["lr"].map(labels),
        "learning_rate": runs["lr"],
        "batch_size": runs["batch_size"],
        "weight_decay": 5e-4,
        "channels": 16,
        "cells_per_stage": 5,
        "trained_as": runs["trained_as"],
    }
    seconds = {
        "train": runs["total_train_time"],
        "valid": runs["total_trainval_time"] - runs["total_train_time"],
        "test": runs["total_test_time"],
    }
    rows: pd.DataFrame = pd.concat(
        [
            pd.DataFrame(
                {**shared, "split": split, "accuracy": runs[name], "seconds": seconds[name]}
            )
            for name, split in _SPLITS.items()
        ],
        ignore_index=True,
    )
    return rows


def _read_cells(folder: Path) -> dict[int, str]:
    """The hash of every cell by its index."""
    path = folder / "cellinfo.pkl"
    with bounded_memory(str(path), most_bytes=_MOST_MEMORY):
        told = _dict(_load(path), f"{path}: what it holds").get("hash")
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
            f"no {path.name} in {path.parent}; FOLDER holds {', '.join(FILES)} of NAS-HPO-Bench-II "
            f"(`rebench table fetch nas-hpo-bench-ii --out FOLDER` says where to get them)"
        ) from error
    except OSError as error:
        raise MissingDataError(f"{path}: {error.strerror or error}") from error
    if len(data) > largest:
        raise UnsafeFileError(f"{path}: larger than {largest} bytes; refused")
    if not check_digest(path, data):
        _log.warning(
            "%s is not verified: its publisher tells no digest. Its SHA-256 is %s; a right one in "
            "%s.sha256 beside it would be compared",
            path,
            hashlib.sha256(data).hexdigest(),
            path.name,
        )
    return load_pickle(data, max_bytes=largest, what=str(path))


def _columns(bench: Any, what: str) -> tuple[list[Any], dict[str, NDArray[np.float64]]]:
    """The keys of all runs, and what is kept of the metrics, in their order."""
    held = _dict(bench, f"{what}: what it holds")
    names = {split: f"{split}_acc_{_EPOCHS - 1}" for split in _SPLITS} | {
        time: time for time in _TIMES
    }
    keys: list[Any] | None = None
    columns = {}
    for name, column in names.items():
        values = _dict(held.get(column), f"{what}: {column}")
        keys = list(values) if keys is None else keys
        # Dicts made of one frame have the same keys in the same order; others are not read.
        if list(values) != keys:
            raise UnsafeFileError(
                f"{what}: {column} has other runs than train_acc_11, or in another order"
            )
        columns[name] = _numbers(list(values.values()), f"{what}: {column}", name in _SPLITS)
    backwards = columns["total_trainval_time"] < columns["total_train_time"]
    if backwards.any():
        raise UnsafeFileError(
            f"{what}: total_trainval_time of {(keys or [])[int(backwards.argmax())]} is less than "
            f"its total_train_time: time does not run backwards"
        )
    return keys or [], columns


def _settings(keys: list[Any], hashes: dict[str, int], what: str) -> dict[str, list[Any]]:
    """The settings of every run, checked one by one."""
    settings: dict[str, list[Any]] = {"hash": [], "lr": [], "batch_size": [], "seed": []}
    for key in keys:
        if type(key) is not tuple or len(key) != 4:
            raise UnsafeFileError(
                f"{what}: {shown(key)} where (hash, lr, batch_size, seed) must be"
            )
        value, rate, batch, seed = key
        if value not in hashes:
            raise UnsafeFileError(f"{what}: hash {shown(value)} is of no cell in cellinfo.pkl")
        if type(rate) is not float or not 0 < rate <= 100:
            raise UnsafeFileError(f"{what}: learning rate {shown(rate)}; it must be in (0, 100]")
        if type(batch) is not int or not 1 <= batch <= 65536:
            raise UnsafeFileError(f"{what}: batch size {shown(batch)}; it must be in 1..65536")
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise UnsafeFileError(f"{what}: seed {shown(seed)}; it must be in 0..2147483647")
        for name, part in zip(settings, (hashes[value], rate, batch, seed), strict=True):
            settings[name].append(part)
    return settings


def _numbers(values: list[Any], what: str, percent: bool) -> NDArray[np.float64]:
    wrong = next((value for value in values if type(value) not in (float, int)), None)
    if wrong is not None:
        raise UnsafeFileError(f"{what}: {shown(wrong)} where a number must be")
    numbers = np.array(values, dtype=np.float64)
    # An accuracy that is not a number is that of a run which diverged.
    outside = (numbers < 0) | np.isinf(numbers) | ((numbers > 100) & percent)
    if not percent:
        outside |= np.isnan(numbers)
    if outside.any():
        rule = "from 0 to 100 percent" if percent else "a time in seconds"
        raise UnsafeFileError(f"{what}: must be {rule}, got {numbers[outside][0]}")
    return numbers


def _dict(value: Any, what: str) -> dict[Any, Any]:
    if type(value) is not dict:
        raise UnsafeFileError(f"{what}: {shown(value)} where a dict must be")
    return value
