"""SLURM as a cluster: submitit's SlurmExecutor submits jobs, SLURM's commands give their states."""

from __future__ import annotations

import contextlib
import functools
import getpass
import io
import os
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from rebench.errors import ClusterError, InputError, TooManyJobsError
from rebench.launch.clusters import commands
from rebench.launch.clusters.base import Array, Cluster, JobView, Limits, check_device, worker_of
from rebench.launch.journal import Sent
from rebench.launch.liveness import NOT_SENT, JobState
from rebench.runs import SlurmOptions
from rebench.runs.claims import Holder, runs
from rebench.runs.files import open_file
from rebench.runs.folder import Run, Tell
from rebench.runs.shards import write_atomically

__all__ = ["Slurm"]

# Options of the sweep that sbatch and submitit know by the same name.
_SAME_NAME: Final = (
    *("partition", "account", "qos", "constraint", "exclude", "nodelist", "comment"),
    *("cpus_per_task", "gres", "mem_per_cpu", "mail_user", "mail_type", "array_parallelism"),
)
# Messages of sbatch about too many jobs, too large an array, or a job with too large a request.
_LIMIT: Final = re.compile(
    r"violates accounting/QOS policy|SubmitJob|Invalid job array|temporarily (unable|unavailable)"
)
# The environment variables of sbatch that are not named after their option. A variable overrides a
# line of the script.
_OTHER_VARIABLES: Final = ("SBATCH_TIMELIMIT", "SBATCH_ARRAY_INX", "SBATCH_NO_REQUEUE")
_IN_MB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
# If SLURM ends a step for its memory, the state of the job is FAILED; only its log shows why.
_UNCLEAR: Final = frozenset({"FAILED", "ENDED"})
_OF_MEMORY: Final = re.compile(rb"exceeded memory limit|oom.kill event|: Out Of Memory\n")
_KILLED: Final = re.compile(rb"^srun: error: .*: Killed\n", re.MULTILINE)
_LAST_WORDS: Final = 4096
# Runs the real sbatch. submitit cannot read bytes that are not UTF-8, so it gets ASCII only.
_SBATCH: Final = """PATH={path}
sbatch "$@" > "$here/said" 2> "$here/errors"
code=$?
LC_ALL=C tr -cd '\\11\\12\\40-\\176' < "$here/said"
exit $code"""
# States of a job that SLURM or a user ended, not its worker.
_ENDED_BY_SLURM: Final = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "CANCELLED", "REVOKED"})


