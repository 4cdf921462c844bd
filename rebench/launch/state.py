"""The jobs of a run, as its journal and the scheduler know them; what they hold; how they end."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rebench.errors import ClusterError, UnknownNameError
from rebench.launch import slurm
from rebench.launch.journal import Intent, Journal
from rebench.launch.liveness import (
    JobState,
    Report,
    last_heard_s,
    process_state,
    read_reports,
    slurm_state,
)
from rebench.launch.slurm import QueuedJob
from rebench.runs import Finished, FinishedTrials
from rebench.runs.claims import ProcessMark, runs, tree_of
from rebench.runs.files import open_file
from rebench.runs.folder import Failure, Run, Tell, unheard

__all__ = ["JobView", "State", "adopt_jobs", "cancel_jobs", "jobs_of", "read_state"]

# A job whose step was ended for its memory has FAILED for SLURM; only what it printed tells why.
_UNCLEAR: Final = frozenset({"FAILED", "ENDED"})
_OF_MEMORY: Final = re.compile(rb"exceeded memory limit|oom.kill event|: Out Of Memory\n")
_LAST_WORDS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job: `job` is empty if it was meant to be sent and the scheduler knows nothing of it."""

    submission: int
    cluster: str
    clusters: str
    """Which of several that one SLURM knows; mostly empty."""
    name: str
    type_name: str
    job: str
    process: ProcessMark | None
    """Of a job on this or another machine without a scheduler."""
    trials: tuple[str, ...]
    state: JobState
    folder: Path
    line: QueuedJob | None = None
    """What the queue shows of it."""

    @property
    def live(self) -> bool:
        """Whether it runs or will run, or may for all that is known."""
        return self.state.live

    @property
    def log(self) -> str:
        """What its first process and SLURM print; empty if it was never sent."""
        before = f"{self.folder}/{self.job}_0_log.err"  # of runs of before
        name = before if self.folder.name == "submitit" else f"{self.folder}/{self.job}_0.log"
        return name if self.job else ""


@dataclass(frozen=True, kw_only=True)
class State:
    """All that is known of a run, and what follows from it for every trial."""

    jobs: Sequence[JobView] = ()
    done: Mapping[str, Finished] = field(default_factory=dict)
    """Trials with a record."""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    """How trials failed last, also those that were sent again since."""
    last: Intent | None = None
    """What was last to be sent."""
    reports: Sequence[Report] = ()
    """What every worker last said."""

    @functools.cached_property
    def latest(self) -> Mapping[str, JobView]:
        """The job that each trial was last given to; one that lives counts before later ones."""
        latest: dict[str, JobView] = {}
        for job in self.jobs:
            latest |= {
                trial_id: job
                for trial_id in job.trials
                if job.live or trial_id not in latest or not latest[trial_id].live
            }
        return latest

    @functools.cached_property
    def held(self) -> Mapping[str, str]:
        """The trials that live jobs hold, and the job of each."""
        return {key: job.job or job.name for key, job in self.latest.items() if job.live}

    @functools.cached_property
    def failed(self) -> set[str]:
        """Trials whose last word is a failure: no later submission took them again."""
        latest = self.latest
        return {
            key
            for key, failure in self.failures.items()
            if key not in latest or failure.submission >= latest[key].submission
        }

    @property
    def idle(self) -> set[str]:
        """Jobs whose worker never came to train, or stopped for what the node lacks."""
        trained = {
            report.holder.job
            for report in self.reports
            # A worker that ended without a word had come to train if it named its epochs.
            if (report.epochs or report.note) and not report.note.startswith("stopped")
        }
        return {job.job for job in self.jobs} - trained


def read_state(run: Run, tell: Tell = unheard, *, by_files: bool = False) -> State:
    """What has become of a run, from its files and the queue.

    Raises:
        ClusterError: the queue cannot be asked, and the files alone are not enough.
    """
    done = _finished(run.folder, tell)
    try:
        jobs = jobs_of(run, tell, done=done)
    except ClusterError as error:
        if not by_files:
            raise
        tell(f"the queue cannot be asked ({error}): states are from files alone")
        jobs = jobs_of(run, tell, ask_queue=False)
    return State(
        jobs=jobs,
        done=done,
        failures=run.failures(tell),
        last=Journal(run.folder).last(),
        reports=read_reports(run.folder),
    )


def _finished(run: Path, tell: Tell) -> Mapping[str, Finished]:
    """Every trial that has a record; what is wrong with the files is told."""
    finished = FinishedTrials(run).refresh()
    for problem in finished.problems:
        tell(problem)
    return finished.trials


