"""The format of NATS-Bench's files: one bzip2-compressed pickle a cell, read as plain data.

A file maps a number of epochs ('12', '200') to an `ArchResults` state: its trials by (data set,
seed), each with per-epoch metrics. The benchmark's own package is the reference for every number.
"""

from __future__ import annotations

import bz2
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cells import Cell
from rebench.data import BENCHMARK
from rebench.data.safe_pickle import load_pickle, shown
from rebench.errors import InputError, UnsafeFileError
from rebench.tables.columns import BENCHMARK_COLUMNS, BENCHMARK_CURVES, RULES, SPLITS

__all__ = ["LARGEST_BYTES", "CellResults", "decompress", "file_index", "read_results"]

_NAME: Final = re.compile(r"(\d{1,6})\.pickle\.p?bz2", re.ASCII)
_EPOCHS: Final = re.compile(r"0*[1-9]\d{0,4}", re.ASCII)

# A record has 326 kB, four times its compressed size; the list of cells has 1.4 MB. A record with
# weights has up to 200 MB.
_SMALL_BYTES: Final = 2**21
LARGEST_BYTES: Final = 512 * 2**20
_LARGEST_RATIO: Final = 8
# At the end of every stream the rest of a piece is copied, so pieces are small.
_PIECE_BYTES: Final = 2**12
# The benchmark's largest record contains 17 trials with 2,460 epochs in total.
_MOST_CURVE_EPOCHS: Final = 50_000


@dataclass(slots=True)
class CellResults:
    """Contents of one or more files, as columns: final values, and per-epoch curves as lists."""

    rows: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in BENCHMARK_COLUMNS}
    )
    curves: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in BENCHMARK_CURVES}
    )


def file_index(name: str) -> int | None:
    """Return the cell of a file with this name, or None for other names."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def decompress(data: bytes, what: str) -> bytes:
    """Return the contents of a bzip2 file, within the largest size of such files."""
    limit = min(LARGEST_BYTES, max(_SMALL_BYTES, _LARGEST_RATIO * len(data)))
    content = bytearray()
    stream = bz2.BZ2Decompressor()
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        while piece:
            if stream.eof:
                stream = bz2.BZ2Decompressor()
            try:
                content += stream.decompress(piece, max_length=limit + 1 - len(content))
            except OSError as error:
                raise UnsafeFileError(f"{what}: not a bzip2 file ({error})") from error
            if len(content) > limit:
                raise UnsafeFileError(f"{what}: unpacks to more than {limit} bytes; refused")
            piece = stream.unused_data
    if data and not stream.eof:
        raise UnsafeFileError(f"{what}: the file is truncated; fetch it again")
    if not content:
        raise UnsafeFileError(f"{what}: the file is empty; fetch it again")
    return bytes(content)


def read_results(data: bytes, index: int, what: str, into: CellResults) -> None:
    """Read one cell's file and append its rows and curves."""
    content = load_pickle(decompress(data, what), max_bytes=LARGEST_BYTES, what=what)
    try:
        rows = [row for trial in _trials(content, index) for row in _trial_rows(*trial)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{what}: not a result of NATS-Bench's topology space ({type(error).__name__}: {error})"
        ) from error
    for row, curve in rows:
        for name, value in row.items():
            into.rows[name].append(value)
        if curve:
            for name, values in into.curves.items():
                values.append(curve[name] if name in curve else row[name])


def _trials(content: Any, index: int) -> Iterator[tuple[int, int, str, int, Mapping[str, Any]]]:
    claimed, seen = 0, set()
    for hp, results in _mapping(content, "the file").items():
        epochs = _epochs(hp)
        if epochs in seen:
            raise ValueError(f"{epochs} epochs occur twice")
        seen.add(epochs)
        text = _mapping(results, "results")["arch_str"]
        if (results["arch_index"], text) != (index, str(Cell.from_index(index))):
            raise ValueError(f"it contains cell {shown(results['arch_index'])}, {shown(text)}")
        held = _mapping(results["all_results"], "all_results")
        for dataset, seeds in _mapping(results["dataset_seed"], "dataset_seed").items():
            if dataset not in BENCHMARK:
                raise ValueError(f"unknown data set {shown(dataset)}")
            for seed in _seeds(seeds):
                trial = _mapping(held[dataset, seed], "a trial")
                if trial["epochs"] != epochs:
                    raise ValueError(f"{shown(trial['epochs'])} epochs under {hp!r}")
                claimed += epochs
                if claimed > _MOST_CURVE_EPOCHS:
                    raise ValueError(f"trials of more than {_MOST_CURVE_EPOCHS} epochs together")
                yield index, epochs, dataset, seed, trial


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what}: expected a dict, got {shown(value)}")
    return value