class Slurm(Cluster):
    """A SLURM cluster."""

    name: ClassVar[str] = "slurm"
    has_queue: ClassVar[bool] = True

    def limits(self, options: SlurmOptions) -> Limits:
        """Return the size of the largest array, and the nodes that are up."""
        if not shutil.which("sbatch"):
            raise ClusterError(
                f"no SLURM on this machine: `sbatch` is not on PATH{commands.ELSEWHERE}"
            )
        nodes = frozenset(node.name for node in commands.nodes(options) if node.up)
        return Limits(largest=commands.largest_array(), nodes=nodes)

    def preflight(self, options: SlurmOptions) -> None:
        """Raise if no node has the time or the memory of a job; unknown limits raise nothing."""
        check_device(options, options.gpus)
        with contextlib.suppress(ClusterError):
            _check_limits(options, commands.nodes(options))

    def script(self, array: Array) -> str:
        """Return the script that submitit writes, by a trial submission with a fake sbatch."""
        _, script = _submit(array, "echo Submitted batch job 1")
        return script

    def submit(self, array: Array) -> Sent:
        """Submit a job array, or a single job."""
        array.submission.logs.mkdir(exist_ok=True)
        path = shlex.quote(os.environ.get("PATH", os.defpath))
        jobs, script = _submit(array, _SBATCH.format(path=path))
        # A copy for people to read.
        copy = array.submission.folder / f"chunk.{array.chunk.number}.sbatch"
        write_atomically(copy, script.encode())
        return Sent(jobs=jobs)

    def states(
        self,
        run: Run,
        jobs: Sequence[JobView],
        *,
        ask: bool,
        done: Collection[str] | None,
        tell: Tell,
    ) -> list[JobView]:
        """Return the jobs with their states, from the queue, accounting and the logs."""
        queue: dict[tuple[str, int], commands.QueuedJob] = {}
        if ask:
            # The queue of all users can be long.
            own = all(_is_mine(folder) for folder in {job.sent_file.parent for job in jobs})
            for clusters in {job.clusters for job in jobs}:
                for line in commands.queued_jobs(run.job_prefix, clusters, own=own):
                    queue[line.name, int(line.job.partition("_")[2] or 0)] = line
        hides = functools.cache(commands.hides_jobs_of)
        seen = []
        for job in jobs:
            found = queue.get((job.name, job.task))
            if found is not None:
                # Others may have written the file with the number; `cancel` ends this job.
                state = JobState(found.state, found.reason)
                job = replace(job, job=found.job, state=state, line=found)
            elif not job.is_sent:
                job = replace(job, state=NOT_SENT)
            elif not ask:
                job = replace(job, state=JobState("UNKNOWN"))
            elif job.owner and hides(job.owner):
                hidden = JobState("UNKNOWN", f"a job of {job.owner}, which you may not see")
                job = replace(job, state=hidden)
            else:
                job = replace(job, state=JobState("ENDED", "the queue has forgotten it"))
            seen.append(job)
        return _as_accounted(seen, done, tell)

    def cancel(self, jobs: Sequence[JobView]) -> list[str]:
        """Cancel jobs with scancel: one command for each cluster that SLURM manages."""
        known = [job for job in jobs if job.state.name != "UNKNOWN"]
        refusals: list[str] = []
        for clusters in {job.clusters for job in known}:
            numbers = [job.job for job in known if job.clusters == clusters]
            refusals += commands.cancel(numbers, clusters)
        if refusals:
            refusal = refusals[-1]
            others = ", ".join(sorted({job.owner for job in known} - {"", getpass.getuser()}))
            if others and "denied" in refusal:
                refusal += f". Only {others} can cancel the jobs of {others}; your jobs got the"
                refusal += " request"
            raise ClusterError(refusal)
        return [job.job for job in known]

    def worker_lives(self, run: Path, me: Holder, holder: Holder) -> bool:  # noqa: ARG002
        """Return whether the holder's process runs in this job, or SLURM shows its job as live."""
        seen = runs(holder.process)
        if seen is False or (seen and (holder.job, holder.attempt) == (me.job, me.attempt)):
            return seen
        state = commands.job_state(holder.job)
        return commands.hides_jobs_of(holder.user) if state is None else JobState(state).live

    def worker_died(self, holder: Holder) -> bool:
        """Return whether the holder's job ended without preemption, cancellation or node loss."""
        return commands.job_state(holder.job) not in _ENDED_BY_SLURM

    def can_requeue(self, job: str, *, told_to_end: bool) -> bool:
        """Return whether the job runs; a job that was already cancelled or requeued does not."""
        return not told_to_end or commands.job_state(job) == "RUNNING"

    def requeue(self, job: str, *, alone: bool) -> None:
        """Requeue the job with scontrol."""
        try:
            commands.ask("scontrol", "requeue", job)
        except ClusterError:
            # Another process of the job requeued it first; SLURM lets this process finish.
            if alone or commands.job_state(job) == "RUNNING":
                raise


def _is_mine(submission: Path) -> bool:
    """Return whether this user made the folder of a submission, and so owns its jobs.

    Root can submit jobs for others (`sbatch --uid`).
    """
    with contextlib.suppress(OSError):
        return submission.stat().st_uid == os.geteuid() != 0
    return False


