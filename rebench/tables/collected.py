"""The state of a run's tables and of their records, stored next to the tables.

Rebench only appends to shards, but a user can edit them. So a file counts as unchanged only if its
size, its times and its inode are unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from rebench.errors import InputError, StoreError
from rebench.runs import Plain, write_atomically
from rebench.runs.files import open_file, read_file
from rebench.runs.record import SCHEMA_VERSION
from rebench.tables.columns import RUN_COLUMNS, RUN_CURVES
from rebench.tables.parquet import ParquetFile, file_state
from rebench.version import version

__all__ = ["Collected", "current", "keep", "newest_shard_ns", "records_state", "table_paths"]

_FILE: Final = "collected.json"
# Increase this number if equal records give different tables with the same column names.
_LAYOUT: Final = 2


class Collected(Plain):
    """Result of `collect`: the tables of a run and their counts."""

    results: Path
    curves: Path
    trials: int
    """Number of trials with a record."""
    rows: int
    """Number of rows of `results`."""
    environments: tuple[str, ...]
    """Versions of the software that trained the trials."""
    devices: tuple[str, ...] = ()
    duplicates: int = 0
    """Number of equal records of a trial beyond its first."""
    damaged: tuple[str, ...] = ()
    """Places of damaged lines."""
    problems: tuple[str, ...] = ()
    """Problems of the files and their remedies, a line each."""
    changed_rules: tuple[str, ...] = ()
    """Recipes whose rule changed during the run, a line each."""
    asked: int = 0
    """Number of trials in the run's list; 0 without a list."""
    missing: int = 0
    """Number of listed trials that have no row in the tables."""


class _Kept(Plain):
    """Content of the file that `keep` writes."""

    state: str
    """State of the records before the collection."""
    tables: tuple[str, str]
    """States of the files of results and curves (`file_state`)."""
    made: Collected


def newest_shard_ns(run: Path) -> int | None:
    """Return the time of a run's newest record in nanoseconds; None without records."""
    return max((status.st_mtime_ns for _, status in _opened(_shards(run))), default=None)


def _shards(run: Path) -> list[Path]:
    return sorted((run / "results").glob("*.jsonl"))


def _opened(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files that can be read, with their status."""
    for path in paths:
        # A network file system reports the current status only for an opened file.
        with contextlib.suppress(OSError), open_file(path) as file:
            yield path, os.fstat(file.fileno())


def records_state(run: Path) -> str:
    """Return a digest that changes when the records of a run change."""
    shards = _shards(run)
    # The names include entries that are not files; the reader of the records reports those.
    names = [path.name for path in shards]
    lines = [f"{version()} {_LAYOUT} {SCHEMA_VERSION} {RUN_COLUMNS} {RUN_CURVES} {names}"]
    for path, now in _opened(shards):
        lines.append(f"{path.name} {file_state(now)} {now.st_ctime_ns}")
    # A file name may be invalid UTF-8.
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def table_paths(run: Path) -> dict[str, Path]:
    """Return the files of a run's tables by name."""
    return {name: run / f"{name}.parquet" for name in ("results", "curves")}


def keep(run: Path, state: str, made: Collected, tables: tuple[str, str]) -> None:
    """Store the result of a collection, the state of the records before it, and of its tables.

    The states are those of the written files: another collection may have replaced a file since.
    """
    kept = _Kept(state=state, tables=tables, made=made)
    # Without this file the next collection reads the records again.
    with contextlib.suppress(StoreError):
        write_atomically(run / _FILE, kept.model_dump_json().encode())


def current(run: Path, *, verify: bool = False) -> Collected | None:
    """Return the stored result; None if the records or the tables changed since then.

    With `verify`, the tables are read, and the result is None if they are damaged. Otherwise they
    are verified when they are read.
    """
    paths = table_paths(run)
    try:
        kept = _Kept.model_validate_json(read_file(run / _FILE))
        tables = tuple(file_state(status) for _, status in _opened(paths.values()))
        if (kept.state, kept.tables) != (records_state(run), tables):
            return None
        if verify:
            for path in paths.values():
                ParquetFile(path).verify()
    except (OSError, ValidationError, StoreError, InputError):
        return None
    return kept.made.model_copy(update=paths)  # the current paths: a folder may be moved
