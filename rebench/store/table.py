"""Records to columns: ``results.parquet``, a row a trial and split, and ``curves.parquet``.

Both are derived: the shards are the truth, and the tables can be built again at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cells import Cell
from rebench.errors import StoreError
from rebench.store.results import Loaded, load_records, quarantine
from rebench.sweep import RecipeSpec

__all__ = ["Collected", "collect", "curves_table", "results_table"]

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

_RESULTS: Final = pa.schema(
    {
        "index": pa.int32(),
        "dataset": _TEXT,
        "split": _TEXT,
        "epochs": pa.int32(),
        "seed": pa.int32(),
        "accuracy": pa.float64(),
        "loss": pa.float64(),
        "recipe": _TEXT,
        "trial_id": pa.string(),
        "status": _TEXT,
        "diverged_epoch": pa.int32(),
        "learning_rate": pa.float64(),
        "seconds": pa.float64(),
        "images_per_s": pa.float64(),
        "stack": pa.int32(),
        "params_m": pa.float64(),
        "mflops": pa.float64(),
        "arch": _TEXT,
        "train_split": _TEXT,
        "channels": pa.int32(),
        "cells_per_stage": pa.int32(),
        "network": _TEXT,
        "device": _TEXT,
        "host": _TEXT,
        "slurm_job": _TEXT,
        "spec_hash": _TEXT,
        "environment": _TEXT,
        "started": pa.string(),
        "ended": pa.string(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What `collect` made of a run's records."""

    trials: int
    rows: int
    duplicates: int
    torn: tuple[str, ...]
    damaged: tuple[str, ...]
    quarantined: int
    environments: tuple[str, ...]
    results: Path
    curves: Path


def collect(run: Path, *, set_aside: bool = False) -> Collected:
    """Build both tables of a run from its shards.

    Two records of one trial that disagree raise ConflictError, unless `set_aside`: then they and
    the damaged lines are quarantined.
    """
    loaded = load_records(run)
    damaged = tuple(loaded.damaged)
    set_aside_count = 0
    if set_aside and (loaded.damaged or loaded.conflicts):
        set_aside_count = quarantine(run, loaded)
    loaded.check()
    results = results_table(loaded)
    _write(results, run / "results.parquet")
    _write(curves_table(loaded), run / "curves.parquet")
    return Collected(
        trials=len(loaded.records),
        rows=results.num_rows,
        duplicates=loaded.duplicates,
        torn=tuple(loaded.torn),
        damaged=damaged,
        quarantined=set_aside_count,
        environments=tuple(sorted(results["environment"].unique().to_pylist())),
        results=run / "results.parquet",
        curves=run / "curves.parquet",
    )


def results_table(loaded: Loaded) -> pa.Table:
    """Return one row per trial and evaluated split: the last epoch's accuracy and loss."""
    columns: dict[str, list[Any]] = defaultdict(list)
    indices: dict[str, int] = {}
    for record in _ordered(loaded):
        trial, outcome, origin = record["trial"], record["outcome"], record["provenance"]
        cell = trial["cell"]
        if cell not in indices:
            indices[cell] = Cell.parse(cell).index
        row = {
            "index": indices[cell],
            "dataset": trial["dataset"],
            "epochs": trial["epochs"],
            "seed": trial["seed"],
            "recipe": _label(trial["recipe"]),
            "trial_id": record["trial_id"],
            "status": outcome["status"],
            "diverged_epoch": outcome["diverged_epoch"],
            "learning_rate": outcome["learning_rate"],
            "arch": cell,
            "train_split": trial["split"],
            "channels": trial["skeleton"]["channels"],
            "cells_per_stage": trial["skeleton"]["cells_per_stage"],
            "network": trial["network"],
            "environment": _environment(origin),
        }
        row |= {name: record["cost"][name] for name in _COST}
        row |= {name: origin.get(name) for name in _ORIGIN}
        splits = outcome["curves"]
        for name, value in row.items():
            columns[name].extend([value] * len(splits))
        for split, curve in splits.items():
            columns["split"].append(split)
            columns["accuracy"].append(curve["accuracy"][-1])
            columns["loss"].append(curve["loss"][-1])
    arrays = [pa.array(columns[field.name], _plain(field.type)) for field in _RESULTS]
    return pa.Table.from_arrays(arrays, names=_RESULTS.names).cast(_RESULTS)


def curves_table(loaded: Loaded) -> pa.Table:
    """Return one row per trial, split and epoch (from 1)."""
    ids: list[str] = []
    splits: list[str] = []
    accuracy: list[float | None] = []
    loss: list[float | None] = []
    lengths: list[int] = []
    for record in _ordered(loaded):
        for split, curve in record["outcome"]["curves"].items():
            ids.append(record["trial_id"])
            splits.append(split)
            lengths.append(len(curve["accuracy"]))
            accuracy.extend(curve["accuracy"])
            loss.extend(curve["loss"])
    counts = np.array(lengths, dtype=np.int64)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    total = int(counts.sum())
    epochs = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    split_column = pa.array(splits, pa.string()).dictionary_encode()
    return pa.table(
        {
            "trial_id": pa.DictionaryArray.from_arrays(rows, pa.array(ids, pa.string())),
            "split": split_column.take(pa.array(rows)),
            "epoch": pa.array(epochs, pa.int32()),
            "accuracy": pa.array(accuracy, pa.float64()),
            "loss": pa.array(loss, pa.float64()),
        }
    )


_COST: Final = ("seconds", "images_per_s", "stack", "params_m", "mflops")
_ORIGIN: Final = ("device", "host", "slurm_job", "spec_hash", "started", "ended")


def _ordered(loaded: Loaded) -> Iterable[dict[str, Any]]:
    """Records by trial id, so that equal runs give equal files whatever their shards' order."""
    return (loaded.records[trial_id] for trial_id in sorted(loaded.records))


def _label(recipe: dict[str, Any]) -> str:
    if not recipe["parameters"]:
        return str(recipe["name"])
    return RecipeSpec(**recipe).label


def _environment(origin: dict[str, Any]) -> str:
    commit = (
        f" ({origin['commit'][:12]}{'+' if origin['dirty'] else ''})" if origin["commit"] else ""
    )
    cuda = f", CUDA {origin['cuda']}" if origin["cuda"] else ""
    return f"rebench {origin['rebench']}{commit}, torch {origin['torch']}{cuda}"


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _write(table: pa.Table, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
