"""Who works, who lives and who holds what: processes, reports of workers, claims on trials.

A claim is a file ``claims/<trial>.<generation>``, linked into place whole; the file system lets
one of two linkers win. A worker that finds a claim whose holder has ended takes the next
generation; the highest is the holder. Whoever was overtaken (a copy of a requeued job that still
lives on a node the controller lost) sees that before it appends its record, and throws it away.

A process of this host is asked of the system, a job of SLURM of the queue, and a process of another
host is believed as long as it keeps writing. What cannot be known counts as live: to wait costs
time, to train twice costs trust. A report that cannot be written is not an error.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from pydantic import ValidationError

from rebench.errors import StoreError
from rebench.launch.files import Kept, read_kept, unheard, write_kept
from rebench.launch.slurm import QueuedJob, hides_jobs_of, job_state
from rebench.runs import Plain, Trial, now

__all__ = [
    "Claims",
    "Holder",
    "JobState",
    "ProcessMark",
    "Report",
    "Reporter",
    "last_heard_s",
    "mark_of",
    "process_state",
    "read_reports",
    "report_path",
    "runs",
    "slurm_state",
    "submitter_lives",
    "this_process",
    "tree_of",
    "worker_died",
    "worker_lives",
]


class ProcessMark(Plain):
    """One process: its number alone could be another's by tomorrow, its start tells them apart."""

    host: str
    pid: int
    started: str


def this_process() -> ProcessMark:
    """The mark of the calling process."""
    return mark_of(os.getpid())


def mark_of(pid: int, *, ended: bool = False) -> ProcessMark:
    """The mark of a process on this host, or one that says that it has ended."""
    return ProcessMark(host=socket.gethostname(), pid=pid, started="" if ended else _started(pid))


def runs(mark: ProcessMark) -> bool | None:
    """Whether the process runs; None if it is on another host."""
    if mark.host != socket.gethostname():
        return None
    return bool(mark.started) and _started(mark.pid) == mark.started


def tree_of(pid: int) -> list[int]:
    """A process of this host and all that descend from it, children first."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [*(one.pid for one in reversed(children)), pid]


def _started(pid: int) -> str:
    """When a process was started, in a form that never changes; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        if not psutil.LINUX:
            return str(process.create_time())
        # psutil adds the time of boot, which moves when the clock is set; ticks since boot do not.
        boot = psutil.boot_time()
        ticks = round((process.create_time() - boot) * os.sysconf("SC_CLK_TCK"))
        return str(ticks) if psutil.boot_time() == boot else _started(pid)
    except psutil.NoSuchProcess:
        return ""


_EVERY_S = 2.0


class Report(Kept):
    """What a worker last said."""

    holder: Holder
    trials: tuple[str, ...] = ()
    epoch: int = 0
    epochs: int = 0
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
        self._written = float("-inf")
        self._say()
        self._written = float("-inf")

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
        self._written = float("-inf")
        self._say(trials=(), epoch=0, epochs_per_s=None, note=note)

    def _say(self, **what: object) -> None:
        self._report = self._report.model_copy(update=what)
        if time.monotonic() - self._written < _EVERY_S:
            return
        self._written = time.monotonic()
        with contextlib.suppress(StoreError):
            write_kept(self._path, self._report.model_copy(update={"updated": now()}))


def report_path(run: Path, worker: str) -> Path:
    """Where a worker reports."""
    return run / "progress" / f"{worker}.json"


def read_reports(run: Path) -> list[Report]:
    """What every worker of a run last said."""
    # A file that is being replaced, or was cut by a full disk, says nothing.
    paths = sorted((run / "progress").glob("*.json"))
    reports = (read_kept(Report, path, unheard, "") for path in paths)
    return [report for report in reports if report is not None]


class Holder(Kept):
    """Who holds a claim: one attempt of one job, and its process."""

    worker: str
    job: str
    attempt: int
    cluster: str
    # Empty in claims of version 0.1.
    user: str = ""
    process: ProcessMark
    # How often in a row the trial's worker died while training it, without a new checkpoint.
    # What the scheduler took from it (a preemption, a lost node) is no death.
    deaths: int = 0


