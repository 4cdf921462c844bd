"""A run's tables as two files for others: all its rows and curves, and what they were made of."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from rebench.errors import InputError, StoreError
from rebench.runs import FinishedTrials
from rebench.tables.collecting import collect
from rebench.tables.layout import curves_path
from rebench.tables.parquet import ParquetFile, write_parquet

__all__ = ["Release", "records_digest", "release", "release_of"]

_KEY: Final = b"rebench.release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where a released table comes from.

    Attributes:
        title: what was trained, in a line.
        trials: how many records it holds.
        records_sha256: digest of these records (`records_digest`).
        environments: the versions that trained them.
    """

    title: str
    trials: int
    records_sha256: str
    environments: tuple[str, ...]


def release(run: Path, path: Path, *, title: str) -> Release:
    """Write all rows of a run to `path`, a Parquet file, and its curves beside it."""
    if path.suffix != ".parquet":
        raise InputError(f"a released table is a .parquet file, got {path}")
    finished = FinishedTrials(run).refresh()
    finished.check()
    if not finished.trials:
        raise InputError(f"{run} has no records to release")
    collected = collect(run)
    about = Release(
        title=title,
        trials=collected.trials,
        records_sha256=records_digest(finished.records.values()),
        environments=collected.environments,
    )
    if collected.trials != len(finished.trials):
        raise StoreError(f"{run} grew while it was read: release it again")
    told = {_KEY: json.dumps(dataclasses.asdict(about)).encode()}
    for source, target in ((collected.curves, curves_path(path)), (collected.results, path)):
        table = pq.read_table(source)
        schema = table.schema.with_metadata(told)
        write_parquet(target, [table.cast(schema)], schema, compression_level=19)
    return about


def records_digest(records: Iterable[dict[str, Any]]) -> str:
    """Return the SHA-256 of records, whatever shards they stand in and in whatever order."""
    lines = sorted(json.dumps(record, sort_keys=True, separators=(",", ":")) for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def release_of(path: Path) -> Release | None:
    """Return where a released table comes from; None of any other Parquet file."""
    told = ParquetFile(path).metadata.get(_KEY)
    if told is None:
        return None
    try:
        return TypeAdapter(Release).validate_json(told)
    except ValidationError as error:
        raise StoreError(f"{path} is damaged: its provenance is not what was written") from error