def _epochs(hp: Any) -> int:
    if not isinstance(hp, str) or not _EPOCHS.fullmatch(hp):
        raise ValueError(f"results under {shown(hp)} instead of a number of epochs up to 99999")
    return int(hp)


def _seeds(seeds: Any) -> list[int]:
    """Return the seeds of a data set in order; raise ValueError for a wrong or duplicate seed."""
    if not isinstance(seeds, list) or not all(type(s) is int and 0 <= s < 2**31 for s in seeds):
        raise ValueError("seeds must be a list of whole numbers from 0 to 2147483647")
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"a seed occurs twice among {len(seeds)}")
    return sorted(seeds)


def _eval_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(type(n) is str and n in SPLITS for n in names[:9]):
        raise ValueError(f"eval_names must be some of {', '.join(SPLITS[1:])}")
    if len(set(names[:9])) != len(names) or "train" in names:
        raise ValueError(f"a split occurs twice among {len(names)} eval_names")
    return names


def _trial_rows(
    index: int, epochs: int, dataset: str, seed: int, trial: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    cost = {
        "params_m": _within("params_m", [_number(trial["params"])])[0],
        "mflops": _within("mflops", [_number(trial["flop"])])[0],
        "latency_s": _latency_s(trial["latency"]),
    }
    measured = {"train": (trial["train_acc1es"], trial["train_losses"], trial["train_times"])}
    evaluated = trial["eval_acc1es"], trial["eval_losses"], trial["eval_times"]
    for split in _eval_names(trial["eval_names"]):
        measured[split] = evaluated
    for split, (accuracies, losses, times) in measured.items():
        keys: list[Any] = list(range(epochs))
        if split != "train":
            keys = [f"{split}@{epoch}" for epoch in keys]
        # A split without the last epoch was never evaluated after training.
        if keys[-1] not in _mapping(accuracies, "accuracies"):
            continue
        accuracy = _column("accuracy", accuracies, keys)
        loss = _column("loss", _mapping(losses, "losses"), keys)
        seconds = _column("seconds", _mapping(times or {}, "times"), keys)
        row = {
            "index": index,
            "dataset": dataset,
            "epochs": epochs,
            "seed": seed,
            "split": split,
            "accuracy": _number(accuracy[-1]),
            "loss": loss[-1],
            "seconds": math.nan,
            "epoch_seconds": math.nan,
            **cost,
        }
        steady = True
        if None not in seconds:
            row["seconds"] = sum(seconds)
            row["epoch_seconds"] = seconds[-1]
            steady = len(set(seconds)) == 1
        curve = None
        if len(accuracy) - accuracy.count(None) > 1:
            curve = {"accuracy": accuracy, "loss": loss, "seconds": None if steady else seconds}
        yield row, curve


def _column(column: str, values: Mapping[Any, Any], keys: list[Any]) -> list[Any]:
    """Return the checked values of all epochs; None is a missing measurement."""
    numbers: list[Any] = []
    for key in keys:
        value = values.get(key)
        if value is not None and type(value) is not float:
            value = _number(value)
        numbers.append(value)
    return _within(column, numbers)


def _within(column: str, numbers: list[Any]) -> list[Any]:
    """Return the numbers of a column after its checks; None is a missing measurement."""
    rule = RULES[column]
    for number in numbers:
        # NaN is valid for a loss: it means that the run diverged.
        if number is not None and not rule.least <= number <= rule.most:
            if column == "loss" and math.isnan(number):
                continue
            raise ValueError(f"{column} must be {rule.rule}, got {number}")
        if number == math.inf:
            raise ValueError(f"{column} must be finite, got {number}")
    return numbers


def _number(value: Any) -> float:
    no_number = isinstance(value, bool | np.complexfloating)
    if no_number or not isinstance(value, float | int | np.number):
        raise TypeError(f"expected a number, got {shown(value)}")
    return float(value)


def _latency_s(measured: Any) -> float:
    """Return the mean of the measured latencies, as the package computes it."""
    if measured is None or (isinstance(measured, list) and not measured):
        return math.nan
    if not isinstance(measured, list):
        raise TypeError(f"latency: expected a list, got {shown(measured)}")
    mean = sum(map(_number, measured)) / len(measured)
    if mean > RULES["latency_s"].most:
        raise ValueError(f"latency must be {RULES['latency_s'].rule}, got {mean}")
    # The package writes -1 if no latency was measured.
    return mean if mean > 0 else math.nan
