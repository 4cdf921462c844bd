"""The state of every trial of a run, from files and the queue.

`follow` waits until a run is over, and submits lost and waiting trials on the way.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from rebench.arguments import checked
from rebench.errors import ClusterError, StoreError
from rebench.launch.journal import Job
from rebench.launch.state import read_state
from rebench.runs import FinishedTrials
from rebench.runs.folder import Run, Tell, unheard

if TYPE_CHECKING:
    from rebench.launch.liveness import Report
    from rebench.launch.submit import Submitted  # loads modules that only submissions need

__all__ = ["STATES", "Status", "TrialStatus", "follow", "status"]

TrialState: TypeAlias = Literal[
    "done", "diverged", "running", "queued", "failed", "lost", "pending"
]

STATES: tuple[TrialState, ...] = get_args(TrialState)
# Values that SLURM gives if there is no reason.
_NO_REASON: Final = ("None", "", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """One trial: its state, with the reason and the place where known."""

    trial_id: str
    state: TrialState
    job: str = ""
    reason: str = ""
    """Why the trial failed, was lost or waits."""
    epoch: int | None = None
    """Last finished epoch of a running trial; otherwise None."""
    epochs: int | None = None
    """Number of epochs of a running trial; otherwise None."""
    eta_s: float | None = None
    """Expected seconds until a running trial is finished; None if unknown."""
    log: str = ""
    """Path of the log of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A run at one moment."""

    run: Run
    trials: Mapping[str, TrialStatus]
    """Trial id -> status, in the order of the sweep."""
    jobs: tuple[Job, ...]
    train_hours: float
    """Hours of training of all trials with a record."""
    extra_records: int
    """Number of trials with a record that the sweep does not contain."""
    warnings: tuple[str, ...]
    """Problems of the run, one line each."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        counted = Counter(trial.state for trial in self.trials.values())
        return {state: counted[state] for state in STATES}

    @property
    def is_over(self) -> bool:
        """Whether no trial runs or waits in a queue."""
        return not any(trial.state in ("running", "queued") for trial in self.trials.values())


@checked
def status(run: str | Path) -> Status:
    """Return the state of every trial of a run. A queue that does not answer is a warning.

    Args:
        run: the folder of the run.

    Raises:
        InputError: `run` is not the folder of a run.
    """
    return _status(Path(run))


def _status(run: Path, finished: FinishedTrials | None = None) -> Status:
    """Return the state of every trial; of records that are `finished`, only new ones are read."""
    opened = Run.open(run)
    warnings: list[str] = []
    state = read_state(opened, warnings.append, by_files=True, finished=finished)
    warnings += opened.troubles()
    training = {(one.holder.job, key): one for one in state.reports for key in one.trials}
    # If a job has several processes, the note of the first one (by name) says how the job ended.
    notes = {report.holder.job: report.note for report in reversed(state.reports) if report.note}
    trials = {}
    for trial_id in opened.ids(warnings.append):
        job = state.latest.get(trial_id)
        if trial_id in state.done:
            ended: TrialState = "done"
            if state.done[trial_id].status == "diverged":
                ended = "diverged"
            told = TrialStatus(trial_id=trial_id, state=ended)
        elif trial_id in state.failed:
            failure = state.failures[trial_id]
            told = TrialStatus(
                trial_id=trial_id,
                state="failed",
                job=failure.job,
                reason=f"{failure.kind}: {failure.message} (on {failure.node})",
                log=failure.log,
            )
        elif job is None or job.state.kind == "unsent":
            told = TrialStatus(trial_id=trial_id, state="pending")
        else:
            report = training.get((job.number, trial_id))
            told = _of_a_job(trial_id, job, report, notes.get(job.number, ""))
        trials[trial_id] = told
    return Status(
        run=opened,
        trials=trials,
        jobs=tuple(state.jobs),
        train_hours=sum(one.seconds for one in state.done.values()) / 3600,
        extra_records=len(state.done.keys() - trials.keys()),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _of_a_job(trial_id: str, job: Job, report: Report | None, note: str) -> TrialStatus:
    """Return the state of a trial that was given to a job and has no record."""
    log = job.log
    # Each process of a job has a separate log.
    if report is not None and report.log:
        log = report.log
    told = TrialStatus(trial_id=trial_id, state="queued", job=job.number or job.name, log=log)
    name = job.state.name
    reasons = [job.state.reason]
    if not job.live:
        reasons.append(note)
    why = "; ".join(reason for reason in reasons if reason not in _NO_REASON)
    if not job.live:
        if why:
            why = f" ({why})"
        return replace(told, state="lost", reason=f"job {name}{why}")
    if report is not None and job.state.kind != "waiting":
        if name == "running":
            name = ""
        return replace(
            told,
            state="running",
            reason=name,
            epoch=report.epoch,
            epochs=report.epochs,
            eta_s=report.eta_s,
        )
    if why:
        name = f"{name}: {why}"
    return replace(told, reason=name)


# Number of looks between two submissions. It doubles after a submission that finished no trial.
_LOOKS: Final = 6
_FRUITLESS: Final = 3
# Number of refused submissions in a row before `follow` gives up: about two hours, with a look
# every 10 s.
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
    """Return the status of a run when nothing runs and nothing waits any more.

    `look` receives the status every `every_s` seconds. `send` submits pending or lost trials until
    none is left; ClusterError is raised if submissions repeatedly finish no trial or are refused.
    """
    next_s, fullest = 0.0, math.inf
    before, fruitless, refused = -1, 0, 0
    finished = FinishedTrials(run.folder)
    while True:
        latest = _status(run.folder, finished)
        if latest.is_over:
            # Read all records again: a user may have changed some of them.
            finished = FinishedTrials(run.folder)
            latest = _status(run.folder, finished)
        look(latest)
        counts, live = latest.counts, sum(job.live for job in latest.jobs)
        if send is None or not counts["lost"] + counts["pending"]:
            if latest.is_over:
                return latest
        elif time.monotonic() >= next_s and live <= fullest:
            if latest.is_over:
                ended = counts["done"] + counts["diverged"] + counts["failed"]
                fruitless = fruitless + 1 if ended == before else 0
                before = ended
                if fruitless == _FRUITLESS:
                    lost = (one for one in latest.trials.values() if one.state == "lost")
                    reasons = "; ".join(sorted({one.reason for one in lost})[:3])
                    raise ClusterError(
                        f"stopped: {_FRUITLESS} submissions in a row have finished no trial"
                        f" ({reasons or 'no job was sent'}); see `rebench status {run.folder}`"
                    )
            try:
                done = send()
                refused, most = 0, live + len(done.jobs)
                # If the scheduler accepted no more jobs, some jobs must end before the next
                # submission.
                fullest = most - max(1, most // 10) if done.waiting else math.inf
                tell(f"sent {done.sent} trials in {len(done.jobs)} jobs; {done.waiting} wait")
            except (ClusterError, StoreError) as error:  # a full disk, for example
                refused += 1
                if refused == _REFUSALS:
                    raise
                tell(f"not sent: {error}; trying again")
            pause_s = _LOOKS * every_s * 2 ** (refused or fruitless)
            next_s = time.monotonic() + min(pause_s, _LONGEST_PAUSE_S)
        time.sleep(every_s)
