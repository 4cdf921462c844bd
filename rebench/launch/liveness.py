"""Reports of workers, and whether workers and submitters are alive.

The operating system knows the processes of this host. A process of another host counts as alive as
long as it updates its file. An unknown process counts as alive too: it is better to wait than to
train a trial twice. A report that cannot be written is not an error.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from rebench.errors import StoreError
from rebench.runs import Trial, now
from rebench.runs.claims import Holder, ProcessMark, runs
from rebench.runs.folder import Kept, read_kept, write_kept
from rebench.runs.shards import file_clock_ns

__all__ = [
    "WORKER_SILENCE_S",
    "Report",
    "Reporter",
    "age_s",
    "last_heard_s",
    "read_reports",
    "report_path",
    "submitter_lives",
]


_EVERY_S: Final = 2.0


class Report(Kept):
    """The last report of a worker."""

    holder: Holder
    trials: tuple[str, ...] = ()
    epoch: Annotated[int, Field(ge=0, le=2**31)] = 0
    epochs: Annotated[int, Field(ge=0, le=2**31)] = 0
    epochs_per_s: float | None = None
    note: str = ""
    log: str = ""  # path of the worker's log; empty outside of a job
    updated: str

    @property
    def eta_s(self) -> float | None:
        """Expected seconds until the current trials are finished; None if unknown."""
        if not self.epochs_per_s:
            return None
        return (self.epochs - self.epoch) / self.epochs_per_s


class Reporter:
    """The writer of the report of one worker. The first report is written at once."""

    def __init__(self, run: Path, holder: Holder, log: Path | None = None) -> None:
        self._path = report_path(run, holder.worker)
        self._report = Report(holder=holder, log=str(log or ""), updated=now())
        self._first: tuple[int, float] | None = None
        self._due_s = 0.0
        self._say(at_once=True)

    def begin(self, group: Sequence[Trial]) -> None:
        """Report that these trials are being trained."""
        self._first = None
        ids = tuple(one.trial_id for one in group)
        self._say(trials=ids, epoch=0, epochs=group[0].epochs, epochs_per_s=None)

    def on_epoch(self, epoch: int) -> None:
        """Report that an epoch (from 1) has ended."""
        first, begun = self._first = self._first or (epoch, time.monotonic())
        seconds = time.monotonic() - begun
        self._say(epoch=epoch, epochs_per_s=(epoch - first) / seconds if epoch > first else None)

    def end(self, note: str) -> None:
        """Report how the worker ended."""
        self._say(at_once=True, trials=(), epoch=0, epochs_per_s=None, note=note)

    def _say(self, *, at_once: bool = False, **what: object) -> None:
        """Write the changes, unless the last report is recent."""
        self._report = self._report.model_copy(update=what)
        # A report of a deleted run would create its folder again.
        if (at_once or time.monotonic() >= self._due_s) and self._path.parents[1].exists():
            # The next report can follow immediately: the first trials are reported right after the
            # start of the worker.
            self._due_s = time.monotonic() + (0.0 if at_once else _EVERY_S)
            with contextlib.suppress(StoreError):
                write_kept(self._path, self._report.model_copy(update={"updated": now()}))


def report_path(run: Path, worker: str) -> Path:
    """Return the file of the report of a worker."""
    return run / "progress" / f"{worker}.json"


def read_reports(run: Path) -> list[Report]:
    """Return the last report of every worker of a run."""
    return [report for _, report in _reports(run)]


def _reports(run: Path) -> Iterator[tuple[Path, Report]]:
    """Yield the file of every worker, and its report."""
    for path in sorted((run / "progress").glob("*.json")):
        # A file that is being replaced, or was cut by a full disk, is skipped.
        if (report := read_kept(Report, path)) is not None:
            yield path, report


# A submitter on another host that has not touched its file for this time counts as dead.
_SUBMITTER_SILENCE_S: Final = 600.0
WORKER_SILENCE_S: Final = 1800.0
"""A worker on another host that has not reported for this time counts as dead."""
# A submission without an owner's file for this time counts as dead; writing the file takes an
# instant.
_NAMELESS_S: Final = 30.0


def submitter_lives(owner_file: Path, owner: ProcessMark | None) -> bool:
    """Return whether the owner of a submission is alive; `owner` is None if it has no file yet."""
    if owner is None:
        return age_s(owner_file.parent) <= _NAMELESS_S
    seen = runs(owner)
    return age_s(owner_file) <= _SUBMITTER_SILENCE_S if seen is None else seen


def last_heard_s(run: Path) -> Mapping[str, float]:
    """Return the seconds since the last report of each job of a run."""
    heard: dict[str, float] = {}
    now = _now(run)
    for path, report in _reports(run):
        job = report.holder.job
        with contextlib.suppress(FileNotFoundError):
            # The clock of the file system is coarser than the times of files, so the age could be
            # negative.
            age = max(0.0, now - path.stat().st_mtime)
            heard[job] = min(age, heard.get(job, age))
    return heard


def age_s(path: Path) -> float:
    """Return the seconds since a file was changed."""
    return _now(path.parent) - path.stat().st_mtime


def _now(folder: Path) -> float:
    try:
        return file_clock_ns(folder) / 1e9
    except OSError:
        return time.time()