def jobs_of(
    run: Run,
    tell: Tell = unheard,
    *,
    ask_queue: bool = True,
    done: Collection[str] | None = None,
) -> list[JobView]:
    """Every job of a run; raise ClusterError if the queue cannot be asked.

    Args:
        run: the run.
        tell: is given one line about each thing that the user should know.
        ask_queue: False leaves the queue alone, and the state of its jobs is UNKNOWN.
        done: trials with a record; how jobs ended that left others is asked of accounting.
    """
    if run.original is not None:
        tell(
            f"{run.folder} is a copy of {run.original}: the jobs of that run are not looked at"
            " here; submitting makes the copy a run of its own"
        )
    submissions = [(one, one.intent(tell)) for one in Journal(run.folder).submissions(tell)]
    sending = [(one, intent) for one, intent in submissions if intent is not None]
    queue = _queue(run, (intent for _, intent in sending)) if ask_queue else {}
    heard = functools.cache(functools.partial(last_heard_s, run.folder))
    hides = functools.cache(slurm.hides_jobs_of)
    jobs = []
    for one, intent in sending:
        owner = one.owner() if ask_queue and intent.cluster == "slurm" else None
        user = owner.user if owner and hides(owner.user) else ""
        for number, chunk in enumerate(intent.chunks):
            sent = one.sent(number, tell, tasks=len(chunk.jobs))
            process = sent.process if sent else None
            clusters = intent.options_of(chunk).clusters or ""
            for task in range(len(chunk.jobs)):
                line = queue.get((chunk.name, task))
                job = sent.jobs[task] if sent else line.job if line else ""
                if not run.owns(chunk.name):
                    state = JobState("NOT SENT")
                elif intent.cluster == "slurm":
                    known = sent is not None
                    state = slurm_state(line, sent=known, asked=ask_queue, hidden_of=user)
                else:
                    state = process_state(process, one.sent_file(number), job, heard)
                view = JobView(
                    submission=one.number,
                    cluster=intent.cluster,
                    clusters=clusters,
                    name=chunk.name,
                    type_name=chunk.type_name,
                    job=job,
                    process=process,
                    trials=chunk.trials_of(task),
                    state=state,
                    folder=one.logs,
                    line=line,
                )
                jobs.append(view)
    return _as_accounted(jobs, done, tell)


def _queue(run: Run, intents: Iterable[Intent]) -> dict[tuple[str, int], QueuedJob]:
    """What the queue shows of the run's jobs, by the name of each and its task."""
    named = {
        intent.options_of(chunk).clusters or ""
        for intent in intents
        for chunk in intent.chunks
        if intent.cluster == "slurm"
    }
    return {
        (queued.name, int(queued.job.partition("_")[2] or 0)): queued
        for clusters in named
        for queued in slurm.queued_jobs(run.job_prefix, clusters)
    }


def _as_accounted(jobs: list[JobView], done: Collection[str] | None, tell: Tell) -> list[JobView]:
    """Ask accounting about jobs that the queue hides or has forgotten, and logs about failed ones.

    What accounting does not know of a hidden one counts as live.
    """
    hidden = {
        job.job: job.state for job in jobs if job.state.name == "UNKNOWN" and job.state.reason
    }
    unclear = {
        job.job: job.state
        for job in jobs
        if job.cluster == "slurm" and job.state.name in _UNCLEAR and done is not None
        if not all(trial_id in done for trial_id in job.trials)
    }
    forgotten = {job: state for job, state in unclear.items() if state.name == "ENDED"}
    ended = slurm.ended_states([*hidden, *forgotten])
    unseen = Counter(state.reason for job, state in hidden.items() if job not in ended)
    for reason, count in unseen.items():
        tell(f"{count} jobs count as live: {reason} (only its owner can submit that again)")
    told = {job: JobState(ended[job]) for job in hidden.keys() & ended}
    told |= {job: JobState(ended[job], forgotten[job].reason) for job in forgotten.keys() & ended}
    for job in jobs:
        state = told.get(job.job, job.state)
        if job.job in unclear and state.name in _UNCLEAR and _took_too_much(job):
            told[job.job] = JobState("OUT_OF_MEMORY", state.reason)
    return [dataclasses.replace(job, state=told.get(job.job, job.state)) for job in jobs]


def _took_too_much(job: JobView) -> bool:
    """Whether SLURM's last words in a job's log are that it ended it for its memory."""
    with contextlib.suppress(OSError), open_file(Path(job.log)) as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS))
        return _OF_MEMORY.search(log.read()) is not None
    return False


def adopt_jobs(run: Run, jobs: Sequence[JobView], tell: Tell) -> int:
    """Write down the jobs whose submitter died between `sbatch` and writing down its answer."""
    adopted = 0
    found = {(job.submission, job.name): job.job.partition("_")[0] for job in jobs if job.line}
    for (number, name), main in found.items():
        submission, chunk = Journal(run.folder).submission(number), int(name.rpartition(".")[2])
        intent = submission.intent()
        if intent is None:
            continue
        tasks = len(intent.chunks[chunk].jobs)
        if submission.sent(chunk, tasks=tasks) is None:
            sent = intent.chunks[chunk].sent_as(main)
            submission.write_sent(chunk, sent)
            adopted += len(sent.jobs)
    if adopted:
        tell(f"took over {adopted} jobs whose submitter had died before it could hand them over")
    return adopted


def cancel_jobs(run: Run, only: Sequence[str] = (), tell: Tell = unheard) -> list[str]:
    """Cancel the live jobs of a run, or `only` those of these numbers; return their numbers.

    Workers write their checkpoints first, if the cluster gives them time.
    """
    live = [job for job in jobs_of(run, tell) if job.live]
    for name in only:
        if name not in {job.job for job in live}:
            raise UnknownNameError("live job", name, sorted(job.job for job in live))
    chosen = [job for job in live if not only or job.job in only]
    queued = [job for job in chosen if job.cluster == "slurm" and job.state.name != "UNKNOWN"]
    for clusters in {job.clusters for job in queued}:
        slurm.cancel([job.job for job in queued if job.clusters == clusters], clusters)
    local = [job for job in chosen if job.cluster == "local" and job.process and runs(job.process)]
    for job in local:
        # With set-up commands the process is a shell, which would die and leave the rest.
        for pid in tree_of(job.process.pid) if job.process else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    return [job.job for job in (*queued, *local)]
