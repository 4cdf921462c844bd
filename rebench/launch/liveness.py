"""Is it alive? Asked of a submitter, of a worker and of a job, and answered here alone.

A process of this host is asked of the system, a job of SLURM of the queue, and a process of another
host is believed as long as it keeps writing. What cannot be known counts as live: to wait costs
time, to train twice costs trust.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from rebench.errors import ClusterError
from rebench.launch.claims import Holder
from rebench.launch.processes import ProcessMark, runs
from rebench.launch.progress import read_reports, report_path
from rebench.launch.slurm import QueuedJob, hides_jobs_of, job_state

__all__ = [
    "JobState",
    "is_meant_to_run",
    "last_heard_s",
    "process_state",
    "slurm_state",
    "submitter_lives",
    "worker_died",
    "worker_lives",
]

# What answers when each job last reported, asked only if it matters.
Heard: TypeAlias = Callable[[], Mapping[str, float]]

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
    """Return whether the owner of a submission, None in the instant before it is named, lives."""
    if owner is None:
        return _age_s(owner_file.parent) <= _NAMELESS_S
    seen = runs(owner)
    return _age_s(owner_file) <= _SUBMITTER_SILENCE_S if seen is None else seen


def worker_lives(run: Path, me: Holder, holder: Holder) -> bool:
    """Return whether the worker that holds a claim lives, as `me` can tell."""
    seen = runs(holder.process)
    if seen is False:
        return False
    if holder.cluster != "slurm":
        heard = last_heard_s(run).get(holder.job, _WORKER_SILENCE_S)
        return seen or heard < _WORKER_SILENCE_S
    if seen and (holder.job, holder.attempt) == (me.job, me.attempt):
        return True
    try:
        state = job_state(holder.job)
    except ClusterError:
        return True
    return hides_jobs_of(holder.user) if state is None else JobState(state).live


def worker_died(holder: Holder) -> bool:
    """Return whether a worker that lives no more died by itself, and was not ended by SLURM."""
    if holder.cluster != "slurm":
        return True
    try:
        return job_state(holder.job) not in _ENDED_BY_SLURM
    except ClusterError:
        return True


def is_meant_to_run(cluster: str, job: str) -> bool:
    """Return whether the scheduler wants a job to run: not cancelled, not yet requeued."""
    if cluster != "slurm":
        return False
    try:
        return job_state(job) == "RUNNING"
    except ClusterError:
        return False


def slurm_state(
    queued: QueuedJob | None, *, sent: bool, asked: bool, hidden_of: str = ""
) -> JobState:
    """Return the state of a job by its line in the queue, if the queue was `asked` and has one.

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
    """Return the state of a job that is a process."""
    if process is None:
        return JobState("NOT SENT")
    seen = runs(process)
    if seen is None and _silence_s(sent_file, job, heard_s) < _WORKER_SILENCE_S:
        return JobState("RUNNING", f"cannot be seen from here: it runs on {process.host}")
    return JobState("RUNNING" if seen else "ENDED")


def last_heard_s(run: Path) -> Mapping[str, float]:
    """Return the seconds since each job of a run last reported."""
    heard: dict[str, float] = {}
    now = _now(run)
    for report in read_reports(run):
        job = report.holder.job
        with contextlib.suppress(FileNotFoundError):
            age = now - report_path(run, report.holder.worker).stat().st_mtime
            heard[job] = min(age, heard.get(job, age))
    return heard


def _silence_s(sent_file: Path, job: str, heard_s: Heard) -> float:
    # One that has just been started has not reported yet.
    return heard_s().get(job, _age_s(sent_file))


def _age_s(path: Path) -> float:
    return _now(path.parent) - path.stat().st_mtime


def _now(folder: Path) -> float:
    """Return the time by the clock of the file system that a folder is on."""
    probe = folder / f".clock.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:
        return time.time()
    return now
