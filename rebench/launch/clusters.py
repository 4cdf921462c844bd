"""Where jobs are sent: SLURM or this machine through submitit, or this very process."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from submitit import LocalExecutor, SlurmExecutor
from submitit.core.utils import DelayedSubmission, FailedJobError, FailedSubmissionError, JobPaths

from rebench.errors import ClusterError, InputError, UnknownNameError
from rebench.launch.journal import Chunk, Sent
from rebench.launch.processes import mark_of
from rebench.launch.slurm import ask, find_slurm, largest_array
from rebench.launch.trust import current_umask, kept_from_others
from rebench.launch.turns import Turns
from rebench.launch.worker import Worker
from rebench.machine import cores
from rebench.store import atomic_file
from rebench.sweep import SlurmOptions

__all__ = [
    "CLUSTERS",
    "Cluster",
    "DebugCluster",
    "LocalCluster",
    "SlurmCluster",
    "make_cluster",
    "visible_gpus",
]


# Options of the sweep that submitit knows by the same name.
_SBATCH_OPTIONS: Final = (
    *("partition", "account", "qos", "constraint", "exclude", "nodelist", "comment"),
    *("cpus_per_task", "signal_delay_s", "array_parallelism"),
)


class Cluster(Protocol):
    """A place that runs workers."""

    def beside(self, live: Mapping[str, int]) -> tuple[int, int]:
        """Take in how many jobs each live array of the run has, before anything is sent.

        Return how many tasks the first submission to the scheduler may have, and the others.
        """

    def at_once(self) -> int | None:
        """Return how many jobs there is room for; None where a scheduler lets the others wait."""

    def send(self, folder: Path, chunk: Chunk, workers: Sequence[Worker]) -> Sent:
        """Start the workers of a chunk; submitit keeps its files in `folder`."""


class _Started:
    """An executor whose jobs begin with `rebench.launch.start`."""

    python: str
    folder: Path
    start: tuple[str, ...] = ()

    @property
    def _submitit_command_str(self) -> str:
        return " ".join(
            [self.python, "-u -m rebench.launch.start", shlex.quote(str(self.folder)), *self.start]
        )


class _Slurm(_Started, SlurmExecutor):
    """Writes its script on any machine; whether there is a SLURM is asked before it sends."""

    @classmethod
    def affinity(cls) -> int:
        return 1


class _Local(_Started, LocalExecutor):
    pass


class SlurmCluster:
    """One `sbatch` a chunk: a job array, or a plain job if the chunk has one task."""

    def __init__(self, options: SlurmOptions, *, trust_folder: bool = False) -> None:
        self._options = options
        self._start = _start(trust_folder)
        self._turns = Turns(options.array_parallelism, {})

    def beside(self, live: Mapping[str, int]) -> tuple[int, int]:
        """Return MaxArraySize, whose highest index is one less, but first what need not wait."""
        self._turns = Turns(self._options.array_parallelism, live)
        largest = largest_array()
        return self._turns.first_size(largest), largest

    def at_once(self) -> None:
        """Return None: the queue lets jobs wait."""

    def send(self, folder: Path, chunk: Chunk, workers: Sequence[Worker]) -> Sent:
        """Call `sbatch`; what SLURM answers to a refusal is the error's text."""
        executor = self._executor(folder, chunk)
        try:
            # submitit prints what sbatch says before it raises it.
            quiet = contextlib.redirect_stderr(io.StringIO())
            with kept_from_others(), quiet, executor.batch():
                jobs = [executor.submit(worker) for worker in workers]
        except (FailedJobError, FailedSubmissionError) as error:
            _remove_unsent(folder)
            raise ClusterError(_own_words(str(error))) from error
        self._turns.sent(jobs[0].job_id.partition("_")[0], len(jobs))
        return Sent(jobs=tuple(job.job_id for job in jobs))

    def script(self, folder: Path, chunk: Chunk) -> str:
        """Return the script that `sbatch` would be given."""
        executor = self._executor(folder, chunk)
        if len(chunk.jobs) > 1:
            executor.parameters["map_count"] = len(chunk.jobs)
        command = executor._submitit_command_str  # noqa: SLF001 - submitit shows it in no other way
        text: str = executor._make_submission_file_text(command, "")  # noqa: SLF001 - likewise
        return text

    def adopt(self, folder: Path, jobs: Mapping[int, str], workers: Sequence[Worker]) -> int:
        """Give jobs whose submitter died before it could tell them their work that work."""
        adopted = 0
        for task, job in jobs.items():
            pickle = Path(JobPaths(folder, job_id=job).submitted_pickle)
            if not pickle.exists():
                delayed = DelayedSubmission(workers[task])
                delayed.set_timeout(self._options.time_min, self._options.max_requeues)
                with kept_from_others(), atomic_file(pickle) as temporary:
                    delayed.dump(temporary)
                adopted += 1
        return adopted

    def _executor(self, folder: Path, chunk: Chunk) -> Any:
        options = self._options
        python = shlex.quote(sys.executable)
        if options.container_image:
            words = ["apptainer", "exec", *(["--nv"] if options.gpus_per_task else [])]
            words += [word for bind in options.container_binds for word in ("--bind", bind)]
            python = shlex.join([*words, options.container_image, "python"])
        executor = _Slurm(folder, max_num_timeout=options.max_requeues, python=python)
        executor.start = self._start
        chosen = {name: getattr(options, name) for name in _SBATCH_OPTIONS}
        extra: dict[str, object] = {"requeue": True, **options.extra}
        if options.mem_gb is not None:
            extra["mem"] = f"{round(options.mem_gb * 1024)}M"
        if before := self._turns.before(len(chunk.jobs)):
            own = [str(extra["dependency"])] if "dependency" in extra else []
            extra["dependency"] = ",".join([*own, ":".join(["afterany", *before])])
        # GPUs of a task are its own; those of the node are shared by all processes of the job.
        shared = options.processes_per_job > 1
        chosen["gpus_per_node" if shared else "gpus_per_task"] = options.gpus_per_task
        executor.update_parameters(
            job_name=chunk.name,
            time=options.time_min,
            ntasks_per_node=options.processes_per_job,
            setup=options.setup or None,
            additional_parameters=extra,
            **{name: value for name, value in chosen.items() if value is not None},
        )
        return executor


