"""An index beside each shard of records: of which trials its lines are, so that few read them.

It is derived and may lag behind or be missing: what it does not name is read from the shard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rebench.store.record import Record
from rebench.store.shards import ShardWriter

__all__ = ["Entry", "RecordWriter", "read_index"]


class Entry(NamedTuple):
    """One line of a shard: whose record it is, and between which bytes it stands."""

    trial_id: str
    status: str
    seconds: float
    start: int
    end: int


class RecordWriter(ShardWriter):
    """Appends records to a shard of its own, and names them in its index."""

    def append_record(self, record: Record) -> None:
        """Append a record and return once it is safely on disk."""
        line = record.to_line()
        self.append([line])
        assert self.path is not None
        with contextlib.suppress(OSError):
            end = self.path.stat().st_size
            start = end - len(line.encode()) - 1
            entry = Entry(record.trial_id, record.outcome.status, record.cost.seconds, start, end)
            with _index(self.path).open("a") as index:
                index.write(" ".join(map(str, entry)) + "\n")


def read_index(shard: Path, offset: int, size: int) -> Iterator[Entry]:
    """Yield the entries that follow each other from `offset` on, as far as a shard goes."""
    try:
        lines = _index(shard).read_text(errors="replace").split("\n")[:-1]
    except OSError:
        return
    for line in lines:
        try:
            trial_id, status, seconds, start, end = line.split(" ")
            entry = Entry(trial_id, status, float(seconds), int(start), int(end))
        except ValueError:
            return
        if entry.start == offset and entry.end <= size:
            offset = entry.end
            yield entry


def _index(shard: Path) -> Path:
    return shard.with_suffix(".index")
