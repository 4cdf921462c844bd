"""The interface of a cluster: all differences between SLURM, this machine and this process."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rebench.errors import InputError
from rebench.launch.clusters.commands import LARGEST_ARRAY, QueuedJob
from rebench.launch.journal import Chunk, Sent, Submission
from rebench.launch.liveness import NOT_SENT, JobState
from rebench.runs import SlurmOptions
from rebench.runs.claims import Holder, ProcessMark
from rebench.runs.folder import Run, Tell

__all__ = ["Array", "Cluster", "JobView", "Limits", "check_device", "worker_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The jobs that a cluster accepts at this moment."""

    at_once: int | None = None
    """Number of jobs that can start now; None if jobs wait in a queue."""
    largest: int = LARGEST_ARRAY
    """Number of jobs in the largest accepted array."""
    nodes: frozenset[str] = frozenset()
    """Nodes that accept jobs; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array of jobs to submit: one chunk of a submission."""

    submission: Submission
    chunk: Chunk
    options: SlurmOptions
    after: tuple[str, ...] = ()
    """Arrays that must end before this array begins."""
    work: Callable[[int], None] = print
    """Function that does the work of a job in this process, by the job's place in the array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job of a run; `job` is empty for a planned job that was never submitted."""

    submission: int
    cluster: str
    clusters: str
    """The name of the cluster if SLURM manages several clusters; otherwise mostly empty."""
    name: str
    task: int
    """Position of the job in its array."""
    partition: str
    """Requested partition; empty for the default one."""
    job: str = ""
    process: ProcessMark | None = None
    """The process of a job without a scheduler, on this machine or another."""
    trials: tuple[str, ...]
    folder: Path
    """The folder that contains the job's log."""
    sent_file: Path
    is_sent: bool = True
    astray: bool = False
    """Whether the run is no longer in the folder in which the job looks for it."""
    owner: str = ""
    """The user who submitted the job; empty if unknown."""
    state: JobState = NOT_SENT
    line: QueuedJob | None = None
    """The line about the job in SLURM's queue."""

    @property
    def live(self) -> bool:
        """Whether the job runs or will run; true if its state is unknown."""
        return self.state.live

    @property
    def log(self) -> str:
        """Path of the log of the job's first process; empty if the job was never submitted."""
        return f"{self.folder}/{self.job}_0.log" if self.job else ""


class Cluster(ABC):
    """A cluster, which runs jobs and tells their states."""

    name: ClassVar[str]
    has_queue: ClassVar[bool] = False
    """Whether a scheduler numbers the jobs, lets them wait for devices, and limits their time.
    Without it jobs are processes of this machine."""
    waits: ClassVar[bool] = False
    """Whether `submit` returns after the last job has ended."""

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
        """Cancel live jobs; return the numbers of the jobs that received the request."""

    @abstractmethod
    def worker_lives(self, run: Path, me: Holder, holder: Holder) -> bool:
        """Return whether the `holder` of a claim may be alive, as far as the worker `me` knows."""

    def worker_died(self, holder: Holder) -> bool:  # noqa: ARG002 - clusters can know better
        """Return whether an ended worker died by itself; False if the cluster ended it."""
        return True

    def job_was_killed(self, job: str) -> bool:  # noqa: ARG002 - a scheduler ends all processes
        """Return whether the first process of this process's job was killed."""
        return False

    def can_requeue(self, job: str, *, told_to_end: bool) -> bool:  # noqa: ARG002 - here none is
        """Return whether the job of the calling process can go back into the queue.

        `told_to_end` means that the job got SIGTERM; a cancelled job gets it.
        """
        return False

    def requeue(self, job: str, *, alone: bool) -> None:
        """Requeue the job of this process; `alone` means that the job has no other process."""
        raise NotImplementedError


def check_device(options: SlurmOptions, gpus: int) -> None:
    """Raise if the options name a GPU (`cuda:1`) that a job with this number of GPUs lacks."""
    number = options.device.partition(":")[2]
    if number and int(number) >= gpus > 0:
        raise InputError(
            f"slurm.device = {options.device!r}, but a job sees only its own GPUs ({gpus}, numbered"
            " from 0); set slurm.device = 'cuda'. On this machine, CUDA_VISIBLE_DEVICES chooses the"
            " GPUs for local jobs"
        )


def worker_of(array: Array, task: str) -> str:
    """Return the shell command of a worker, inside the container if one is set.

    `task` is the position of the job in its array. The command contains the whole work of the job:
    a job never loads a pickle, because a pickle in a shared folder could be replaced by a program.
    """
    options, submission = array.options, array.submission
    words = [sys.executable]
    if options.container_image:
        words = ["apptainer", "exec", *(["--nv"] if options.gpus or options.gres else [])]
        words += [word for bind in options.container_binds for word in ("--bind", bind)]
        words += [options.container_image, "python"]
    words += ["-u", "-m", "rebench.launch.worker", str(submission.run), str(submission.number)]
    return f"{shlex.join(words)} {array.chunk.number} {task}"
