"""The records of a run: which trials have one (fast), and every one of them (checked)."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from rebench.errors import ConflictError, StoreError
from rebench.store.index import read_index
from rebench.store.record import SCHEMA_VERSION
from rebench.store.shards import Line, ShardReader, write_atomically

__all__ = [
    "START",
    "UPGRADES",
    "BadLineError",
    "Finished",
    "FinishedTrials",
    "Loaded",
    "garbage_kept",
    "load_records",
    "parse_record",
    "quarantine",
    "set_aside",
]

# Schema version -> what turns a record of that version into one of the next.
UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}

_QUARANTINE = "quarantine.jsonl"
_ENTRY = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')
START: Final = rb'\{"schema":%d,"trial_id":"([0-9a-f]{16})","trial":\{' % SCHEMA_VERSION
_HEAD = re.compile(START)
_STATUS = re.compile(rb'"outcome":\{"status":"(done|diverged)"')
_SECONDS = re.compile(rb'"cost":\{"seconds":([0-9.eE+-]+)')
_OUTCOME, _COST = b'"outcome":{', b'"cost":{'


class Finished(NamedTuple):
    """What a glance at a record tells."""

    status: str
    seconds: float


class FinishedTrials:
    """Which trials have a record; `refresh` reads only what was appended since.

    A glance does not parse the curves, so it may count a line that is damaged inside;
    `load_records` finds those. What an index names is not even looked at.
    """

    def __init__(self, run: Path, only: Collection[str] | None = None) -> None:
        """Look at the records of a run, of all trials or `only` some."""
        self._reader = ShardReader(run / "results", self._pass)
        self._only = only
        self.trials: dict[str, Finished] = {}
        self.damaged: list[str] = []
        self._excluded = set_aside(run, self.damaged)

    @property
    def torn(self) -> list[str]:
        """Shards that end in an unfinished line."""
        return _names(self._reader.torn)

    def refresh(self) -> FinishedTrials:
        """Take in what was appended since the last call."""
        for path, before, _, text in self._reader.read_new_text():
            for number, data in enumerate(text.split(b"\n")[:-1], before + 1):
                self._take_in(path, number, data)
        return self

    def _take_in(self, path: Path, number: int, data: bytes) -> None:
        if self._excluded and hashlib.sha256(data).hexdigest() in self._excluded:
            return
        try:
            trial_id, finished = _glance(data)
        except BadLineError:
            self.damaged.append(Line(path=path, number=number, data=data).place)
        else:
            self._note(trial_id, finished)

    def _note(self, trial_id: str, finished: Finished) -> None:
        if self._only is None or trial_id in self._only:
            self.trials.setdefault(trial_id, finished)

    def _pass(self, shard: Path, offset: int, size: int) -> tuple[int, int]:
        """Take what the index of a shard says; return how many bytes and lines that were."""
        lines, end = 0, offset
        # The index does not know which lines were set aside: then the lines themselves are read.
        for entry in () if self._excluded else read_index(shard, offset, size):
            self._note(entry.trial_id, Finished(status=entry.status, seconds=entry.seconds))
            lines, end = lines + 1, entry.end
        return end - offset, lines


@dataclass(slots=True, kw_only=True)
class Loaded:
    """Every record of a run, by trial id, as plain data of the current schema."""

    records: dict[str, dict[str, Any]]
    duplicates: int = 0
    torn: list[str] = field(default_factory=list)
    damaged: dict[str, Line] = field(default_factory=dict)
    conflicts: dict[str, list[Line]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ConflictError if two records of one trial disagree."""
        if self.conflicts:
            trial_id, lines = next(iter(self.conflicts.items()))
            raise ConflictError(
                f"{len(self.conflicts)} trials have records that disagree; the first is {trial_id}:"
                f" {' and '.join(line.place for line in lines)}. Look at both; `rebench collect"
                " --quarantine` sets them aside, so that the trials are pending again"
            )


