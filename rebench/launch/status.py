"""Status: what became of every trial, from the run's files and the queue, by any process, any day.

submitit's own idea of a job's state is never asked: it is wrong after requeues and without
accounting.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rebench.errors import ClusterError
from rebench.launch.files import Tell
from rebench.launch.holding import JobView, jobs_of
from rebench.launch.progress import Report, read_reports
from rebench.launch.run import Failure, Run
from rebench.launch.slurm import ended_states
from rebench.store import FinishedTrials
from rebench.store.results import garbage_kept

__all__ = ["STATES", "Status", "TrialStatus", "status_of"]

State: TypeAlias = Literal["done", "diverged", "running", "queued", "failed", "lost", "pending"]

STATES: tuple[State, ...] = (
    *("done", "diverged", "running", "queued", "failed", "lost", "pending"),
)


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


def status_of(run: Run) -> Status:
    """Return the status of a run; what cannot be asked is a warning, never an error."""
    with garbage_kept():
        return _status_of(run)


def _status_of(run: Run) -> Status:
    warnings: list[str] = []
    finished = FinishedTrials(run.folder).refresh()
    warnings += [f"{shard} ends in an unfinished line: ignored" for shard in finished.torn]
    warnings += [f"{place} is damaged: ignored" for place in finished.damaged]
    try:
        jobs = jobs_of(run, warnings.append)
    except ClusterError as error:
        warnings.append(f"the queue cannot be asked ({error}): states are from files alone")
        jobs = jobs_of(run, warnings.append, ask_queue=False)
    view = _View(run, jobs, warnings.append)
    types = {one: job.type_name for job in jobs if job.type_name for one in job.trials}
    hours = dict.fromkeys(sorted(set(types.values())), 0.0)
    trials = {}
    for trial_id in run.ids(warnings.append):
        record, type_name = finished.trials.get(trial_id), types.get(trial_id, "")
        if record is None:
            trials[trial_id] = dataclasses.replace(view.of(trial_id), type_name=type_name)
            continue
        state: State = "diverged" if record.status == "diverged" else "done"
        trials[trial_id] = TrialStatus(trial_id=trial_id, state=state, type_name=type_name)
        if type_name:
            hours[type_name] += record.seconds / 3600
    return Status(
        run=run,
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
        self._training = {trial_id: one for one in reports for trial_id in one.trials}
        # Of several processes of a job the first, which comes first by name, tells how it ended.
        self._notes = {one.holder.job: one.note for one in reversed(reports) if one.note}
        ended = [job for job in self._latest.values() if job.state.name == "ENDED"]
        self._ended = ended_states([job.job for job in ended if job.cluster == "slurm"])

    def of(self, trial_id: str) -> TrialStatus:
        job = self._latest.get(trial_id)
        failure = self._failures.get(trial_id)
        if failure is not None and (job is None or failure.submission >= job.submission):
            return _failed(trial_id, failure)
        if job is None or job.state.name == "NOT SENT":
            return TrialStatus(trial_id=trial_id, state="pending")
        report = self._training.get(trial_id)
        if report is not None and report.holder.job != job.job:
            report = None
        # Each process of a job has a log of its own.
        log = report.log if report is not None else ""
        log = log or (f"{job.folder}/{job.job}_0_log.err" if job.job else "")
        if job.live:
            return _live(trial_id, job, report, log)
        return TrialStatus(
            trial_id=trial_id, state="lost", job=job.job, reason=self._why(job), log=log
        )

    def _why(self, job: JobView) -> str:
        state = self._ended.get(job.job, job.state.name)
        told = [part for part in (job.state.reason, self._notes.get(job.job, "")) if part != "None"]
        reason = "; ".join(part for part in told if part)
        return f"job {state.lower()}" + (f" ({reason})" if reason else "")


def _live(trial_id: str, job: JobView, report: Report | None, log: str) -> TrialStatus:
    state, reason = job.state.name.lower(), job.state.reason
    if report is not None and state in ("running", "completing", "suspended", "unknown"):
        return TrialStatus(
            trial_id=trial_id,
            state="running",
            job=job.job,
            reason="" if state == "running" else state,
            epoch=report.epoch,
            epochs=report.epochs,
            eta_s=report.eta_s,
            log=log,
        )
    waits = state in ("pending", "unknown") and reason not in ("None", "")
    return TrialStatus(
        trial_id=trial_id,
        state="queued",
        job=job.job or job.name,
        reason=f"{state}: {reason}" if waits else state,
        log=log,
    )


def _failed(trial_id: str, failure: Failure) -> TrialStatus:
    return TrialStatus(
        trial_id=trial_id,
        state="failed",
        job=failure.job,
        reason=f"{failure.kind}: {failure.message} (on {failure.node})",
        log=failure.log,
    )
