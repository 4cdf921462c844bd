"""Status: what became of every trial, from the files and the queue, by any process, any day.

And the run followed until it is over, sending again on the way what was lost or did not fit.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from rebench.errors import ClusterError
from rebench.launch.files import Tell, unheard
from rebench.launch.liveness import read_reports
from rebench.launch.run import Run
from rebench.launch.state import JobView, jobs_of
from rebench.launch.submit import Submitted
from rebench.store import FinishedTrials

__all__ = ["STATES", "Status", "TrialStatus", "follow", "status"]

State: TypeAlias = Literal["done", "diverged", "running", "queued", "failed", "lost", "pending"]

STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """One trial: its state, and what is known of why and where."""

    trial_id: str
    state: State
    type_name: str = ""
    job: str = ""
    reason: str = ""
    epoch: int | None = None
    epochs: int | None = None
    eta_s: float | None = None
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A run at one moment."""

    run: Run
    trials: Mapping[str, TrialStatus]
    jobs: tuple[JobView, ...]
    train_hours: float
    hours_by_type: Mapping[str, float]
    """Of every type of device that trials were sent to; empty for a sweep without types."""
    extra_records: int
    warnings: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        return _counted(self.trials.values())

    @property
    def by_type(self) -> dict[str, dict[str, int]]:
        """How many of the trials that were sent to a type of device are in each state."""
        sent: dict[str, list[TrialStatus]] = {name: [] for name in self.hours_by_type}
        for one in self.trials.values():
            if one.type_name:
                sent[one.type_name].append(one)
        return {name: _counted(trials) for name, trials in sent.items()}

    @property
    def is_over(self) -> bool:
        """Whether nothing runs and nothing waits in a queue."""
        counts = self.counts
        return not counts["running"] and not counts["queued"]


def _counted(trials: Iterable[TrialStatus]) -> dict[str, int]:
    counted = Counter(one.state for one in trials)
    return {state: counted[state] for state in STATES}


def status(run: str | Path) -> Status:
    """What became of every trial of a run; what cannot be asked is a warning, never an error."""
    opened = Run.open(Path(run))
    warnings: list[str] = []
    finished = FinishedTrials(opened.folder).refresh()
    warnings += finished.problems
    try:
        jobs = jobs_of(opened, warnings.append, done=finished.trials)
    except ClusterError as error:
        warnings.append(f"the queue cannot be asked ({error}): states are from files alone")
        jobs = jobs_of(opened, warnings.append, ask_queue=False)
    warnings += opened.troubles()
    view = _View(opened, jobs, warnings.append)
    types = {one: job.type_name for job in jobs if job.type_name for one in job.trials}
    hours = dict.fromkeys(sorted(set(types.values())), 0.0)
    trials = {}
    for trial_id in opened.ids(warnings.append):
        record, type_name = finished.trials.get(trial_id), types.get(trial_id, "")
        if record is None:
            trials[trial_id] = dataclasses.replace(view.of(trial_id), type_name=type_name)
            continue
        state: State = "diverged" if record.status == "diverged" else "done"
        trials[trial_id] = TrialStatus(trial_id=trial_id, state=state, type_name=type_name)
        if type_name:
            hours[type_name] += record.seconds / 3600
    return Status(
        run=opened,
        trials=trials,
        jobs=tuple(jobs),
        train_hours=sum(one.seconds for one in finished.trials.values()) / 3600,
        hours_by_type=hours,
        extra_records=len(finished.trials.keys() - trials.keys()),
        warnings=tuple(dict.fromkeys(warnings)),
    )


