"""The interface of a cluster: everything in which SLURM, this machine and this process differ."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rebench.launch.clusters.commands import LARGEST_ARRAY, QueuedJob
from rebench.launch.journal import Chunk, Sent, Submission
from rebench.launch.liveness import NOT_SENT, JobState
from rebench.runs import SlurmOptions
from rebench.runs.claims import Holder, ProcessMark
from rebench.runs.folder import Run, Tell

__all__ = ["Array", "Cluster", "JobView", "Limits", "python_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The jobs that a cluster accepts at this moment."""

    at_once: int | None = None
    """Jobs that there is room for; None if jobs wait in a queue."""
    largest: int = LARGEST_ARRAY
    """Jobs of the largest array."""
    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The nodes that take jobs of each type of device, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array of jobs to submit: one chunk of a submission."""

    submission: Submission
    chunk: Chunk
    options: SlurmOptions
    tasks: Sequence[Callable[..., None]]
    """The work of each job; picklable."""
    after: tuple[str, ...] = ()
    """Arrays that must end before this array begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job of a run; `job` is empty for a planned job that was never submitted."""

    submission: int
    cluster: str
    clusters: str
    """The name of the cluster if SLURM manages several clusters; otherwise mostly empty."""
    name: str
    task: int
    """The position in its array."""
    type_name: str
    job: str
    process: ProcessMark | None
    """The process of a job without a scheduler, on this or another machine."""
    trials: tuple[str, ...]
    folder: Path
    """The folder of its log."""
    sent_file: Path
    is_sent: bool = True
    owner: str = ""
    """The user who submitted it, where known."""
    state: JobState = NOT_SENT
    line: QueuedJob | None = None
    """The line of the queue about it."""

    @property
    def live(self) -> bool:
        """Whether it runs or will run, or may for all that is known."""
        return self.state.live

    @property
    def log(self) -> str:
        """The log of its first process; empty if it was never submitted."""
        before = f"{self.folder}/{self.job}_0_log.err"  # of version 0.1
        name = before if self.folder.name == "submitit" else f"{self.folder}/{self.job}_0.log"
        return name if self.job else ""


class Cluster(ABC):
    """A cluster, which runs jobs and tells their states."""

    name: ClassVar[str]
    has_queue: ClassVar[bool] = False
    """Whether a scheduler numbers the jobs, lets them wait for devices of several types, and limits
    their time. Without it jobs are processes of this machine."""
    waits: ClassVar[bool] = False
    """Whether `submit` returns after the last job has ended."""

    def options(self, options: SlurmOptions) -> SlurmOptions:
        """Return those options of a sweep that count here: without types, the shared ones."""
        return options if self.has_queue else options.of("")

    @abstractmethod
    def limits(self, options: SlurmOptions) -> Limits:
        """Return the limits; raise ClusterError if no job can be submitted from this machine."""

    @abstractmethod
    def preflight(self, options: SlurmOptions) -> None:
        """Raise if no job with these options can work."""

    @abstractmethod
    def script(self, array: Array) -> str:
        """Return the script of an array, for a dry run. Nothing is written."""

    @abstractmethod
    def submit(self, array: Array) -> Sent:
        """Submit an array; raise TooManyJobsError if it is too large at this moment."""

    @abstractmethod
    def states(
        self,
        run: Run,
        jobs: Sequence[JobView],
        *,
        ask: bool,
        done: Collection[str] | None,
        tell: Tell,
    ) -> list[JobView]:
        """Return the jobs with their states.

        Unless the scheduler may be asked (`ask`), its jobs are UNKNOWN. Accounting is asked about
        ended jobs with trials that are not `done`.
        """

    @abstractmethod
    def cancel(self, jobs: Sequence[JobView]) -> list[str]:
        """Cancel live jobs; return the numbers of those that were told to stop."""

    def hand_over(self, array: Array, jobs: Sequence[str]) -> None:  # noqa: B027 - optional
        """Give jobs their work after their submitter died; by default, jobs already have it."""

    @abstractmethod
    def worker_lives(self, run: Path, me: Holder, holder: Holder) -> bool:
        """Return whether the worker that holds a claim may live, as the worker `me` can tell."""

    def worker_died(self, holder: Holder) -> bool:  # noqa: ARG002 - clusters can know better
        """Return whether a worker that is gone died by itself, and was not ended by the cluster."""
        return True

    def can_requeue(self, job: str, *, told_to_end: bool) -> bool:  # noqa: ARG002 - here none is
        """Return whether the job of the calling process can go back into the queue.

        A cancelled job was `told_to_end` by SIGTERM.
        """
        return False

    def requeue(self, job: str, *, alone: bool) -> None:
        """Requeue the job of the calling process, which may be its only process (`alone`)."""
        raise NotImplementedError


def python_of(options: SlurmOptions) -> str:
    """Return the command that starts Python in a job, inside a container if there is one."""
    if not options.container_image:
        return shlex.quote(sys.executable)
    words = ["apptainer", "exec", *(["--nv"] if options.gpus or options.gres else [])]
    words += [word for bind in options.container_binds for word in ("--bind", bind)]
    return shlex.join([*words, options.container_image, "python"])
