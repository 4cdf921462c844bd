"""The records of a run: finished trials, places of their records, and problems of the files.

All commands read lines with `read_record`, so they agree on which records are damaged.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rebench.errors import ConflictError, StoreError
from rebench.runs.files import open_file
from rebench.runs.record import BadLineError, read_record
from rebench.runs.shards import Line, ShardReader

__all__ = ["Finished", "FinishedTrials"]

_PIECE_BYTES: Final = 32 << 20
# Errors that a line raises if its checksum is correct but its content is not a record.
_NO_RECORD: Final = (BadLineError, KeyError, TypeError, ValueError, OverflowError)


class Finished(NamedTuple):
    """A finished trial: its status, its seconds, and the place of its record."""

    status: str
    seconds: float
    shard: Path
    number: int
    start: int
    size: int

    @property
    def place(self) -> str:
        """Place of the record in a message, such as ``results/0001-7_0.0.jsonl:3``."""
        return Line(self.shard, self.number, self.start, b"").place


class FinishedTrials:
    """Trials of a run with a record. `refresh` reads only new lines.

    If a trial has several equal records, the first counts.
    """

    def __init__(self, run: Path, only: Collection[str] | None = None) -> None:
        """Prepare to read the records of a run, of all trials or of `only` some."""
        self._run = run
        self._reader = ShardReader(run / "results")
        self._only = only
        self.trials: dict[str, Finished] = {}
        self.duplicates = 0
        self.damaged: list[str] = []
        """Places of damaged lines."""
        self.conflicts: dict[str, list[str]] = {}
        """Places of conflicting records, by trial."""

    @property
    def problems(self) -> list[str]:
        """Problems of the files, one line each with the remedy."""
        problems = list(self._reader.problems)
        for place in self.damaged:
            message = (
                f"{place} is damaged and ignored. If its trial has no other record, `rebench"
                " submit` trains the trial again. Remove the line to end this message"
            )
            problems.append(message)
        for trial_id, places in self.conflicts.items():
            message = (
                f"the records of trial {trial_id} disagree ({' and '.join(places)}): compare them,"
                " and remove the wrong lines from their files"
            )
            problems.append(message)
        return problems

    def refresh(self, only: Path | None = None) -> FinishedTrials:
        """Read the lines that were appended since the last call, to all shards or `only` one.

        Returns self.
        """
        for line in self._reader.read_new(only):
            try:
                self._take(line, read_record(line.data, curves=False))
            except _NO_RECORD:  # noqa: PERF203 - other lines are still read
                self.damaged.append(line.place)
        return self

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """All records as plain data, by trial id."""
        return {one["trial_id"]: one for piece in self.read(list(self.trials)) for one in piece}

    def read(self, trial_ids: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of some trials in order, in lists of bounded size."""
        start, size = 0, 0
        for end, trial_id in enumerate(trial_ids, 1):
            size += self.trials[trial_id].size
            if size > _PIECE_BYTES or end == len(trial_ids):
                yield self._read([self.trials[trial_id] for trial_id in trial_ids[start:end]])
                start, size = end, 0

    def _read(self, places: Sequence[Finished]) -> list[dict[str, Any]]:
        try:
            return [read_record(line) for line in _lines(places)]
        except (BadLineError, OSError) as error:
            raise StoreError(
                f"records of {self._run} changed while they were read; repeat the command"
            ) from error

    def check(self) -> None:
        """Raise ConflictError if two records of one trial disagree."""
        if self.conflicts:
            trial_id, places = next(iter(self.conflicts.items()))
            raise ConflictError(
                f"{len(self.conflicts)} trials have records that disagree; the first is {trial_id}:"
                f" {' and '.join(places)}. Compare them, and remove the wrong lines from their"
                " files. `rebench submit` trains a trial again if all its lines are removed"
            )

    def _take(self, line: Line, record: dict[str, Any]) -> None:
        trial_id = record["trial_id"]
        if self._only is not None and trial_id not in self._only:
            return
        status, seconds = record["outcome"]["status"], float(record["cost"]["seconds"])
        own = Finished(status, seconds, line.path, line.number, line.start, len(line.data))
        first = self.trials.setdefault(trial_id, own)
        if first is own:
            return
        known, other = self._read([first, own])
        if known["outcome"] == other["outcome"]:
            self.duplicates += 1
            return
        places = self.conflicts.setdefault(trial_id, [first.place])
        places.append(own.place)


def _lines(places: Sequence[Finished]) -> list[bytes]:
    """Return the lines at these places, in order."""
    lines = [b""] * len(places)
    # Sorted as text, because comparing paths compares their parts one by one, which is slow.
    order = sorted(range(len(places)), key=lambda at: (str(places[at].shard), places[at].start))
    for shard, group in itertools.groupby(order, lambda at: str(places[at].shard)):
        with open_file(Path(shard)) as file:
            for at in group:
                file.seek(places[at].start)
                lines[at] = file.read(places[at].size)
    return lines
