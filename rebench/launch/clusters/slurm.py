"""SLURM as a cluster: submitit writes the script of an array; SLURM's commands do the rest."""

from __future__ import annotations

import contextlib
import functools
import getpass
import math
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from rebench.errors import ClusterError, InputError, RebenchError, TooManyJobsError
from rebench.launch.clusters import commands
from rebench.launch.clusters.base import Cluster, Limits, Work, check_device, worker_command
from rebench.launch.journal import Job, JobState, Sent
from rebench.runs import SlurmOptions
from rebench.runs.files import open_file
from rebench.runs.folder import Tell, unheard
from rebench.runs.shards import write_atomically
from rebench.runs.slurm_options import slurm_minutes

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
# submitit has its own value of this option under this name.
_SUBMITIT_NAMES: Final = {"open_mode": "open-mode", "open-mode": "open-mode"}
_IN_MB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
# If SLURM ends a step for its memory, the state of the job is FAILED; only its log shows why.
_OF_MEMORY: Final = re.compile(rb"exceeded memory limit|oom.kill event|: Out Of Memory\n")
_KILLED: Final = re.compile(rb"^srun: error: .*: Killed\n", re.MULTILINE)
_LAST_WORDS: Final = 4096
_FORGOTTEN: Final = JobState("ended", "ended", "the queue has forgotten it")


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
        nodes = commands.nodes(options)
        refusal = None
        try:
            check_device(options, options.gpus)
            _check_limits(options, nodes)
        except RebenchError as error:
            refusal = error
        up = frozenset(node.name for node in nodes if node.up)
        return Limits(largest=commands.largest_array(), nodes=up, refusal=refusal)

    def submit(
        self,
        jobs: Sequence[Job],
        work: Work,  # noqa: ARG002 - the script does the work
        *,
        after: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Sent:
        """Submit a job array, or a single job."""
        flags = _flags(jobs, after)
        script = _script(jobs, flags)
        if dry_run:
            return Sent(jobs=(), script=script)
        submission = jobs[0].submission
        submission.logs.mkdir(exist_ok=True)
        variables = [f"SBATCH_{name.upper()}" for name in (*flags, *flags["additional_parameters"])]
        try:
            said = commands.ask(
                "sbatch", text=script, without=(*variables, *_OTHER_VARIABLES), limit_s=None
            )
        except ClusterError as error:
            words = str(error)
            if "partition name" in words:
                valid = ", ".join(commands.partitions())
                words += f", got {jobs[0].options.partition}; valid: {valid}"
            kind = TooManyJobsError if _LIMIT.search(words) else ClusterError
            raise kind(words) from error
        number = re.search(r"job (\d+)", said)
        if number is None:
            raise ClusterError(f"sbatch told no job number, but {said.strip()!r}")
        # A copy for people to read.
        copy = submission.folder / f"chunk.{jobs[0].chunk}.sbatch"
        write_atomically(copy, script.encode())
        return Sent.of_array(number[1], len(jobs), script)

    def look(
        self, jobs: Sequence[Job], *, done: Collection[str] | None = None, tell: Tell = unheard
    ) -> list[Job]:
        """Return the jobs with their states, from the queue, accounting and the logs.

        A hidden job that accounting does not know counts as live.
        """
        queue: dict[tuple[str, int], commands.QueuedJob] = {}
        # The queue of all users can be long.
        own = all(_is_mine(folder) for folder in {job.submission.folder for job in jobs})
        for clusters, wanted in {(job.options.clusters or "", _wanted(job)) for job in jobs}:
            for line in commands.queued_jobs(wanted, clusters, own=own):
                queue[line.name, int(line.number.partition("_")[2] or 0)] = line
                queue[line.number, 0] = line
        hides = functools.cache(commands.hides_jobs_of)
        seen = []
        for job in jobs:
            shown = queue.get((job.name or job.number, job.task))
            seen.append(_as_queued(job, shown, hides))
        return _explained(seen, done, tell)

    def stop(self, jobs: Sequence[Job], *, requeue: bool = False) -> list[str]:
        """Cancel jobs with scancel, or requeue them with scontrol."""
        known = [job for job in jobs if job.state.kind != "unknown"]
        refusal = ""
        for clusters in {job.options.clusters or "" for job in known}:
            numbers = [job.number for job in known if (job.options.clusters or "") == clusters]
            if requeue:
                commands.ask("scontrol", "requeue", ",".join(numbers), clusters=clusters)
            else:
                refusal = commands.cancel(numbers, clusters) or refusal
        if refusal:
            others = ", ".join(sorted({job.owner for job in known} - {"", getpass.getuser()}))
            if others and "denied" in refusal:
                refusal += f". Only {others} can cancel the jobs of {others}; your jobs got the"
                refusal += " request"
            raise ClusterError(refusal)
        return [job.number for job in known]


def _wanted(job: Job) -> str:
    """Return the beginning of the names of the run's jobs, or the number of an unnamed job."""
    if not job.name:
        return job.number
    return f"{job.name.rpartition('-')[0]}-"


def _as_queued(job: Job, line: commands.QueuedJob | None, hides: Callable[[str], bool]) -> Job:
    """Return a job with the state that the queue shows."""
    if line is not None:
        # Others may have written the file with the number; `stop` ends this job.
        return replace(
            job,
            number=line.number,
            state=commands.state_of(line.state, line.reason),
            node=line.node,
            used_min=slurm_minutes(line.used),
            ended=line.ended,
        )
    if not job.is_sent:
        return job
    if job.owner and hides(job.owner):
        reason = f"a job of {job.owner}, which you may not see"
        return replace(job, state=JobState("unknown", "unknown", reason))
    return replace(job, state=_FORGOTTEN)


def _is_mine(submission: Path) -> bool:
    """Return whether this user made the folder of a submission, and so owns its jobs.

    Root can submit jobs for others (`sbatch --uid`).
    """
    with contextlib.suppress(OSError):
        return submission.stat().st_uid == os.geteuid() != 0
    return False


def _explained(jobs: list[Job], done: Collection[str] | None, tell: Tell) -> list[Job]:
    """Return the jobs with the causes of their ends, from accounting and logs."""
    unclear = []
    for job in jobs:
        failed = done is not None and job.state.name in ("failed", "ended")
        if job.state.kind == "unknown" or (failed and not set(job.trials) <= set(done or ())):
            unclear.append(job)
    ended = commands.ended_states([job.number for job in unclear if job.state.name != "failed"])
    hidden: Counter[str] = Counter()
    told: dict[str, JobState] = {}
    for job in unclear:
        state = job.state
        if job.number in ended:
            reason = "" if state.kind == "unknown" else state.reason
            state = commands.state_of(ended[job.number], reason)
        if state.kind == "unknown":
            hidden[state.reason] += 1
        elif state.name in ("failed", "ended"):
            state = _by_its_log(job, state)
        told[job.number] = state
    for reason, count in hidden.items():
        tell(f"{count} jobs count as live: {reason} (only its owner can submit that again)")
    return [replace(job, state=told.get(job.number, job.state)) for job in jobs]


def _script(jobs: Sequence[Job], flags: dict[str, Any]) -> str:
    """Return the script of an array. Nothing is written."""
    from submitit.slurm.slurm import _make_sbatch_string  # the same for every cluster of submitit

    job = jobs[0]
    log = f"{_logs(jobs)}_%t.log"
    words = ["srun", "--unbuffered", "--output", log, "--wait=0", "--open-mode=append"]
    # `--wait=0`: the processes of a job may end at very different times. In SLURM 22.05 to 23.02,
    # srun ignores the cores in the options of sbatch and may bind a worker to one core.
    if job.options.cpus_per_task:
        words.append(f"--cpus-per-task={job.options.cpus_per_task}")
    task = "0"
    if len(jobs) > 1:
        flags = flags | {"map_count": len(jobs)}
        task = '"$SLURM_ARRAY_TASK_ID"'
    return _make_sbatch_string(
        command=f"{shlex.join(words)} {worker_command(job, task)}",
        folder=job.submission.logs,
        setup=job.options.setup or None,
        use_srun=False,
        stderr_to_stdout=True,
        wckey=None,  # type: ignore[arg-type]  # submitit
        **flags,
    )


def _flags(jobs: Sequence[Job], after: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of submitit that are options of sbatch."""
    options = jobs[0].options
    extra: dict[str, Any] = {"output": f"{_logs(jobs)}_0.log", "requeue": True}
    if options.clusters is not None:
        extra["clusters"] = options.clusters
    if options.mem_gb is not None:
        extra["mem"] = f"{round(options.mem_gb * 1024)}M"
    for name, value in options.extra.items():
        extra[_SUBMITIT_NAMES.get(name, name.replace("-", "_"))] = value
    if after:
        dependency = ":".join(["afterany", *after])
        if "dependency" in extra:
            dependency = f"{extra['dependency']},{dependency}"
        extra["dependency"] = dependency
    given = {name: _text(value) for name, value in extra.items() if value is not False}
    flags = {}
    for name in _SAME_NAME:
        value = getattr(options, name)
        if value is not None:
            flags[name] = _text(value)
    flags |= {
        "job_name": jobs[0].name,
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


def _logs(jobs: Sequence[Job]) -> str:
    """Return the beginning of the paths of logs, with SLURM's placeholders for the job number."""
    folder = str(jobs[0].submission.logs).replace("%", "%%")
    if len(jobs) > 1:
        return f"{folder}/%A_%a"
    return f"{folder}/%j"


def _check_limits(options: SlurmOptions, nodes: Sequence[commands.Node]) -> None:
    """Raise if no node of the partition allows the time, or if no node has the memory."""
    where = f"partition {options.partition or '(the default one)'}"
    longest = max((node.limit_min for node in nodes), default=math.inf)
    if options.time_min > longest:
        raise InputError(
            f"slurm.time_min = {options.time_min} is more than {where} allows:"
            f" {longest:.0f} min; lower it, or choose another partition (--no-preflight skips this"
            " check)"
        )
    wanted = (options.mem_gb or 0.0) * 1024
    if options.mem_per_cpu:
        number, unit = re.findall(r"(\d+)(\D?)", options.mem_per_cpu)[0]
        cores = (options.cpus_per_task or 1) * options.processes_per_job
        wanted = float(number) * _IN_MB[unit] * cores
    largest = max((node.memory_mb for node in nodes), default=math.inf)
    if wanted > largest:
        raise InputError(
            f"slurm asks for {wanted / 1024:.3g} GB of memory, and no node of {where} has more"
            f" than {largest / 1024:.3g} GB; lower it, or choose another partition (--no-preflight"
            " skips this check)"
        )


def _by_its_log(job: Job, state: JobState) -> JobState:
    """Return the state of a failed job, with the reason at the end of the job's log."""
    words = b""
    with contextlib.suppress(OSError), open_file(Path(job.log)) as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS))
        words = log.read()
    if _OF_MEMORY.search(words):
        return commands.state_of("OUT_OF_MEMORY", state.reason)
    if _KILLED.search(words):
        why = "a process was killed, often for lack of memory"
        return state._replace(reason=f"{state.reason}; {why}")
    return state
