"""Records to columns: ``results.parquet``, a row a trial and split, and ``curves.parquet``.

Both are derived: the shards are the truth, and the tables can be built again at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cells import Cell
from rebench.errors import StoreError
from rebench.store.results import Loaded, garbage_kept, load_records, quarantine
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
    with garbage_kept():
        return _collect(run, set_aside=set_aside)


def _collect(run: Path, *, set_aside: bool) -> Collected:
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
    records = list(_ordered(loaded))
    columns = _trial_columns(records)
    curves = [record["outcome"]["curves"] for record in records]
    counts = np.fromiter(map(len, curves), dtype=np.int64, count=len(curves))
    # Every column of a trial stands once for each of its splits.
    rows = pa.array(np.repeat(np.arange(len(records)), counts))
    repeated = {name: column.take(rows) for name, column in columns.items()}
    last = [curve for splits in curves for curve in splits.values()]
    names = pa.array([split for splits in curves for split in splits], pa.string())
    repeated["split"] = names.dictionary_encode()
    repeated["accuracy"] = pa.array([curve["accuracy"][-1] for curve in last], pa.float64())
    repeated["loss"] = pa.array([curve["loss"][-1] for curve in last], pa.float64())
    arrays = [repeated[name] for name in _RESULTS.names]
    return pa.Table.from_arrays(arrays, names=_RESULTS.names).cast(_RESULTS)


def _trial_columns(records: list[dict[str, Any]]) -> dict[str, pa.Array]:
    """Return the columns that all splits of a trial share, one entry a trial."""
    trials = [record["trial"] for record in records]
    cells = [trial["cell"] for trial in trials]
    indices = {cell: Cell.parse(cell).index for cell in set(cells)}
    outcomes = [record["outcome"] for record in records]
    costs = [record["cost"] for record in records]
    origins = [record["provenance"] for record in records]
    values: dict[str, list[Any]] = {
        "index": [indices[cell] for cell in cells],
        "arch": cells,
        "train_split": [trial["split"] for trial in trials],
        "recipe": [_label(trial["recipe"]) for trial in trials],
        "trial_id": [record["trial_id"] for record in records],
        "channels": [trial["skeleton"]["channels"] for trial in trials],
        "cells_per_stage": [trial["skeleton"]["cells_per_stage"] for trial in trials],
        "environment": [_environment(origin) for origin in origins],
    }
    for name in ("dataset", "epochs", "seed", "network"):
        values[name] = [trial[name] for trial in trials]
    for name in ("status", "diverged_epoch", "learning_rate"):
        values[name] = [outcome[name] for outcome in outcomes]
    for name in ("seconds", "images_per_s", "stack", "params_m", "mflops"):
        values[name] = [cost[name] for cost in costs]
    for name in ("device", "host", "slurm_job", "spec_hash", "started", "ended"):
        values[name] = [origin.get(name) for origin in origins]
    columns = {}
    for name, column in values.items():
        kind = _RESULTS.field(name).type
        is_text = pa.types.is_dictionary(kind)
        array = pa.array(column, kind.value_type if is_text else kind)
        columns[name] = array.dictionary_encode() if is_text else array
    return columns


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


def _write(table: pa.Table, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary, compression="zstd")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
