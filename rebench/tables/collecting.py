"""Records to columns: ``results.parquet``, a row a trial and split, and ``curves.parquet``.

Both are derived: the shards are the truth, and the tables can be built again at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic_core import from_json, to_json

from cells import Cell
from rebench.errors import StoreError
from rebench.store.results import garbage_kept, load_records, quarantine, read_texts
from rebench.sweep import RecipeSpec
from rebench.tables.lines import (
    Curves,
    DamagedError,
    from_numpy,
    from_texts,
    labelled,
    one_chunk,
    order_of,
    parse_lines,
)

__all__ = ["Collected", "collect"]

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


_CURVES: Final = pa.schema(
    {
        "trial_id": _TEXT,
        "split": _TEXT,
        "epoch": pa.int32(),
        "accuracy": pa.float64(),
        "loss": pa.float64(),
    }
)
# Columns that are called as in the record, by the part of the record that holds them.
_PARTS: Final = {
    "trial": ("dataset", "epochs", "seed", "network"),
    "outcome": ("status", "diverged_epoch", "learning_rate"),
    "cost": ("seconds", "images_per_s", "stack", "params_m", "mflops"),
    "provenance": ("device", "host", "slurm_job", "spec_hash", "started", "ended"),
}
_ENVIRONMENT: Final = ("rebench", "commit", "dirty", "torch", "cuda")

_PIECE_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What `collect` made of a run's records."""

    trials: int
    rows: int
    torn: tuple[str, ...]
    environments: tuple[str, ...]
    results: Path
    curves: Path
    duplicates: int = 0
    damaged: tuple[str, ...] = ()
    quarantined: int = 0


def collect(run: Path, *, set_aside: bool = False) -> Collected:
    """Build both tables of a run from its shards.

    Two records of one trial that disagree raise ConflictError, unless `set_aside`: then they and
    the damaged lines are quarantined.
    """
    with garbage_kept():
        return _collect(run, set_aside=set_aside)


def _collect(run: Path, *, set_aside: bool) -> Collected:
    # Almost always every line is a whole record and no trial has two: then none is looked into.
    glance = read_texts(run)
    tables = None
    if glance is not None:
        with contextlib.suppress(DamagedError):
            labels = {recipe: _label(from_json(recipe)) for recipe in set(glance.recipes)}
            tables = _tables(
                glance.texts,
                [labels[recipe] for recipe in glance.recipes],
                [split.decode() for split in glance.splits],
            )
    # A split that the sampled records do not name would be missing: then every record is asked.
    if tables is not None and glance is not None and tables[0].num_rows == glance.curves:
        return _write(run, tables, trials=len(glance.recipes), torn=tuple(glance.torn))
    loaded = load_records(run)
    damaged = tuple(loaded.damaged)
    quarantined = 0
    if set_aside and (loaded.damaged or loaded.conflicts):
        quarantined = quarantine(run, loaded)
    loaded.check()
    records = list(loaded.records.values())
    lines = [to_json(record) + b"\n" for record in records]
    try:
        tables = _tables(
            [b"".join(lines)] if lines else [],
            [_label(record["trial"]["recipe"]) for record in records],
            [split for record in records for split in record["outcome"]["curves"]],
            longest=max(map(len, lines), default=0),
        )
    except (DamagedError, KeyError, TypeError) as error:
        raise StoreError(f"the records of {run} do not fit into columns: {error}") from error
    return _write(
        run,
        tables,
        trials=len(records),
        torn=tuple(loaded.torn),
        duplicates=loaded.duplicates,
        damaged=damaged,
        quarantined=quarantined,
    )


def _tables(
    texts: list[bytes], labels: list[str], splits: Iterable[str], *, longest: int = 0
) -> tuple[pa.Table, pa.Table]:
    """Return one row per trial and split (its last epoch), and one per epoch (from 1) of these.

    Rows are in order of trial ids, so that equal runs give equal files whatever their shards.
    """
    if not texts:
        return _RESULTS.empty_table(), _CURVES.empty_table()
    names = sorted(set(splits), key=lambda name: (name != "train", name))
    records = pa.concat_tables(
        parse_lines(text, names, longest=longest) for text in _in_large_pieces(texts)
    )
    if len(labels) != records.num_rows:
        raise DamagedError("a line is not one record")
    trials = _trial_columns(records.append_column("recipe", from_texts(labels)))
    order = order_of(trials["trial_id"])
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    curves = Curves(one_chunk(pc.struct_field(records["outcome"], "curves")), names, ranks)
    columns = {name: column.take(curves.rows) for name, column in trials.items()}
    columns |= {"split": curves.split_names, "accuracy": curves.last[0], "loss": curves.last[1]}
    results = pa.Table.from_arrays([columns[name] for name in _RESULTS.names], _RESULTS.names)
    ids = trials["trial_id"].take(from_numpy(order, pa.int64()))
    return results.cast(_RESULTS), curves.table(ids).cast(_CURVES)


def _in_large_pieces(texts: list[bytes]) -> Iterator[bytes]:
    """Yield texts joined to pieces that are worth starting all cores for."""
    piece: list[bytes] = []
    size = 0
    for text in texts:
        piece.append(text)
        size += len(text)
        if size > _PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _trial_columns(records: pa.Table) -> dict[str, pa.Array]:
    """Return the columns that all splits of a trial share, one entry a trial."""

    def part(group: str, *path: str) -> pa.Array:
        return one_chunk(pc.struct_field(records[group], list(path)))

    columns = {
        "arch": part("trial", "cell"),
        "train_split": part("trial", "split"),
        "recipe": one_chunk(records["recipe"]),
        "channels": part("trial", "skeleton", "channels"),
        "cells_per_stage": part("trial", "skeleton", "cells_per_stage"),
    }
    for group, names in _PARTS.items():
        columns |= {name: part(group, name) for name in names}
    columns["index"] = labelled(columns["arch"], lambda cell: Cell.parse(cell).index)
    origin = [pc.cast(part("provenance", name), pa.string()) for name in _ENVIRONMENT]
    newline = from_texts(["\n"])[0]  # a plain str would import pandas
    told = pc.binary_join_element_wise(*origin, newline, null_handling="replace")
    columns["environment"] = labelled(told, lambda key: _environment(*key.split("\n")))
    columns = {
        name: column.dictionary_encode() if pa.types.is_string(column.type) else column
        for name, column in columns.items()
    }
    return columns | {"trial_id": one_chunk(records["trial_id"])}


def _label(recipe: dict[str, Any]) -> str:
    if not recipe["parameters"]:
        return str(recipe["name"])
    return RecipeSpec(**recipe).label


def _environment(rebench: str, commit: str, dirty: str, torch: str, cuda: str) -> str:
    code = f" ({commit[:12]}{'+' if dirty == 'true' else ''})" if commit else ""
    return f"rebench {rebench}{code}, torch {torch}{f', CUDA {cuda}' if cuda else ''}"


def _write(run: Path, tables: tuple[pa.Table, pa.Table], **facts: Any) -> Collected:
    results = tables[0]
    paths = run / "results.parquet", run / "curves.parquet"
    for table, path in zip(tables, paths, strict=True):
        _write_table(table, path)
    environments = results["environment"].unique().to_pylist()
    return Collected(
        rows=results.num_rows,
        environments=tuple(sorted(environments)),
        results=paths[0],
        curves=paths[1],
        **facts,
    )


def _write_table(table: pa.Table, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    try:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=texts)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
