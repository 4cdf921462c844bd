"""Records to columns: ``results.parquet``, a row a trial and split, and ``curves.parquet``.

Both are derived: the shards are the truth, and the tables can be built again at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from cells import Cell
from rebench.errors import StoreError
from rebench.store.results import garbage_kept, quarantine
from rebench.store.scan import Place, Scan, read_places, scan_records
from rebench.sweep import RecipeSpec
from rebench.tables.collected import Collected, keep, last_collected, source_of
from rebench.tables.columns import COLUMNS, ENVIRONMENT, RUN_COLUMNS, RUN_CURVES
from rebench.tables.lines import Curves, DamagedError, labelled, parse_lines
from rebench.tables.parquet import GROUP_ROWS, write_parquet

__all__ = ["collect", "newest_shard_ns"]

_PIECE_BYTES: Final = 32 << 20
# What is raised for a line that only looks like a record, or whose values fit no column.
_UNFIT: Final = (DamagedError, KeyError, TypeError, ValueError)


def collect(run: str | Path, *, set_aside: bool = False) -> Collected:
    """Build both tables of a run from its shards.

    Two records of one trial that disagree raise ConflictError, unless `set_aside`: then they and
    the damaged lines are quarantined. Where nothing has changed since, the tables stay.
    """
    run = Path(run)
    source = source_of(run)
    last = None if set_aside else last_collected(run, source)
    if last is not None:
        return last
    with garbage_kept():
        made = _collect(run, set_aside=set_aside)
    if not made.quarantined:
        keep(run, source, made)
    return made


def newest_shard_ns(run: Path) -> int | None:
    """Return when the records of a run last grew, in nanoseconds; None where it has none."""
    shards = (run / "results").glob("*.jsonl")
    return max((shard.stat().st_mtime_ns for shard in shards), default=None)


def _collect(run: Path, *, set_aside: bool) -> Collected:
    newest_ns = newest_shard_ns(run)
    # A line that begins and ends like a record almost always is one: at first none is parsed.
    if not set_aside:
        with contextlib.suppress(*_UNFIT):
            return _write(run, scan_records(run), newest_ns)
    found = scan_records(run, every=True)
    damaged = tuple(found.lines.damaged)
    quarantined = 0
    if set_aside and (damaged or found.lines.conflicts):
        quarantined = quarantine(run, found.lines)
    try:
        return _write(run, found, newest_ns, damaged=damaged, quarantined=quarantined)
    except _UNFIT as error:
        raise StoreError(f"the records of {run} do not fit into columns: {error}") from error


def _write(
    run: Path,
    found: Scan,
    newest_ns: int | None,
    *,
    damaged: tuple[str, ...] = (),
    quarantined: int = 0,
) -> Collected:
    found.lines.check()
    paths = run / "results.parquet", run / "curves.parquet"
    results = [pa.schema(RUN_COLUMNS).empty_table()]
    # As old as the newest shard that was read: one that grew meanwhile is newer.
    curves = _long_pieces(_curves(found, results))
    _write_table(paths[1], curves, pa.schema(RUN_CURVES), newest_ns)
    table = _joined(results)
    _write_table(paths[0], [table], table.schema, newest_ns)
    environments = table["environment"].unique().to_pylist()
    return Collected(
        trials=len(found.places),
        rows=table.num_rows,
        torn=tuple(found.lines.torn),
        environments=tuple(sorted(environments)),
        results=paths[0],
        curves=paths[1],
        duplicates=found.lines.duplicates,
        damaged=damaged or tuple(found.lines.damaged),
        quarantined=quarantined,
    )


def _write_table(
    path: Path, tables: Iterable[pa.Table], schema: pa.Schema, newest_ns: int | None
) -> None:
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    write_parquet(path, tables, schema, modified_ns=newest_ns, use_dictionary=texts)


def _curves(found: Scan, results: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the curves of all trials, a piece at a time, and add their last epochs to `results`.

    Rows are in order of trial ids, so that equal runs give equal files whatever their shards.
    """
    names = sorted(
        {name.decode() for name in found.splits}, key=lambda name: (name != "train", name)
    )
    labels = {place.recipe: _label(from_json(place.recipe)) for place in found.places.values()}
    for places in _pieces([found.places[trial_id] for trial_id in sorted(found.places)]):
        lines = read_places(places)
        records = parse_lines(b"\n".join([*lines, b""]), names, longest=max(map(len, lines)))
        last, curves = _tables(records, [labels[place.recipe] for place in places], names)
        # The scan takes splits from one record of each data set: one that only others have would
        # be missing.
        if last.num_rows != sum(place.curves for place in places):
            raise DamagedError("a record has curves of a split that others of its kind have not")
        results.append(last)
        yield curves


def _pieces(places: list[Place]) -> Iterator[list[Place]]:
    """Yield places of records that are worth starting all cores for and fit into memory."""
    piece: list[Place] = []
    size = 0
    for place in places:
        piece.append(place)
        size += place.size
        if size > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _long_pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of as many as a row group has: wherever they were cut."""
    rest: list[pa.Table] = []
    for table in tables:
        rest.append(table)
        while sum(map(len, rest)) >= GROUP_ROWS:
            whole = _joined(rest)
            yield whole.slice(0, GROUP_ROWS)
            rest = [whole.slice(GROUP_ROWS)]
    if rest:
        yield _joined(rest)


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _tables(records: pa.Table, labels: list[str], names: list[str]) -> tuple[pa.Table, pa.Table]:
    """Return one row per trial and split (its last epoch), and one per epoch (from 1) of these."""
    if len(labels) != records.num_rows:
        raise DamagedError("a line is not one record")
    trials = _trial_columns(records) | {"recipe": pa.array(labels).dictionary_encode()}
    curves = Curves(_part(records, "outcome.curves"), names, np.arange(len(labels)))
    columns = {name: column.take(curves.rows) for name, column in trials.items()} | curves.last
    results = pa.table({name: columns[name] for name in RUN_COLUMNS}).cast(pa.schema(RUN_COLUMNS))
    return results, curves.table(trials["trial_id"])


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
