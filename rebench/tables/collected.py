"""What a run's tables were collected from, kept beside them: whether they hold what there is.

Shards grow at their ends, but nothing keeps a hand from editing one, so a file counts as unchanged
only if its size, its times and its number on the disk are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from rebench.errors import InputError, StoreError
from rebench.runs import Plain, write_atomically
from rebench.runs.files import open_file, read_file
from rebench.runs.record import SCHEMA_VERSION
from rebench.tables.columns import RUN_COLUMNS, RUN_CURVES
from rebench.tables.parquet import ParquetFile
from rebench.version import version

__all__ = ["Collected", "current", "keep", "newest_shard_ns", "records_state", "whole"]

_FILE: Final = "collected.json"
# To be raised when equal records are to give other tables, in columns that are named as before.
_LAYOUT: Final = 2


class Collected(Plain):
    """What `collect` made of a run's records."""

    results: Path
    curves: Path
    trials: int
    rows: int
    environments: tuple[str, ...]
    duplicates: int = 0
    damaged: tuple[str, ...] = ()
    """Where damaged lines stand."""
    problems: tuple[str, ...] = ()
    """What is wrong with the files and what to do, a line each."""
    quarantined: int = 0
    asked: int = 0
    """How many trials the run is to have; 0 where it has no list of them."""
    missing: int = 0
    """How many of these have no row in the tables."""


class _Kept(Plain):
    """What the file holds."""

    state: str
    tables: tuple[str, str]
    made: Collected


def newest_shard_ns(run: Path) -> int | None:
    """When the records of a run last grew, in nanoseconds; None where it has none."""
    return max((status.st_mtime_ns for _, status in _shards(run)), default=None)


def _shards(run: Path, *others: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the shards of a run, and other files, that can be read."""
    for path in [*sorted((run / "results").glob("*.jsonl")), *others]:
        # What has been opened is asked of a file server anew.
        with contextlib.suppress(OSError), open_file(path) as file:
            yield path, os.fstat(file.fileno())


def records_state(run: Path) -> str:
    """A digest that changes when the records of a run do."""
    # By name what is no file too: whoever reads the records says so.
    names = sorted(path.name for path in (run / "results").glob("*.jsonl"))
    told = [f"{version()} {_LAYOUT} {SCHEMA_VERSION} {RUN_COLUMNS} {RUN_CURVES} {names}"]
    for path, now in _shards(run, run / "quarantine.jsonl"):
        times = f"{now.st_mtime_ns} {now.st_ctime_ns}"
        told.append(f"{path.name} {now.st_ino} {now.st_size} {times}")
    # A name may be no text in UTF-8.
    return hashlib.sha256("\n".join(told).encode(errors="surrogateescape")).hexdigest()


def keep(run: Path, state: str, made: Collected) -> None:
    """Keep what was made of records that were in this state before they were read."""
    # Without it the records are read again.
    with contextlib.suppress(StoreError, InputError):
        tables = ParquetFile(made.results).digest, ParquetFile(made.curves).digest
        kept = _Kept(state=state, tables=tables, made=made)
        write_atomically(run / _FILE, kept.model_dump_json().encode())


def current(run: Path) -> Collected | None:
    """What a run's tables hold; None if a record was added or taken since they were made.

    The tables are not read: who does verifies them.
    """
    try:
        kept = _Kept.model_validate_json(read_file(run / _FILE))
        tables = tuple(
            ParquetFile(run / f"{name}.parquet").digest for name in ("results", "curves")
        )
    except (OSError, ValidationError, StoreError, InputError):
        return None
    return kept.made if (kept.state, kept.tables) == (records_state(run), tables) else None


def whole(run: Path) -> Collected | None:
    """What a run's tables hold, if they are current and nothing in them is damaged."""
    made = current(run)
    if made is None:
        return None
    paths = {name: run / f"{name}.parquet" for name in ("results", "curves")}
    try:
        for path in paths.values():
            ParquetFile(path).verify()
    except (StoreError, InputError):
        return None
    return made.model_copy(update=paths)  # where they lie now: a folder may be moved
