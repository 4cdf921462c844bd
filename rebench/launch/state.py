"""The state of a run: its jobs, the trials that they hold, records and failures.

The state is computed from the journal, the files of the workers and the answers of the clusters.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rebench.errors import ClusterError, UnknownNameError
from rebench.launch.clusters import recorded
from rebench.launch.journal import Intent, Job, JobState, Journal, Sent
from rebench.launch.liveness import Report, read_reports
from rebench.runs import Finished, FinishedTrials
from rebench.runs.folder import Failure, Run, Tell, unheard

__all__ = ["State", "adopt_jobs", "cancel_jobs", "jobs_of", "read_state"]


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a run, and the state of each trial."""

    jobs: Sequence[Job] = ()
    done: Mapping[str, Finished] = field(default_factory=dict)
    """Trials with a record."""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """The last failure of each trial, even if the trial was submitted again later."""
    last: Intent | None = None
    """The last submission."""
    reports: Sequence[Report] = ()
    """The last report of every worker."""

    @functools.cached_property
    def latest(self) -> Mapping[str, Job]:
        """Trial -> its last job; a live job has priority over later jobs."""
        latest: dict[str, Job] = {}
        for job in self.jobs:
            for trial_id in job.trials:
                before = latest.get(trial_id)
                if job.live or before is None or not before.live:
                    latest[trial_id] = job
        return latest

    @functools.cached_property
    def held(self) -> Mapping[str, str]:
        """Trial -> the live job that was given the trial."""
        return {key: job.number or job.name for key, job in self.latest.items() if job.live}

    @functools.cached_property
    def failed(self) -> set[str]:
        """Return the trials that failed and were not submitted again after the failure."""
        failed = set()
        for key, failure in self.failures.items():
            job = self.latest.get(key)
            if job is None or failure.submission >= job.submission.number:
                failed.add(key)
        return failed

    @property
    def idle(self) -> set[str]:
        """Return the jobs that never trained, or that stopped because of an error of the node."""
        trained = {
            report.holder.job
            for report in self.reports
            # A worker that ended without a note had begun to train if it reported epochs.
            if (report.epochs or report.note) and not report.note.startswith("stopped")
        }
        return {job.number for job in self.jobs if not job.astray} - trained


def read_state(
    run: Run,
    tell: Tell = unheard,
    *,
    by_files: bool = False,
    finished: FinishedTrials | None = None,
) -> State:
    """Return the state of a run, from its files and the queue.

    If the queue does not answer, the state is read `by_files` only, or ClusterError is raised. Of
    records that are `finished` already, only new ones are read.
    """
    finished = (finished or FinishedTrials(run.folder)).refresh()
    try:
        jobs = jobs_of(run, tell, done=finished.trials)
    except ClusterError as error:
        if not by_files:
            raise
        tell(f"SLURM's queue does not answer ({error}): states of jobs are read from files only")
        jobs = jobs_of(run, tell, ask_queue=False)
    # A job may have recorded its last trial and ended before the queue was asked.
    for problem in finished.refresh().problems:
        tell(problem)
    return State(
        jobs=jobs,
        done=finished.trials,
        failures=run.failures(tell),
        last=Journal(run.folder).last(),
        reports=read_reports(run.folder),
    )


def jobs_of(
    run: Run,
    tell: Tell = unheard,
    *,
    ask_queue: bool = True,
    done: Collection[str] | None = None,
) -> list[Job]:
    """Return every job of a run, in the order of submission.

    Without the queue, the state of its jobs is UNKNOWN. Accounting is asked about ended jobs with
    trials that are not `done`.
    """
    if run.original is not None:
        tell(
            f"{run.folder} is a copy of {run.original}: jobs of the original are ignored;"
            " `rebench submit` makes the copy a separate run"
        )
    jobs: list[Job] = []
    for one in Journal(run.folder).submissions(tell):
        jobs += one.jobs(tell)
    for name in {job.cluster for job in jobs}:
        own = [at for at, job in enumerate(jobs) if job.cluster == name and run.owns(job.name)]
        seen = [jobs[at] for at in own]
        home = recorded(name)
        if ask_queue or not home.has_queue:
            seen = home.look(seen, done=done, tell=tell)
        for at, job in zip(own, seen, strict=True):
            jobs[at] = job
            if home.has_queue and not ask_queue and job.is_sent:
                jobs[at] = replace(job, state=JobState("unknown", "unknown"))
    astray = sum(job.astray and job.live for job in jobs)
    if astray:
        tell(
            f"{run.folder} was moved, but {astray} jobs look for it in its old place: they will"
            " fail. Move it back, or cancel them and submit again"
        )
    return jobs


def adopt_jobs(jobs: Sequence[Job], tell: Tell) -> int:
    """Record the jobs of submitters that died before they did so; return their number."""
    sizes = Counter(job.name for job in jobs)
    found: dict[str, Job] = {}
    for job in jobs:
        if job.number and not job.is_sent:
            found[job.name] = job
    adopted = 0
    for name, job in found.items():
        job.submission.write_sent(job.chunk, Sent.of_array(job.array, sizes[name]))
        adopted += sizes[name]
    if adopted:
        tell(f"took over {adopted} jobs that an earlier submission sent and did not record")
    return adopted


def cancel_jobs(run: Run, only: Sequence[str] = (), tell: Tell = unheard) -> list[str]:
    """Cancel the live jobs of a run, or `only` jobs with these numbers; return their numbers.

    Workers write their checkpoints first, if the cluster gives them time.
    """
    live = {job.number: job for job in jobs_of(run, tell) if job.live}
    for number in only:
        if number not in live:
            raise UnknownNameError("live job", number, list(live))
    chosen = [live[number] for number in only or live]
    cancelled: list[str] = []
    for name in dict.fromkeys(job.cluster for job in chosen):
        cancelled += recorded(name).stop([job for job in chosen if job.cluster == name])
    return cancelled
