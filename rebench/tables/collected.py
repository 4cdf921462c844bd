"""What a run's tables were collected from, kept beside them: what is as it was is not read again.

Shards grow at their ends, but nothing keeps a hand from editing one, so a file counts as unchanged
only if its size, its times and its number on the disk are; and the tables only if every byte is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from rebench.errors import InputError, StoreError
from rebench.runs import Plain, write_atomically
from rebench.runs.record import SCHEMA_VERSION
from rebench.runs.shards import file_clock_ns
from rebench.tables.columns import RUN_COLUMNS, RUN_CURVES
from rebench.tables.parquet import ParquetFile
from rebench.version import version

__all__ = [
    "Collected",
    "Source",
    "current",
    "keep",
    "last_collected",
    "newest_shard_ns",
    "source_of",
]

_FILE: Final = "collected.json"
# To be raised when equal records are to give other tables, in columns that are named as before.
_LAYOUT: Final = 2
# Two changes within this time may leave one time stamp, on any file system.
_TICK_NS: Final = 2_000_000_000


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
    unchanged: bool = False
    """Whether the tables were left as they are, because nothing is new."""
    asked: int = 0
    """How many trials the run is to have; 0 where it has no list of them."""
    missing: int = 0
    """How many of these have no row in the tables."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files that tables are collected from, as they were at one moment."""

    digest: str
    settled: bool
    """Whether any later change would show in the digest."""


class _Kept(Plain):
    """What the file holds."""

    source: str
    settled: bool
    tables: tuple[str, str]
    made: Collected


def source_of(run: Path) -> Source:
    """The state of a run's records, before they are read."""
    digest, newest_ns = _state(run)
    try:
        settled = newest_ns < file_clock_ns(run) - _TICK_NS
    except OSError:
        settled = False
    return Source(digest, settled)


def newest_shard_ns(run: Path) -> int | None:
    """When the records of a run last grew, in nanoseconds; None where it has none."""
    return max((status.st_mtime_ns for _, status in _shards(run)), default=None)


def _shards(run: Path, *others: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the shards of a run, and other files, that can be read."""
    for path in [*sorted((run / "results").glob("*.jsonl")), *others]:
        with contextlib.suppress(OSError):
            # What has been opened is asked of a file server anew; to open a pipe may take for ever.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                status = os.fstat(file)
            finally:
                os.close(file)
            if stat.S_ISREG(status.st_mode):
                yield path, status


def _state(run: Path) -> tuple[str, int]:
    """What changes when the records do, and when they last did, in nanoseconds."""
    # By name what is no file too: whoever reads the records says so.
    names = sorted(path.name for path in (run / "results").glob("*.jsonl"))
    told = [f"{version()} {_LAYOUT} {SCHEMA_VERSION} {RUN_COLUMNS} {RUN_CURVES} {names}"]
    newest_ns = 0
    for path, now in _shards(run, run / "quarantine.jsonl"):
        times = f"{now.st_mtime_ns} {now.st_ctime_ns}"
        told.append(f"{path.name} {now.st_ino} {now.st_size} {times}")
        newest_ns = max(newest_ns, now.st_mtime_ns, now.st_ctime_ns)
    return hashlib.sha256("\n".join(told).encode()).hexdigest(), newest_ns


def keep(run: Path, source: Source, made: Collected) -> None:
    """Keep what was made of records."""
    # Without it the records are read again.
    with contextlib.suppress(StoreError, InputError):
        tables = ParquetFile(made.results).digest, ParquetFile(made.curves).digest
        kept = _Kept(source=source.digest, settled=source.settled, tables=tables, made=made)
        write_atomically(run / _FILE, kept.model_dump_json().encode())


def last_collected(run: Path, source: Source) -> Collected | None:
    """What the tables of a run hold; None unless they are whole and of this source."""
    kept = _kept(run, source.digest, whole=True)
    # Records that had only just been written may have changed since without a trace.
    if kept is None or not kept.settled:
        return None
    moved = {name: run / f"{name}.parquet" for name in ("results", "curves")}
    return kept.made.model_copy(update={**moved, "unchanged": True})


def current(run: Path) -> Collected | None:
    """What a run's tables hold; None if a record was added or taken since they were made.

    The tables are not read: who does verifies them.
    """
    kept = _kept(run, _state(run)[0], whole=False)
    return kept.made if kept else None


def _kept(run: Path, digest: str, *, whole: bool) -> _Kept | None:
    """What was kept of the tables that lie there, if they were made of this source."""
    try:
        kept = _Kept.model_validate_json((run / _FILE).read_bytes())
        if kept.source != digest:
            return None
        for name, own in zip(("results.parquet", "curves.parquet"), kept.tables, strict=True):
            table = ParquetFile(run / name)
            if whole:
                table.verify()
            if table.digest != own:
                return None
    except (OSError, ValidationError, StoreError, InputError):
        return None
    return kept
