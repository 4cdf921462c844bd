"""Answers of SLURM's commands: the queue, the limits, ends of jobs. Nothing is cached."""

from __future__ import annotations

import getpass
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rebench.errors import ClusterError
from rebench.launch.clusters.base import LARGEST_ARRAY
from rebench.launch.journal import JobState, Kind
from rebench.runs.slurm_options import SlurmOptions, slurm_minutes

__all__ = [
    "ELSEWHERE",
    "Node",
    "QueuedJob",
    "ask",
    "cancel",
    "ended_states",
    "has_gpus",
    "hides_jobs_of",
    "largest_array",
    "nodes",
    "partitions",
    "queued_jobs",
    "state_of",
]


_PIECE: Final = 500
ELSEWHERE: Final = ". Submit from a login node, or use --cluster local"
# Beginnings of the states of nodes that accept no jobs.
_NO_JOBS: Final = ("down", "drain", "fail", "error", "inval", "future", "unknown", "boot")


# Kind of a job -> SLURM's states. In every other state, the job has ended.
_KINDS: Final[Mapping[Kind, str]] = {
    "waiting": "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESV_DEL_HOLD",
    "running": "RUNNING SUSPENDED RESIZING",
    "ending": "COMPLETING STOPPED SIGNALING STAGE_OUT",
    "unknown": "UNKNOWN",
    "failed": "FAILED BOOT_FAIL LAUNCH_FAILED",
    "memory": "OUT_OF_MEMORY",
    "stopped": "PREEMPTED NODE_FAIL CANCELLED REVOKED",
}


class QueuedJob(NamedTuple):
    """One line of the queue: a job or one task of an array."""

    number: str
    state: str
    reason: str
    name: str
    node: str = ""
    # The run time and the end time of the job, as SLURM writes them; end times sort as text.
    used: str = ""
    ended: str = ""


class Node(NamedTuple):
    """One line of `sinfo`: a node in a partition that takes jobs."""

    name: str
    memory_mb: float
    limit_min: float
    up: bool


def queued_jobs(wanted: str, clusters: str = "", *, own: bool = False) -> list[QueuedJob]:
    """Return the jobs whose names begin with `wanted`, or the job with this number.

    Ended jobs are included while SLURM knows them. With `own`, SLURM is asked about jobs of this
    user only.
    """
    words = ["-t", "all", "-o", "%i|%T|%r|%j|%N|%M|%e"]
    by_number = wanted[:1].isdigit()
    if by_number:
        words += ["-j", wanted]
    elif own:
        words += ["-u", str(os.geteuid())]
    try:
        shown = ask("squeue", "-h", "-r", *words, clusters=clusters)
    except ClusterError as error:
        if by_number and "Invalid job id" in str(error):
            return []
        raise
    # The name of another user's job may contain any text, "|" too.
    jobs = [QueuedJob(*line.split("|")) for line in shown.splitlines() if line.count("|") == 6]
    return [job for job in jobs if by_number or job.name.startswith(wanted)]


def state_of(name: str, reason: str = "") -> JobState:
    """Return the state of a job from SLURM's name of the state."""
    kind: Kind = "ended"
    for known, names in _KINDS.items():
        if name in names.split():
            kind = known
    return JobState(kind, name.lower(), reason)


def ended_states(jobs: Sequence[str]) -> dict[str, str]:
    """Return SLURM's states of ended jobs, from accounting; empty if it does not answer.

    Accounting can show a job as live forever, if SLURM's controller has lost the job.
    """
    if not jobs or not shutil.which("sacct"):
        return {}
    numbers = sorted({job.partition("_")[0] for job in jobs})
    states = {}
    for some in _in_pieces(numbers):
        try:
            shown = ask("sacct", "-n", "-a", "-X", "-P", "-o", "JobID,State", "-j", ",".join(some))
        except ClusterError:
            return {}
        for line in shown.splitlines():
            job, _, state = line.partition("|")
            # A cancelled job has the state "CANCELLED by USER".
            name = state.partition(" ")[0]
            if name and not state_of(name).live:
                # Tasks of an array that never started share one line, such as 101_[2-5%4].
                states[job.partition("[")[0]] = name
    for job in jobs:
        shared = f"{job.partition('_')[0]}_"
        if shared in states:
            states.setdefault(job, states[shared])
    return states


