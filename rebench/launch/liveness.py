"""Who works and who lives: what workers report, and what processes and the queue say.

A process of this host is asked of the system, a job of SLURM of the queue, and a process of another
host is believed as long as it keeps writing. What cannot be known counts as live: to wait costs
time, to train twice costs trust. A report that cannot be written is not an error.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from rebench.errors import StoreError
from rebench.runs import Trial, now
from rebench.runs.claims import Holder, ProcessMark, runs
from rebench.runs.folder import Kept, read_kept, write_kept
from rebench.runs.shards import file_clock_ns

__all__ = [
    "NOT_SENT",
    "WORKER_SILENCE_S",
    "JobState",
    "Report",
    "Reporter",
    "last_heard_s",
    "process_state",
    "read_reports",
    "report_path",
    "submitter_lives",
]


_EVERY_S: Final = 2.0


class Report(Kept):
    """What a worker last said."""

    holder: Holder
    trials: tuple[str, ...] = ()
    epoch: Annotated[int, Field(ge=0, le=2**31)] = 0
    epochs: Annotated[int, Field(ge=0, le=2**31)] = 0
    epochs_per_s: float | None = None
    note: str = ""
    log: str = ""  # what the worker prints; empty in reports of before, and outside of a job
    updated: str

    @property
    def eta_s(self) -> float | None:
        """Seconds until the trials in flight should be done."""
        if not self.epochs_per_s:
            return None
        return (self.epochs - self.epoch) / self.epochs_per_s


class Reporter:
    """Writes the report of one worker; from the first moment on, so that others know of it."""

    def __init__(self, run: Path, holder: Holder, log: Path | None = None) -> None:
        self._path = report_path(run, holder.worker)
        self._report = Report(holder=holder, log=str(log or ""), updated=now())
        self._first: tuple[int, float] | None = None
        self._due_s = 0.0
        self._say(at_once=True)

    def begin(self, group: Sequence[Trial]) -> None:
        """Say that these trials are being trained now."""
        self._first = None
        ids = tuple(one.trial_id for one in group)
        self._say(trials=ids, epoch=0, epochs=group[0].epochs, epochs_per_s=None)

    def on_epoch(self, epoch: int) -> None:
        """Say that an epoch (from 1) has ended."""
        first, begun = self._first = self._first or (epoch, time.monotonic())
        seconds = time.monotonic() - begun
        self._say(epoch=epoch, epochs_per_s=(epoch - first) / seconds if epoch > first else None)

    def end(self, note: str) -> None:
        """Say how the worker ended."""
        self._say(at_once=True, trials=(), epoch=0, epochs_per_s=None, note=note)

    def _say(self, *, at_once: bool = False, **what: object) -> None:
        """Write what has changed, unless the last report is of just now."""
        self._report = self._report.model_copy(update=what)
        if at_once or time.monotonic() >= self._due_s:
            # What is trained first is said at once, after the word that the worker is there.
            self._due_s = time.monotonic() + (0.0 if at_once else _EVERY_S)
            with contextlib.suppress(StoreError):
                write_kept(self._path, self._report.model_copy(update={"updated": now()}))


def report_path(run: Path, worker: str) -> Path:
    """Where a worker reports."""
    return run / "progress" / f"{worker}.json"


def read_reports(run: Path) -> list[Report]:
    """What every worker of a run last said."""
    return [report for _, report in _reports(run)]


def _reports(run: Path) -> Iterator[tuple[Path, Report]]:
    """Yield every file of a worker, and what it says."""
    for path in sorted((run / "progress").glob("*.json")):
        # A file that is being replaced, or was cut by a full disk, says nothing.
        if (report := read_kept(Report, path)) is not None:
            yield path, report


# Processes on another host that have written nothing for so long are taken for dead. A submitter
# shows itself before every job that it sends, a worker after every epoch.
_SUBMITTER_SILENCE_S: Final = 600.0
WORKER_SILENCE_S: Final = 1800.0
"""After this silence a worker on another host, which cannot be asked, counts as dead."""
# Between making a submission's folder and naming its owner lies an instant; this is more.
_NAMELESS_S: Final = 30.0

# A job in any other state has ended and will not run again under its number.
_LIVE: Final = frozenset(
    {
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "STOPPED"),
        *("REQUEUE_HOLD", "REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT"),
        *("RESV_DEL_HOLD", "UNKNOWN"),
    }
)


class JobState(NamedTuple):
    """The state of a job in SLURM's words, UNKNOWN or NOT SENT; and why."""

    name: str
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether it runs or will run."""
        return self.name in _LIVE


NOT_SENT: Final = JobState("NOT SENT")
"""The state of a job that was planned and never submitted."""


def submitter_lives(owner_file: Path, owner: ProcessMark | None) -> bool:
    """Whether the owner of a submission, None in the instant before it is named, lives."""
    if owner is None:
        return _age_s(owner_file.parent) <= _NAMELESS_S
    seen = runs(owner)
    return _age_s(owner_file) <= _SUBMITTER_SILENCE_S if seen is None else seen


def process_state(
    process: ProcessMark | None,
    sent_file: Path,
    job: str,
    heard_s: Callable[[], Mapping[str, float]],
) -> JobState:
    """The state of a job that is a process."""
    if process is None:
        return NOT_SENT
    seen = runs(process)
    # One that has just been started has not reported yet.
    if seen is None and heard_s().get(job, _age_s(sent_file)) < WORKER_SILENCE_S:
        return JobState("RUNNING", f"cannot be seen from here: it runs on {process.host}")
    return JobState("RUNNING" if seen else "ENDED")


def last_heard_s(run: Path) -> Mapping[str, float]:
    """The seconds since each job of a run last reported."""
    heard: dict[str, float] = {}
    now = _now(run)
    for path, report in _reports(run):
        job = report.holder.job
        with contextlib.suppress(FileNotFoundError):
            # The clock of files has fewer digits than their times.
            age = max(0.0, now - path.stat().st_mtime)
            heard[job] = min(age, heard.get(job, age))
    return heard


def _age_s(path: Path) -> float:
    return _now(path.parent) - path.stat().st_mtime


def _now(folder: Path) -> float:
    try:
        return file_clock_ns(folder) / 1e9
    except OSError:
        return time.time()
