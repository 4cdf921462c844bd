"""The jobs of a run, as its journal and the scheduler know them, and the trials that they hold."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rebench.launch.files import Tell, unheard
from rebench.launch.journal import Journal, Submission
from rebench.launch.liveness import JobState, last_heard_s, process_state, slurm_state
from rebench.launch.processes import ProcessMark
from rebench.launch.run import Run, trial_ids
from rebench.launch.slurm import QueuedJob, ended_states, hides_jobs_of, queued_jobs

__all__ = ["JobView", "held_trials", "jobs_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job: `job` is empty if it was meant to be sent and the scheduler knows nothing of it."""

    submission: int
    cluster: str
    name: str
    type_name: str
    job: str
    # Of a job on this or another machine without a scheduler.
    process: ProcessMark | None
    trials: tuple[str, ...]
    state: JobState
    folder: Path

    @property
    def live(self) -> bool:
        """Whether it runs or will run, or may for all that is known."""
        return self.state.live


def jobs_of(run: Run, tell: Tell = unheard, *, ask_queue: bool = True) -> list[JobView]:
    """Return every job of a run; raise ClusterError if the queue cannot be asked.

    With `ask_queue` False the queue is left alone, and the state of its jobs is UNKNOWN.
    """
    if run.original is not None:
        tell(
            f"{run.folder} is a copy of {run.original}: the jobs of that run are not looked at"
            " here; submitting makes the copy a run of its own"
        )
    submissions = [(one, one.intent(tell)) for one in Journal(run.folder).submissions()]
    sending = [(one, intent) for one, intent in submissions if intent is not None]
    queue: dict[tuple[str, int], QueuedJob] = {}
    on_slurm = any(intent.cluster == "slurm" for _, intent in sending)
    for queued in queued_jobs(run.job_prefix) if ask_queue and on_slurm else ():
        queue[queued.name, int(queued.job.partition("_")[2] or 0)] = queued
    heard = functools.cache(functools.partial(last_heard_s, run.folder))
    views = []
    for one, intent in sending:
        user = _hidden_user(one) if ask_queue and intent.cluster == "slurm" else ""
        for number, chunk in enumerate(intent.chunks):
            sent = one.sent(number, tell)
            process = sent.process if sent else None
            for task, groups in enumerate(chunk.jobs):
                job = sent.jobs[task] if sent else ""
                if not run.owns(chunk.name):
                    state = JobState("NOT SENT")
                elif intent.cluster == "slurm":
                    line = queue.get((chunk.name, task))
                    state = slurm_state(
                        line, sent=sent is not None, asked=ask_queue, hidden_of=user
                    )
                else:
                    state = process_state(process, one.sent_file(number), job, heard)
                view = JobView(
                    submission=one.number,
                    cluster=intent.cluster,
                    name=chunk.name,
                    type_name=chunk.type_name,
                    job=job,
                    process=process,
                    trials=tuple(trial_ids(groups)),
                    state=state,
                    folder=one.folder / "submitit",
                )
                views.append(view)
    return _as_accounted(views, tell)


def held_trials(jobs: Iterable[JobView]) -> dict[str, str]:
    """Return the trials that live jobs hold, and the job of each."""
    return {trial_id: job.job or job.name for job in jobs if job.live for trial_id in job.trials}


def _hidden_user(submission: Submission) -> str:
    """Return who submitted, if this user may not see that user's jobs."""
    owner = submission.owner()
    return owner.user if owner and hides_jobs_of(owner.user) else ""


def _as_accounted(views: list[JobView], tell: Tell) -> list[JobView]:
    """Ask accounting about the jobs that the queue hides; what it does not know counts as live."""
    hidden = [job for job in views if job.state.name == "UNKNOWN" and job.state.reason]
    states = ended_states([job.job for job in hidden])
    for reason, count in Counter(
        job.state.reason for job in hidden if job.job not in states
    ).items():
        tell(f"{count} jobs count as live: {reason} (only its owner can submit that again)")
    return [
        dataclasses.replace(job, state=JobState(states[job.job]))
        if job in hidden and job.job in states
        else job
        for job in views
    ]
