"""The interface of a cluster: all differences between SLURM, this machine and this process."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rebench.errors import InputError, RebenchError
from rebench.launch.journal import Job, Sent
from rebench.runs import SlurmOptions
from rebench.runs.folder import Tell, unheard

__all__ = ["LARGEST_ARRAY", "Cluster", "Limits", "Work", "check_device", "worker_command"]

LARGEST_ARRAY = 1001
"""SLURM's default for the tasks of an array."""

Work = Callable[[Job], None]
"""Function that does the work of a job in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The jobs that a cluster accepts at this moment."""

    at_once: int | None = None
    """Number of jobs that can start now; None if jobs wait in a queue."""
    largest: int = LARGEST_ARRAY
    """Number of jobs in the largest accepted array."""
    nodes: frozenset[str] = frozenset()
    """Nodes that accept jobs; empty if unknown."""
    refusal: RebenchError | None = None
    """The reason why no job with these options can work; None if it can, or if that is unknown."""


class Cluster(ABC):
    """A cluster, which runs jobs and tells their states.

    Another package adds a cluster by an entry point in the group ``rebench.clusters``, which names
    an object of a subclass. Its jobs run the command `worker_command` with their number in the
    environment variable ``REBENCH_JOB``.
    """

    name: ClassVar[str]
    """Name for the option ``--cluster`` and for the files of a run."""
    has_queue: ClassVar[bool] = False
    """Whether a scheduler numbers the jobs, lets them wait for devices, and limits their time.
    Without it jobs are processes of this machine."""
    waits: ClassVar[bool] = False
    """Whether `submit` returns after the last job has ended."""

    @abstractmethod
    def limits(self, options: SlurmOptions) -> Limits:
        """Return the limits; raise ClusterError if no job can be submitted from this machine."""

    @abstractmethod
    def submit(
        self, jobs: Sequence[Job], work: Work, *, after: Sequence[str] = (), dry_run: bool = False
    ) -> Sent:
        """Submit the jobs of an array; raise TooManyJobsError if it is too large at this moment.

        The array begins when the arrays `after` have ended. A dry run only returns the script.
        """

    @abstractmethod
    def look(
        self, jobs: Sequence[Job], *, done: Collection[str] | None = None, tell: Tell = unheard
    ) -> list[Job]:
        """Return the jobs of a run with their states; raise ClusterError without an answer.

        The cause of an end is looked for if the job has trials that are not `done`.
        """

    @abstractmethod
    def stop(self, jobs: Sequence[Job], *, requeue: bool = False) -> list[str]:
        """Cancel live jobs, or put them back into the queue; return the numbers of these jobs."""


def check_device(options: SlurmOptions, gpus: int) -> None:
    """Raise if the options name a GPU (`cuda:1`) that a job with this number of GPUs lacks."""
    number = options.device.partition(":")[2]
    if number and int(number) >= gpus > 0:
        raise InputError(
            f"slurm.device = {options.device!r}, but a job sees only its own GPUs ({gpus}, numbered"
            " from 0); set slurm.device = 'cuda'. On this machine, CUDA_VISIBLE_DEVICES chooses the"
            " GPUs for local jobs"
        )


def worker_command(job: Job, task: str) -> str:
    """Return the shell command of a worker, inside the container if one is set.

    `task` is the position of the job in its array. The command contains the whole work of the job:
    a job never loads a pickle, because a pickle in a shared folder could be replaced by a program.
    """
    options = job.options
    words = [sys.executable]
    if options.container_image:
        words = ["apptainer", "exec"]
        if options.gpus or options.gres:
            words.append("--nv")
        for bind in options.container_binds:
            words += ["--bind", bind]
        words += [options.container_image, "python"]
    words += ["-u", "-m", "rebench.launch.worker"]
    words += [str(job.submission.run), str(job.submission.number), str(job.chunk)]
    return f"{shlex.join(words)} {task}"