def _submit(array: Array, sbatch: str) -> tuple[tuple[str, ...], str]:
    """Submit an array through submitit; return its jobs and its script.

    The shell commands `sbatch` replace the program of this name. submitit writes its files into a
    temporary folder; no job reads them.
    """
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    flags = _flags(array)
    chosen = {name: value for name, value in flags.items() if value is not None}
    variables = [f"SBATCH_{name.upper()}" for name in (*chosen, *flags["additional_parameters"])]
    quiet = contextlib.redirect_stderr(io.StringIO())  # submitit prints sbatch's messages
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, lines in (("sbatch", sbatch), ("srun", "")):
            program = folder / name
            program.write_text(f"#!/bin/sh\nhere={shlex.quote(temporary)}\n{lines}\n")
            program.chmod(0o755)
        if not shutil.which("sbatch", path=temporary):
            raise ClusterError(
                f"no program can run in {folder.parent} (mounted with noexec?); set TMPDIR to a"
                " folder in which programs can run"
            )
        try:
            with _environment(PATH=temporary, remove=(*variables, *_OTHER_VARIABLES)), quiet:
                # The last word makes a comment of the words that submitit appends.
                executor = SlurmExecutor(folder, python=f"{_step(array)} #")
                executor.update_parameters(
                    setup=array.options.setup,
                    use_srun=False,
                    stderr_to_stdout=True,
                    wckey=None,
                    **flags,
                )
                # submitit needs a function per job, which it pickles; no job loads the pickles.
                jobs = executor.submit_array([print] * len(array.chunk.jobs))
        except (FailedJobError, FailedSubmissionError) as error:
            raise _refusal(folder, array.options) from error
        script = jobs[0].paths.submission_file.read_text()
    return tuple(job.job_id for job in jobs), script.rpartition(" # ")[0] + "\n"


def _step(array: Array) -> str:
    """Return the command with which the script of an array starts the workers."""
    log = f"{_logs(array)}_%t.log"
    words = ["srun", "--unbuffered", "--output", log, "--wait=0", "--open-mode=append"]
    # `--wait=0`: the processes of a job may end at very different times. In SLURM 22.05 to 23.02,
    # srun ignores the cores in the options of sbatch and may bind a worker to one core.
    if array.options.cpus_per_task:
        words.append(f"--cpus-per-task={array.options.cpus_per_task}")
    task = "0"
    if len(array.chunk.jobs) > 1:
        task = '"$SLURM_ARRAY_TASK_ID"'
    return f"{shlex.join(words)} {worker_of(array, task)}"


def _refusal(folder: Path, options: SlurmOptions) -> ClusterError:
    """Return the error with the words of sbatch, which are in files of this folder."""
    errors = (folder / "errors").read_text(errors="replace")
    words = commands.own_words(errors or (folder / "said").read_text(errors="replace"))
    if "partition name" in words:
        words += f", got {options.partition}; valid: {', '.join(commands.partitions())}"
    if _LIMIT.search(words):
        return TooManyJobsError(words)
    return ClusterError(words)


def _flags(array: Array) -> dict[str, Any]:
    """Return the parameters of submitit that are options of sbatch."""
    options = array.options
    extra: dict[str, Any] = {"output": f"{_logs(array)}_0.log", "requeue": True}
    if options.clusters is not None:
        extra["clusters"] = options.clusters
    if options.mem_gb is not None:
        extra["mem"] = f"{round(options.mem_gb * 1024)}M"
    for name, value in options.extra.items():
        extra[name.replace("-", "_")] = value
    if array.after:
        dependency = ":".join(["afterany", *array.after])
        if "dependency" in extra:
            dependency = f"{extra['dependency']},{dependency}"
        extra["dependency"] = dependency
    if "open_mode" in extra:
        extra["open-mode"] = extra.pop("open_mode")
    given = {name: _text(value) for name, value in extra.items() if value is not False}
    flags = {name: _text(getattr(options, name)) for name in _SAME_NAME}
    flags |= {
        "job_name": array.chunk.name,
        # Otherwise the jobs of a very short limit would be told to end as soon as they begin.
        "signal_delay_s": min(options.signal_delay_s, options.time_min * 30),
        "time": options.time_min,
        "ntasks_per_node": options.processes_per_job,
        "additional_parameters": given,
    }
    if options.gpus and options.processes_per_job > 1:
        flags["gpus_per_node"] = options.gpus_per_task  # all processes of the job share the GPUs
    elif options.gpus:
        flags["gpus_per_task"] = options.gpus_per_task
    return flags


