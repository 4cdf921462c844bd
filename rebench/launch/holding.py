"""The jobs of a run, as its journal and the scheduler know them, and the trials that they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rebench.launch.journal import Journal, Sent
from rebench.launch.processes import is_alive
from rebench.launch.progress import is_silent
from rebench.launch.run import Run, trial_ids
from rebench.launch.slurm import QueuedJob, is_live, queued_jobs

__all__ = ["JobView", "held_trials", "jobs_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job: `job` is empty if it was meant to be sent and the scheduler knows nothing of it."""

    submission: int
    cluster: str
    name: str
    job: str
    trials: tuple[str, ...]
    state: str
    reason: str
    node: str
    folder: Path

    @property
    def live(self) -> bool:
        """Whether it runs or will run."""
        return is_live(self.state)


def jobs_of(run: Run, *, ask_queue: bool = True) -> list[JobView]:
    """Return every job of a run; raise ClusterError if the queue cannot be asked.

    With `ask_queue` False the queue is left alone, and the state of its jobs is UNKNOWN.
    """
    journal = Journal(run.folder)
    intents = [(one, one.intent()) for one in journal.submissions()]
    names = [
        chunk.name
        for _, intent in intents
        if intent is not None and intent.cluster == "slurm"
        for chunk in intent.chunks
    ]
    queue: dict[tuple[str, int], QueuedJob] = {}
    for queued in queued_jobs(names) if ask_queue else ():
        queue[queued.name, int(queued.job.partition("_")[2] or 0)] = queued
    views = []
    for one, intent in intents:
        if intent is None:
            continue
        for number, chunk in enumerate(intent.chunks):
            sent = one.sent(number)
            for task, groups in enumerate(chunk.jobs):
                if intent.cluster == "slurm":
                    state = _slurm_state(queue.get((chunk.name, task)), sent, ask_queue)
                else:
                    state = _process_state(run.folder, sent)
                views.append(
                    JobView(
                        submission=one.number,
                        cluster=intent.cluster,
                        name=chunk.name,
                        job=sent.jobs[task] if sent else "",
                        trials=tuple(trial_ids(groups)),
                        state=state[0],
                        reason=state[1],
                        node=state[2],
                        folder=one.folder / "submitit",
                    )
                )
    return views


def held_trials(jobs: Iterable[JobView]) -> dict[str, str]:
    """Return the trials that live jobs hold, and the job of each."""
    return {trial_id: job.job or job.name for job in jobs if job.live for trial_id in job.trials}


def _slurm_state(queued: QueuedJob | None, sent: Sent | None, asked: bool) -> tuple[str, str, str]:
    if queued is not None:
        return queued.state, queued.reason, queued.node
    if sent is None:
        return "NOT SENT", "", ""
    return ("ENDED", "the queue has forgotten it", "") if asked else ("UNKNOWN", "", "")


def _process_state(run: Path, sent: Sent | None) -> tuple[str, str, str]:
    if sent is None or sent.process is None:
        return "NOT SENT", "", ""
    alive = is_alive(sent.process)
    if alive is None and not is_silent(run, sent.jobs[0]):
        return "RUNNING", f"cannot be seen from here: it runs on {sent.process.host}", ""
    return ("RUNNING", "", sent.process.host) if alive else ("ENDED", "", sent.process.host)
