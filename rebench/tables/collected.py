"""What a run's tables were collected from, kept beside them: what is as it was is not read again.

Shards grow at their ends, but nothing keeps a hand from editing one, so a file counts as unchanged
only if its size, its times and its number on the disk are; and the tables only if every byte is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

import rebench
from rebench.errors import InputError, StoreError
from rebench.store import write_atomically
from rebench.store.record import SCHEMA_VERSION
from rebench.sweep import Plain
from rebench.tables.columns import RUN_COLUMNS, RUN_CURVES
from rebench.tables.parquet import ParquetFile

__all__ = ["Collected", "Source", "are_current", "keep", "last_collected", "source_of"]

_FILE: Final = "collected.json"
# To be raised when equal records are to give other tables, in columns that are named as before.
_LAYOUT: Final = 1
# Two changes within this time may leave one time stamp, on any file system.
_TICK_NS: Final = 2_000_000_000


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
    unchanged: bool = False
    """Whether the tables were left as they are, because nothing is new."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files that tables are collected from, as they were at one moment."""

    digest: str
    settled: bool
    """Whether any later change would show in the digest."""


class _Kept(Plain):
    """What the file holds."""

    source: str
    settled: bool = True
    tables: tuple[str, str]
    trials: int
    rows: int
    torn: tuple[str, ...]
    environments: tuple[str, ...]
    duplicates: int
    damaged: tuple[str, ...]


def source_of(run: Path) -> Source:
    """Return the state of a run's records, before they are read."""
    try:
        digest, newest_ns = _state(run)
        # The clock that the files' times are of.
        with tempfile.TemporaryFile(dir=run) as file:
            settled = newest_ns < os.fstat(file.fileno()).st_mtime_ns - _TICK_NS
    except OSError:
        return Source("", settled=False)
    return Source(digest, settled)


def _state(run: Path) -> tuple[str, int]:
    """Return what changes when the records do, and when they last did, in nanoseconds."""
    told = [f"{rebench.__version__} {_LAYOUT} {SCHEMA_VERSION} {RUN_COLUMNS} {RUN_CURVES}"]
    newest_ns = 0
    for path in [*sorted((run / "results").glob("*.jsonl")), run / "quarantine.jsonl"]:
        # What has been opened is asked of a file server anew.
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            now = os.fstat(file.fileno())
            times = f"{now.st_mtime_ns} {now.st_ctime_ns}"
            told.append(f"{path.name} {now.st_ino} {now.st_size} {times}")
            newest_ns = max(newest_ns, now.st_mtime_ns, now.st_ctime_ns)
    return hashlib.sha256("\n".join(told).encode()).hexdigest(), newest_ns


def keep(run: Path, source: Source, made: Collected) -> None:
    """Keep what was made of records."""
    # Without it the records are read again.
    with contextlib.suppress(StoreError, InputError):
        kept = _Kept(
            source=source.digest,
            settled=source.settled,
            tables=(ParquetFile(made.results).digest, ParquetFile(made.curves).digest),
            trials=made.trials,
            rows=made.rows,
            torn=made.torn,
            environments=made.environments,
            duplicates=made.duplicates,
            damaged=made.damaged,
        )
        write_atomically(run / _FILE, kept.model_dump_json().encode())


def last_collected(run: Path, source: Source) -> Collected | None:
    """Return what the tables of a run hold; None unless they are whole and of this source."""
    kept = _kept(run, source.digest, whole=True)
    # Records that had only just been written may have changed since without a trace.
    if kept is None or not kept.settled:
        return None
    return Collected(
        **kept.model_dump(exclude={"source", "settled", "tables"}),
        results=run / "results.parquet",
        curves=run / "curves.parquet",
        unchanged=True,
    )


def are_current(run: Path) -> bool:
    """Return whether no record was added or taken since a run's tables were made.

    The tables are not read: who does verifies them.
    """
    try:
        return _kept(run, _state(run)[0], whole=False) is not None
    except OSError:
        return False


def _kept(run: Path, digest: str, *, whole: bool) -> _Kept | None:
    """Return what was kept of the tables that lie there, if they were made of this source."""
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