class LocalCluster:
    """One background process a job on this machine, kept and requeued by submitit."""

    def __init__(self, options: SlurmOptions, *, trust_folder: bool = False) -> None:
        self._options = options
        self._start = _start(trust_folder)

    def beside(self, live: Mapping[str, int]) -> tuple[int, int]:  # noqa: ARG002 - as in Cluster
        """Return 1: every process stands for itself."""
        return 1, 1

    def at_once(self) -> int:
        """Return how many processes the machine has GPUs, or else cores, for."""
        options = self._options
        gpus = _local_gpus(options)
        rooms = [cores() // ((options.cpus_per_task or 1) * options.processes_per_job)]
        if gpus and len(visible_gpus()) >= gpus:
            rooms = [len(visible_gpus()) // gpus]
        return max(1, min(*rooms, options.array_parallelism))

    def send(self, folder: Path, chunk: Chunk, workers: Sequence[Worker]) -> Sent:
        """Start one process, which outlives this one."""
        assert len(chunk.jobs) == len(workers) == 1
        # What would be several jobs elsewhere is one process here, with the time of all.
        requeues = self._options.max_requeues * len(chunk.jobs[0])
        executor = _Local(folder, max_num_timeout=requeues)
        executor.start = self._start
        count, there = _local_gpus(self._options), visible_gpus()
        slot = int(chunk.name.rpartition(".")[2])
        own = [there[(slot * count + at) % len(there)] for at in range(count)] if there else []
        executor.update_parameters(
            timeout_min=self._options.time_min,
            signal_delay_s=self._options.signal_delay_s,
            gpus_per_node=count,
            visible_gpus=own,
            tasks_per_node=self._options.processes_per_job,
            setup=self._options.setup,
        )
        with kept_from_others(), _silent_children():
            job = executor.submit(workers[0])
        return Sent(jobs=(job.job_id,), process=mark_of(int(job.job_id)))


@contextlib.contextmanager
def _silent_children() -> Iterator[None]:
    """Let processes started meanwhile inherit no output: a pipe behind it would wait for them."""
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        with Path(os.devnull).open("wb") as nowhere:
            for number, _ in kept:
                os.dup2(nowhere.fileno(), number)
        yield
    finally:
        for number, saved in kept:
            os.dup2(saved, number)
            os.close(saved)


class DebugCluster:
    """The caller's own process, one job after the other; for looking at what goes wrong."""

    def __init__(self, options: SlurmOptions, *, trust_folder: bool = False) -> None:
        """Take what every cluster takes; a worker that is called needs none of it."""

    def beside(self, live: Mapping[str, int]) -> tuple[int, int]:  # noqa: ARG002 - as in Cluster
        """Return 1: one job after the other."""
        return 1, 1

    def at_once(self) -> None:
        """Return None: jobs wait for each other here."""

    def send(self, folder: Path, chunk: Chunk, workers: Sequence[Worker]) -> Sent:  # noqa: ARG002 - as in Cluster
        """Run the workers here and return when they are done."""
        for worker in workers:
            worker()
        # They have ended, though this process has not.
        return Sent(jobs=(str(os.getpid()),), process=mark_of(os.getpid(), ended=True))


CLUSTERS: Final[Mapping[str, Callable[..., Cluster]]] = {
    "slurm": SlurmCluster,
    "local": LocalCluster,
    "debug": DebugCluster,
}


def make_cluster(name: str, options: SlurmOptions, *, trust_folder: bool = False) -> Cluster:
    """Return the cluster of that name; raise if it cannot be used here.

    Its jobs refuse pickles that others could have written, unless they are to `trust_folder`.
    """
    if name not in CLUSTERS:
        raise UnknownNameError("cluster", name, CLUSTERS)
    if name == "slurm":
        find_slurm()
    try:
        return CLUSTERS[name](options, trust_folder=trust_folder)
    except ValueError as error:
        raise InputError(str(error)) from error


def visible_gpus() -> list[int]:
    """Return the numbers of the GPUs that jobs of this machine may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [int(number) for number in chosen.split(",") if number.strip().isdigit()]
    try:
        return list(range(ask("nvidia-smi", "--list-gpus", limit_s=20).count("GPU ")))
    except ClusterError:
        return []


def _start(trust_folder: bool) -> tuple[str, ...]:
    return f"{current_umask():03o}", *(["--trust-folder"] if trust_folder else [])


def _local_gpus(options: SlurmOptions) -> int:
    if options.gpus_per_task is not None:
        return options.gpus_per_task
    return 1 if options.device != "cpu" and visible_gpus() else 0


def _remove_unsent(folder: Path) -> None:
    """Remove what submitit wrote for jobs that were refused: it has no job's number yet."""
    for path in folder.glob("*.pkl"):
        if "_" not in path.name:
            path.unlink(missing_ok=True)
    for path in folder.glob(".submission_file_*.sh"):
        # Of a job that was sent it is a link.
        if not path.is_symlink():
            path.unlink(missing_ok=True)


def _own_words(text: str) -> str:
    """Return the line in which SLURM says why, out of what submitit wraps around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("sbatch: ")]
    return own[-1] if own else (lines[-1] if lines else "sbatch failed and said nothing")
