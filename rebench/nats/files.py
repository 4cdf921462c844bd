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

from cells import SPACE_SIZE, Cell
from rebench.datasets import BENCHMARK
from rebench.errors import InputError, UnsafeFileError
from rebench.safe_pickle import DROPPED_TENSORS, NUMPY_NAMES, ORDERED_DICT, load_pickle
from rebench.tables.columns import BENCHMARK_COLUMNS, SPLITS

__all__ = ["CellResults", "check_meta", "decompress", "file_index", "read_results"]

_NAME: Final = re.compile(r"(\d{1,6})\.pickle\.p?bz2")
_ALLOWED: Final = ORDERED_DICT | NUMPY_NAMES | DROPPED_TENSORS

# A record weighs 326 kB, four times its compressed size; one with its weights up to 200 MB.
_SMALL_BYTES: Final = 16 * 2**20
_LARGE_BYTES: Final = 512 * 2**20
_LARGEST_RATIO: Final = 16


@dataclass(slots=True)
class CellResults:
    """What one or more files hold, as columns: final values, and per-epoch curves as lists."""

    rows: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in BENCHMARK_COLUMNS}
    )
    curves: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "index",
                "dataset",
                "split",
                "epochs",
                "seed",
                "accuracy",
                "loss",
                "seconds",
            )
        }
    )


def file_index(name: str) -> int | None:
    """Return which cell a file of that name holds, or None where it is no cell's."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def decompress(data: bytes, what: str) -> bytes:
    """Return what a bzip2 file holds, as long as it is no larger than such files are."""
    limit = min(_LARGE_BYTES, max(_SMALL_BYTES, _LARGEST_RATIO * len(data)))
    pieces, total = [], 0
    while data:
        stream = bz2.BZ2Decompressor()
        while not stream.eof:
            try:
                piece = stream.decompress(data, max_length=2**20)
            except OSError as error:
                raise UnsafeFileError(f"{what}: not a bzip2 file ({error})") from error
            data = b""
            total += len(piece)
            if total > limit:
                raise UnsafeFileError(f"{what}: unpacks to more than {limit} bytes; refused")
            pieces.append(piece)
            if stream.needs_input and not stream.eof:
                raise UnsafeFileError(f"{what}: the file is truncated; fetch it again")
        data = stream.unused_data
    if not total:
        raise UnsafeFileError(f"{what}: the file is empty; fetch it again")
    return b"".join(pieces)


def _load(data: bytes, what: str) -> Any:
    content = decompress(data, what)
    return load_pickle(content, allow=_ALLOWED, max_bytes=len(content), what=what)


def check_meta(data: bytes, what: str) -> None:
    """Check that a ``meta`` file lists the topology space in its published order."""
    meta = _load(data, what)
    listed = meta.get("meta_archs") if isinstance(meta, Mapping) else None
    if not isinstance(listed, list) or len(listed) != SPACE_SIZE:
        raise InputError(f"{what}: not the list of the topology space's {SPACE_SIZE} cells")
    for index, text in enumerate(listed):
        if text != str(Cell.from_index(index)):
            raise InputError(f"{what}: cell {index} is {text!r}, not {Cell.from_index(index)}")


def read_results(data: bytes, index: int, what: str, into: CellResults) -> None:
    """Read one cell's file and append its rows and curves."""
    content = _load(data, what)
    try:
        found = list(_trials(content, index))
        rows = [row for trial in found for row in _trial_rows(*trial)]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
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
    for hp, results in content.items():
        epochs = int(hp)
        text = results["arch_str"]
        if results["arch_index"] != index or text != str(Cell.from_index(index)):
            raise ValueError(f"it holds cell {results['arch_index']}, {text!r}")
        for dataset, seeds in results["dataset_seed"].items():
            if dataset not in BENCHMARK:
                raise ValueError(f"unknown data set {dataset!r}")
            for seed in sorted(seeds):
                trial = results["all_results"][dataset, seed]
                if trial["epochs"] != epochs:
                    raise ValueError(f"{trial['epochs']} epochs under {hp!r}")
                yield index, epochs, dataset, int(seed), trial


def _trial_rows(
    index: int, epochs: int, dataset: str, seed: int, trial: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    cost = {
        "params_m": float(trial["params"]),
        "mflops": float(trial["flop"]),
        "latency_s": _latency_s(trial["latency"]),
    }
    identity = {"index": index, "dataset": dataset, "epochs": epochs, "seed": seed}
    curves = [("train", trial["train_acc1es"], trial["train_losses"], trial["train_times"], "")]
    for name in trial["eval_names"]:
        if name not in SPLITS:
            raise ValueError(f"unknown split {name!r}")
        metrics = (trial[key] for key in ("eval_acc1es", "eval_losses", "eval_times"))
        curves.append((name, *metrics, f"{name}@"))
    for split, accuracies, losses, times, prefix in curves:
        # What is missing at the last epoch was never evaluated after training.
        keys: list[Any] = [f"{prefix}{epoch}" if prefix else epoch for epoch in range(epochs)]
        if keys[-1] not in accuracies:
            continue
        accuracy, loss = (
            [_number(values.get(key)) for key in keys] for values in (accuracies, losses)
        )
        seconds = [_number((times or {}).get(key)) for key in keys]
        timed = None not in seconds
        row = {
            **identity, "split": split, "accuracy": accuracy[-1], "loss": loss[-1],
            "seconds": sum(seconds) if timed else math.nan,  # type: ignore[arg-type]  # all timed
            "epoch_seconds": seconds[-1] if timed else math.nan, **cost,
        }  # fmt: skip
        if len(accuracy) - accuracy.count(None) < 2:
            yield row, None
        else:
            steady = not timed or len(set(seconds)) == 1
            yield row, {"accuracy": accuracy, "loss": loss, "seconds": None if steady else seconds}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _latency_s(measured: Any) -> float:
    if not measured:
        return math.nan
    return float(sum(measured) / len(measured))