def load_records(run: Path) -> Loaded:
    """Read every record of the run; of equal ones of a trial, the first counts."""
    with garbage_kept():
        return _load(run)


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Hold garbage collection off: plain data has no cycles, and millions of objects to search."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _load(run: Path) -> Loaded:
    loaded = Loaded(records={})
    excluded = set_aside(run)
    reader = ShardReader(run / "results")
    first: dict[str, Line] = {}
    for line in reader.read_new():
        if excluded and _digest(line) in excluded:
            continue
        try:
            record = parse_record(line.data)
            trial_id = record["trial_id"]
        except (BadLineError, KeyError):
            loaded.damaged[line.place] = line
            continue
        known = loaded.records.get(trial_id)
        if known is None:
            loaded.records[trial_id] = record
            first[trial_id] = line
        elif known["outcome"] == record["outcome"]:
            loaded.duplicates += 1
        else:
            loaded.conflicts.setdefault(trial_id, [first[trial_id]]).append(line)
    loaded.torn = _names(reader.torn)
    return loaded


def _names(shards: Iterable[Path]) -> list[str]:
    return [f"{path.parent.name}/{path.name}" for path in shards]


def quarantine(run: Path, loaded: Loaded) -> int:
    """Set damaged and conflicting lines aside for good; return how many.

    The shards stay untouched: ``quarantine.jsonl`` names the lines that no longer count.
    """
    wanted = [(line, "damaged") for line in loaded.damaged.values()]
    wanted += [(line, "conflict") for lines in loaded.conflicts.values() for line in lines]
    entries = [
        json.dumps({"sha256": _digest(line), "place": line.place, "reason": reason})
        for line, reason in wanted
    ]
    path = run / _QUARANTINE
    before = path.read_bytes() if path.exists() else b""
    write_atomically(path, before + "".join(f"{entry}\n" for entry in entries).encode())
    for trial_id in loaded.conflicts:
        loaded.records.pop(trial_id, None)
    loaded.damaged, loaded.conflicts = {}, {}
    return len(entries)


class BadLineError(Exception):
    """The line is not a record."""


def _glance(data: bytes) -> tuple[str, Finished]:
    head = _HEAD.match(data)
    if head and data.endswith(b"}}") and b"\0" not in data:
        status = _STATUS.match(data, data.find(_OUTCOME, head.end()))
        seconds = status and _SECONDS.match(data, data.rfind(_COST))
        if status and seconds:
            return head[1].decode(), Finished(status=status[1].decode(), seconds=float(seconds[1]))
    record = parse_record(data)
    try:
        status_name, seconds_taken = record["outcome"]["status"], record["cost"]["seconds"]
        return record["trial_id"], Finished(status=status_name, seconds=seconds_taken)
    except (KeyError, TypeError) as error:
        raise BadLineError from error


def parse_record(data: bytes) -> dict[str, Any]:
    """Return a record as plain data of the current schema; raise BadLineError if it is none."""
    try:
        record = from_json(data, cache_strings="keys", allow_inf_nan=False)
    except ValueError as error:
        raise BadLineError from error
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise BadLineError
    if record["schema"] > SCHEMA_VERSION:
        raise StoreError(
            f"a record has schema {record['schema']}, this version reads up to {SCHEMA_VERSION}:"
            " it was written by a newer rebench; upgrade this one"
        )
    while record["schema"] < SCHEMA_VERSION:
        upgrade = UPGRADES.get(record["schema"])
        if upgrade is None:
            raise BadLineError
        record = {**upgrade(record), "schema": record["schema"] + 1}
    if not {"trial_id", "trial", "outcome", "cost", "provenance"} <= record.keys():
        raise BadLineError
    return record


def _digest(line: Line) -> str:
    return hashlib.sha256(line.data).hexdigest()


def set_aside(run: Path, damaged: list[str] | None = None) -> set[str]:
    """Return the digests of the lines that were set aside; name lines that do not say one."""
    path = run / _QUARANTINE
    excluded = set()
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        entry = _ENTRY.search(line)
        if entry is not None:
            excluded.add(entry[1].decode())
        elif damaged is not None:
            damaged.append(f"{_QUARANTINE}:{number}")
    return excluded