class _View:
    """What is known of trials without a record."""

    def __init__(self, run: Run, jobs: Iterable[JobView], tell: Tell) -> None:
        self._failures = run.failures(tell)
        self._latest: dict[str, JobView] = {}
        for job in jobs:
            for trial_id in job.trials:
                known = self._latest.get(trial_id)
                # A live job counts before a later one that ended.
                if known is None or job.live or not known.live:
                    self._latest[trial_id] = job
        reports = read_reports(run.folder)
        self._training = {(one.holder.job, key): one for one in reports for key in one.trials}
        # Of several processes of a job the first, which comes first by name, tells how it ended.
        self._notes = {one.holder.job: one.note for one in reversed(reports) if one.note}

    def of(self, trial_id: str) -> TrialStatus:
        job = self._latest.get(trial_id)
        failure = self._failures.get(trial_id)
        if failure is not None and (job is None or failure.submission >= job.submission):
            return TrialStatus(
                trial_id=trial_id,
                state="failed",
                job=failure.job,
                reason=f"{failure.kind}: {failure.message} (on {failure.node})",
                log=failure.log,
            )
        if job is None or job.state.name == "NOT SENT":
            return TrialStatus(trial_id=trial_id, state="pending")
        report = self._training.get((job.job, trial_id))
        # Each process of a job has a log of its own.
        log = (report.log if report is not None else "") or _log_of(job)
        name, reason = job.state.name.lower(), job.state.reason
        if not job.live:
            told = [part for part in (reason, self._notes.get(job.job, "")) if part != "None"]
            why = "; ".join(part for part in told if part)
            return TrialStatus(
                trial_id=trial_id,
                state="lost",
                job=job.job,
                reason=f"job {name}" + (f" ({why})" if why else ""),
                log=log,
            )
        if report is not None and name in ("running", "completing", "suspended", "unknown"):
            return TrialStatus(
                trial_id=trial_id,
                state="running",
                job=job.job,
                reason="" if name == "running" else name,
                epoch=report.epoch,
                epochs=report.epochs,
                eta_s=report.eta_s,
                log=log,
            )
        waits = name in ("pending", "unknown") and reason not in ("None", "")
        return TrialStatus(
            trial_id=trial_id,
            state="queued",
            job=job.job or job.name,
            reason=f"{name}: {reason}" if waits else name,
            log=log,
        )


def _log_of(job: JobView) -> str:
    before = f"{job.folder}/{job.job}_0_log.err"  # of runs of before
    name = before if job.folder.name == "submitit" else f"{job.folder}/{job.job}_0.log"
    return name if job.job else ""


# Between two submissions lie so many looks, and twice as many after each that finished nothing.
_LOOKS: Final = 6
_FRUITLESS: Final = 3
# A controller that does not answer, or takes no job, for about two hours with looks every 10 s.
_REFUSALS: Final = 12
_LONGEST_PAUSE_S: Final = 900.0


def follow(
    run: Run,
    look: Callable[[Status], None],
    *,
    every_s: float,
    send: Callable[[], Submitted] | None = None,
    tell: Tell = unheard,
) -> Status:
    """The status of a run once nothing runs and nothing waits.

    Args:
        run: the run.
        look: is given the status, again and again.
        every_s: seconds between looks.
        send: submits what is pending or lost; it is called until there is nothing left.
        tell: is given one line about each submission.

    Raises:
        ClusterError: what was sent again and again has finished no trial, or was refused.
    """
    sender = None if send is None else _Sender(send, every_s, tell)
    while True:
        latest = status(run.folder)
        look(latest)
        missing = latest.counts["lost"] + latest.counts["pending"]
        if sender is not None and missing:
            sender.attend(latest)
        elif latest.is_over:
            return latest
        time.sleep(every_s)


class _Sender:
    """Decides when to send again, and when that is of no use."""

    def __init__(self, send: Callable[[], Submitted], every_s: float, tell: Tell) -> None:
        self._send = send
        self._pause_s = _LOOKS * every_s
        self._tell = tell
        self._next = 0.0
        self._finished = -1
        self._fruitless = self._refused = 0
        # As many jobs as there were when the scheduler took no more.
        self._full: int | None = None

    def attend(self, status: Status) -> None:
        live = sum(job.live for job in status.jobs)
        full = self._full is not None and live > self._full - max(1, self._full // 10)
        if full or time.monotonic() < self._next:
            return
        if status.is_over:
            self._count(status)
        try:
            done = self._send()
        except ClusterError as error:
            self._refused += 1
            if self._refused == _REFUSALS:
                raise
            self._wait(self._refused)
            self._tell(f"not sent: {error}; trying again")
            return
        self._refused = 0
        self._full = live + len(done.jobs) if done.waiting else None
        self._wait(self._fruitless)
        self._tell(f"sent {done.sent} trials in {len(done.jobs)} jobs; {done.waiting} wait")

    def _wait(self, times: int) -> None:
        self._next = time.monotonic() + min(self._pause_s * 2**times, _LONGEST_PAUSE_S)

    def _count(self, status: Status) -> None:
        counts = status.counts
        finished = counts["done"] + counts["diverged"] + counts["failed"]
        self._fruitless = self._fruitless + 1 if finished == self._finished else 0
        self._finished = finished
        if self._fruitless == _FRUITLESS:
            reasons = {one.reason for one in status.trials.values() if one.state == "lost"}
            raise ClusterError(
                f"stopped: {_FRUITLESS} submissions in a row have finished no trial"
                f" ({'; '.join(sorted(reasons)[:3])}); see `rebench status {status.run.folder}`"
            )