def cancel(jobs: Sequence[str], clusters: str = "") -> str:
    """Cancel jobs; return the last refusal, after which the other jobs are cancelled."""
    refusal = ""
    for some in _in_pieces(jobs):
        try:
            ask("scancel", *some, clusters=clusters)
        except ClusterError as error:  # noqa: PERF203 - the other jobs are still cancelled
            refusal = str(error)
    return refusal


def _in_pieces(jobs: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the job numbers in lists that are short enough for a command line."""
    return (jobs[start : start + _PIECE] for start in range(0, len(jobs), _PIECE))


def nodes(options: SlurmOptions) -> list[Node]:
    """Return the nodes for jobs with these options.

    If a constraint is unclear, the node is omitted.
    """
    excluded: set[str] = set()
    if options.exclude:
        excluded.update(ask("scontrol", "show", "hostnames", options.exclude).split())
    wanted = set(re.findall(r"[A-Za-z_][\w.-]*", options.constraint or ""))
    shown = ask("sinfo", "-h", "-N", "-o", "%P|%N|%f|%T|%m|%l", clusters=options.clusters or "")
    found = []
    for line in shown.splitlines():
        if line.count("|") != 5:
            continue
        name, node, features, state, memory, limit = line.split("|")
        # An asterisk marks the default partition.
        is_asked = name.endswith("*")
        if options.partition:
            is_asked = name.rstrip("*") in options.partition.split(",")
        if is_asked and wanted <= set(features.split(",")) and node not in excluded:
            memory_mb = float(re.sub(r"\D", "", memory) or math.inf)
            up = not state.startswith(_NO_JOBS)
            found.append(Node(node, memory_mb, slurm_minutes(limit), up))
    return found


def has_gpus() -> bool:
    """Return whether a partition has GPUs."""
    return "gpu" in ask("sinfo", "-h", "-o", "%G", limit_s=20)


def partitions(*, limit_s: float = 60.0) -> list[str]:
    """Return the names of the partitions."""
    return sorted(set(ask("sinfo", "-h", "-o", "%R", limit_s=limit_s).split()))


def largest_array() -> int:
    """Return the largest number of tasks in an array; SLURM's default if SLURM does not answer."""
    return max(1, int(_configured("MaxArraySize") or LARGEST_ARRAY))


def hides_jobs_of(user: str) -> bool:
    """Return whether SLURM hides, or may hide, the jobs of another user from this user."""
    if not user or user == getpass.getuser() or os.geteuid() == 0:
        return False
    return "jobs" in _configured("PrivateData", unknown="jobs").split(",")


def _configured(name: str, *, unknown: str = "") -> str:
    """Return a value of the configuration; empty if it is missing, `unknown` without an answer."""
    try:
        shown = ask("scontrol", "show", "config")
    except ClusterError:
        return unknown
    found = re.search(rf"^{name}\s*=\s*(\S+)", shown, re.MULTILINE)
    if found is None:
        return ""
    return found[1]


def ask(
    *command: str,
    limit_s: float | None = 60.0,
    clusters: str = "",
    text: str = "",
    without: Iterable[str] = (),
) -> str:
    """Return the output of a SLURM command; raise ClusterError with the command's message.

    `clusters` is the name of the cluster to ask if SLURM manages several clusters. `text` is the
    input of the command. The environment variables `without` are not passed on.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without}
    if clusters:
        environment["SLURM_CLUSTERS"] = clusters
    try:
        done = subprocess.run(  # noqa: S603 - SLURM's clients with our words
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # the name of another user's job may contain any byte
            check=False,
            timeout=limit_s,
            env=environment,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"`{command[0]}` is not on PATH: no SLURM on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{command[0]}` did not answer within {limit_s:.0f} s") from error
    if done.returncode:
        raise ClusterError(_own_words(done.stderr or done.stdout))
    return done.stdout


def _own_words(said: str) -> str:
    """Return the line of an error output that gives the reason of a SLURM command's failure."""
    words = said.strip().splitlines() or ["(no message)"]
    if any("configuration source" in line or "slurm.conf" in line for line in words):
        return f"SLURM is installed here, but not set up{ELSEWHERE}"
    own = [line for line in words if line.startswith("sbatch: ")]
    return (own or words)[-1]