class Claims:
    """The claims of a run, as one worker sees them."""

    def __init__(
        self,
        run: Path,
        me: Holder,
        lives: Callable[[Holder], bool],
        died: Callable[[Holder], bool] = lambda _: True,
    ) -> None:
        self._folder = run / "claims"
        self._checkpoints = run / "checkpoints"
        self._me = me
        self._lives = lives
        self._died = died
        self._held: dict[str, int] = {}

    def take(self, trial_id: str) -> Holder | None:
        """Claim a trial; return what was claimed, or None if a live worker holds it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                generation, holder = self._current(trial_id)
            except PermissionError:
                # Of a colleague whose files are closed: what cannot be known counts as live.
                return None
            claim = self._me
            if holder is not None and generation:
                requeued = self._is_former_self(holder)
                if not requeued and self._lives(holder):
                    return None
                deaths = holder.deaths + (not requeued and self._died(holder))
                progress = self._moved_on(trial_id, generation)
                claim = self._me.model_copy(update={"deaths": 0 if progress else deaths})
            if self._link(trial_id, generation + 1, claim):
                self._held[trial_id] = generation + 1
                return claim

    def holds(self, trial_id: str) -> bool:
        """Whether this worker is still the holder."""
        return trial_id in self._held and self._current(trial_id)[0] == self._held[trial_id]

    def release(self, trial_id: str) -> None:
        """Give a claim up, if it is still this worker's."""
        if not self.holds(trial_id):
            self._held.pop(trial_id, None)
            return
        for generation in range(self._held.pop(trial_id), 0, -1):
            path = self._folder / f"{trial_id}.{generation}"
            if not path.exists():
                break
            path.unlink(missing_ok=True)

    def _is_former_self(self, holder: Holder) -> bool:
        # A requeued job may come back on another node; the number is the controller's.
        same_job = (holder.cluster, holder.job) == (self._me.cluster, self._me.job)
        return same_job and holder.attempt < self._me.attempt

    def _moved_on(self, trial_id: str, generation: int) -> bool:
        """Whether a checkpoint was written since the claim was made."""
        claim = self._folder / f"{trial_id}.{generation}"
        with contextlib.suppress(OSError):
            since = claim.stat().st_mtime
            folder = self._checkpoints / trial_id
            return any(path.stat().st_mtime > since for path in folder.iterdir())
        return False

    def _current(self, trial_id: str) -> tuple[int, Holder | None]:
        """The highest generation of a trial's claims, and whose it is."""
        paths = self._folder.iterdir() if self._folder.exists() else ()
        parts = [path.name.partition(".")[::2] for path in paths]
        own = [int(number) for one, number in parts if one == trial_id and number.isdigit()]
        if not own:
            return 0, None
        try:
            content = (self._folder / f"{trial_id}.{max(own)}").read_bytes()
            return max(own), Holder.model_validate_json(content, extra="ignore")
        except FileNotFoundError:
            return self._current(trial_id)
        except ValidationError:
            return max(own), None

    def _link(self, trial_id: str, generation: int, claim: Holder) -> bool:
        target = self._folder / f"{trial_id}.{generation}"
        temporary = self._folder / f".{trial_id}.{secrets.token_hex(6)}"
        content = claim.model_dump_json()
        try:
            temporary.write_text(content)
            os.link(temporary, target)
        except FileExistsError:
            # A network file system may have done it and lost the answer.
            with contextlib.suppress(FileNotFoundError):
                return target.read_text() == content
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True


# Processes on another host that have written nothing for so long are taken for dead. A submitter
# shows itself before every job that it sends, a worker after every epoch.
_SUBMITTER_SILENCE_S: Final = 600.0
_WORKER_SILENCE_S: Final = 1800.0
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


# What the job of a worker is in if something else than the worker ended it.
_ENDED_BY_SLURM: Final = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "CANCELLED", "REVOKED"})


class JobState(NamedTuple):
    """The state of a job in SLURM's words, UNKNOWN or NOT SENT; and why."""

    name: str
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether it runs or will run."""
        return self.name in _LIVE


def submitter_lives(owner_file: Path, owner: ProcessMark | None) -> bool:
    """Whether the owner of a submission, None in the instant before it is named, lives."""
    if owner is None:
        return _age_s(owner_file.parent) <= _NAMELESS_S
    seen = runs(owner)
    return _age_s(owner_file) <= _SUBMITTER_SILENCE_S if seen is None else seen


def worker_lives(run: Path, me: Holder, holder: Holder) -> bool:
    """Whether the worker that holds a claim lives, as `me` can tell."""
    seen = runs(holder.process)
    if seen is False:
        return False
    if holder.cluster != "slurm":
        heard = last_heard_s(run).get(holder.job, _WORKER_SILENCE_S)
        return seen or heard < _WORKER_SILENCE_S
    if seen and (holder.job, holder.attempt) == (me.job, me.attempt):
        return True
    state = job_state(holder.job)
    return hides_jobs_of(holder.user) if state is None else JobState(state).live


def worker_died(holder: Holder) -> bool:
    """Whether a worker that lives no more died by itself, and was not ended by SLURM."""
    return holder.cluster != "slurm" or job_state(holder.job) not in _ENDED_BY_SLURM


def slurm_state(
    queued: QueuedJob | None, *, sent: bool, asked: bool, hidden_of: str = ""
) -> JobState:
    """The state of a job by its line in the queue, if the queue was `asked` and has one.

    It has none of a user whose jobs are hidden from this one: `hidden_of`.
    """
    if queued is not None:
        return JobState(queued.state, queued.reason)
    if not sent:
        return JobState("NOT SENT")
    if hidden_of:
        return JobState("UNKNOWN", f"a job of {hidden_of}, which you may not see")
    return JobState("ENDED", "the queue has forgotten it") if asked else JobState("UNKNOWN")


def process_state(
    process: ProcessMark | None,
    sent_file: Path,
    job: str,
    heard_s: Callable[[], Mapping[str, float]],
) -> JobState:
    """The state of a job that is a process."""
    if process is None:
        return JobState("NOT SENT")
    seen = runs(process)
    # One that has just been started has not reported yet.
    if seen is None and heard_s().get(job, _age_s(sent_file)) < _WORKER_SILENCE_S:
        return JobState("RUNNING", f"cannot be seen from here: it runs on {process.host}")
    return JobState("RUNNING" if seen else "ENDED")


def last_heard_s(run: Path) -> Mapping[str, float]:
    """The seconds since each job of a run last reported."""
    heard: dict[str, float] = {}
    now = _now(run)
    for report in read_reports(run):
        job = report.holder.job
        with contextlib.suppress(FileNotFoundError):
            age = now - report_path(run, report.holder.worker).stat().st_mtime
            heard[job] = min(age, heard.get(job, age))
    return heard


def _age_s(path: Path) -> float:
    return _now(path.parent) - path.stat().st_mtime


def _now(folder: Path) -> float:
    """The time by the clock of the file system that a folder is on."""
    probe = folder / f".clock.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:
        return time.time()
    return now
