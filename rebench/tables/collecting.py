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
from rebench.store import atomic_file
from rebench.store.results import garbage_kept, load_records, quarantine, read_texts
from rebench.sweep import RecipeSpec
from rebench.tables.columns import COLUMNS, ENVIRONMENT, RUN_COLUMNS, RUN_CURVES
from rebench.tables.lines import Curves, DamagedError, labelled, order_of, parse_lines

__all__ = ["Collected", "collect", "newest_shard_ns"]

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


def newest_shard_ns(run: Path) -> int | None:
    """Return when the records of a run last grew, in nanoseconds; None where it has none."""
    shards = (run / "results").glob("*.jsonl")
    return max((shard.stat().st_mtime_ns for shard in shards), default=None)


def _collect(run: Path, *, set_aside: bool) -> Collected:
    newest_ns = newest_shard_ns(run)
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
        return _write(run, tables, newest_ns, trials=len(glance.recipes), torn=tuple(glance.torn))
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
        newest_ns,
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
    names = sorted(set(splits), key=lambda name: (name != "train", name))
    if not names:
        return pa.schema(RUN_COLUMNS).empty_table(), pa.schema(RUN_CURVES).empty_table()
    records = pa.concat_tables(
        parse_lines(text, names, longest=longest) for text in _in_large_pieces(texts)
    )
    if len(labels) != records.num_rows:
        raise DamagedError("a line is not one record")
    trials = _trial_columns(records) | {"recipe": pa.array(labels).dictionary_encode()}
    order = order_of(trials["trial_id"])
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    curves = Curves(_part(records, "outcome.curves"), names, ranks)
    columns = {name: column.take(curves.rows) for name, column in trials.items()} | curves.last
    results = pa.table({name: columns[name] for name in RUN_COLUMNS}).cast(pa.schema(RUN_COLUMNS))
    return results, curves.table(trials["trial_id"].take(pa.array(order)))


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
    columns = {one.name: _part(records, one.place) for one in COLUMNS if one.place}
    columns["index"] = labelled(columns["arch"], lambda cell: Cell.parse(cell).index)
    origin = [pc.cast(_part(records, place), pa.string()) for place in ENVIRONMENT]
    told = pc.binary_join_element_wise(*origin, "\n", null_handling="replace")
    columns["environment"] = labelled(told, lambda key: _environment(*key.split("\n")))
    return {
        name: column.dictionary_encode() if pa.types.is_dictionary(RUN_COLUMNS[name]) else column
        for name, column in columns.items()
    }


def _part(records: pa.Table, place: str) -> pa.Array:
    """Return what stands in one place of every record."""
    first, *inner = place.split(".")
    column = records[first]
    return (pc.struct_field(column, inner) if inner else column).combine_chunks()


def _label(recipe: dict[str, Any]) -> str:
    if not recipe["parameters"]:
        return str(recipe["name"])
    return RecipeSpec(**recipe).label


def _environment(rebench: str, commit: str, dirty: str, torch: str, cuda: str) -> str:
    code = f" ({commit[:12]}{'+' if dirty == 'true' else ''})" if commit else ""
    return f"rebench {rebench}{code}, torch {torch}{f', CUDA {cuda}' if cuda else ''}"


def _write(
    run: Path, tables: tuple[pa.Table, pa.Table], newest_ns: int | None, **facts: Any
) -> Collected:
    results = tables[0]
    paths = run / "results.parquet", run / "curves.parquet"
    for table, path in reversed(list(zip(tables, paths, strict=True))):
        texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        with atomic_file(path) as unfinished:
            pq.write_table(table, unfinished, compression="zstd", use_dictionary=texts)
            if newest_ns is not None:  # a shard that grew while it was read is newer than this
                os.utime(unfinished, ns=(newest_ns, newest_ns))
    environments = results["environment"].unique().to_pylist()
    return Collected(
        rows=results.num_rows,
        environments=tuple(sorted(environments)),
        results=paths[0],
        curves=paths[1],
        **facts,
    )