def _text(value: Any) -> Any:
    """Return the value for the script; sbatch reads a backslash as an escape, so it is doubled."""
    if isinstance(value, str):
        return value.replace("\\", "\\\\")
    return value


def _logs(array: Array) -> str:
    """Return the beginning of the paths of logs, with SLURM's placeholders for the job number."""
    folder = str(array.submission.logs).replace("%", "%%")
    if len(array.chunk.jobs) > 1:
        return f"{folder}/%A_%a"
    return f"{folder}/%j"


@contextlib.contextmanager
def _environment(*, remove: Sequence[str] = (), **changes: str) -> Iterator[None]:
    """Change the environment of this process temporarily, because sbatch inherits it."""
    before = dict(os.environ)
    for name in remove:
        os.environ.pop(name, None)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _check_limits(options: SlurmOptions, nodes: Sequence[commands.Node]) -> None:
    """Raise if no node of the partition allows the time, or if no node has the memory."""
    where = f"partition {options.partition or '(the default one)'}"
    longest = max((node.limit_min for node in nodes), default=float("inf"))
    if options.time_min > longest:
        raise InputError(
            f"slurm.time_min = {options.time_min} is more than {where} allows:"
            f" {longest:.0f} min; lower it, or choose another partition (--no-preflight skips this"
            " check)"
        )
    largest = max((node.memory_mb for node in nodes), default=float("inf"))
    if (wanted := _memory_mb(options)) > largest:
        raise InputError(
            f"slurm asks for {wanted / 1024:.3g} GB of memory, and no node of {where} has more"
            f" than {largest / 1024:.3g} GB; lower it, or choose another partition (--no-preflight"
            " skips this check)"
        )


def _memory_mb(options: SlurmOptions) -> float:
    """Return the memory that a job requests on a node."""
    if options.mem_per_cpu:
        number, unit = re.findall(r"(\d+)(\D?)", options.mem_per_cpu)[0]
        cores = (options.cpus_per_task or 1) * options.processes_per_job
        return float(number) * _IN_MB[unit] * cores
    return (options.mem_gb or 0.0) * 1024


def _as_accounted(jobs: list[JobView], done: Collection[str] | None, tell: Tell) -> list[JobView]:
    """Ask accounting about jobs that the queue hides or has forgotten, and logs about failed jobs.

    A hidden job that accounting does not know counts as live.
    """
    hidden = [job for job in jobs if job.state.name == "UNKNOWN" and job.state.reason]
    unclear = []
    if done is not None:
        failed = [job for job in jobs if job.state.name in _UNCLEAR]
        unclear = [job for job in failed if not all(key in done for key in job.trials)]
    asked = [job.job for job in (*hidden, *unclear) if job.state.name != "FAILED"]
    ended = commands.ended_states(asked)
    unseen = Counter(job.state.reason for job in hidden if job.job not in ended)
    for reason, count in unseen.items():
        tell(f"{count} jobs count as live: {reason} (only its owner can submit that again)")
    told: dict[str, JobState] = {}
    for job in hidden:
        if job.job in ended:
            told[job.job] = JobState(ended[job.job])
    for job in unclear:
        state = job.state
        if job.job in ended:
            state = JobState(ended[job.job], state.reason)
        if state.name in _UNCLEAR:
            state = _by_its_log(job, state)
        told[job.job] = state
    return [replace(job, state=told.get(job.job, job.state)) for job in jobs]


def _by_its_log(job: JobView, state: JobState) -> JobState:
    """Return the state of a failed job, with the reason at the end of the job's log."""
    words = b""
    with contextlib.suppress(OSError), open_file(Path(job.log)) as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS))
        words = log.read()
    if _OF_MEMORY.search(words):
        return JobState("OUT_OF_MEMORY", state.reason)
    if _KILLED.search(words):
        why = "a process was killed, often for lack of memory"
        return JobState(state.name, f"{state.reason}; {why}")
    return state
