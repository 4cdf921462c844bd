"""What SLURM's own commands say: the queue, the limits, how a job ended. Nothing is cached."""

from __future__ import annotations

import functools
import getpass
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rebench.errors import ClusterError

__all__ = [
    "DEFAULT_PARTITION",
    "QueuedJob",
    "ask",
    "ended_states",
    "find_slurm",
    "hides_jobs_of",
    "in_pieces",
    "is_limit",
    "job_state",
    "largest_array",
    "minutes",
    "nodes_for",
    "partition_limits",
    "queued_jobs",
]


DEFAULT_PARTITION: Final = "(default)"

_PIECE: Final = 500
_LARGEST_ARRAY: Final = 1001
# How the states of nodes begin that take no jobs.
_NO_JOBS: Final = ("down", "drain", "fail", "error", "inval", "future", "unknown", "boot")
_LIMIT: Final = re.compile(
    r"violates accounting/QOS policy|SubmitJob|Invalid job array|temporarily (unable|unavailable)"
)


class QueuedJob(NamedTuple):
    """One line of the queue: a job or one task of an array."""

    job: str
    state: str
    reason: str
    name: str
    node: str = ""
    # How long it ran and when it ended, in SLURM's forms, the second of which sort by time.
    used: str = ""
    ended: str = ""


def find_slurm() -> None:
    """Raise ClusterError if this machine has no SLURM."""
    if not shutil.which("sbatch"):
        raise ClusterError(
            "no SLURM on this machine: `sbatch` is not on PATH. Submit from a login node,"
            " or use --cluster local"
        )


def queued_jobs(prefix: str) -> list[QueuedJob]:
    """Return every job whose name begins so and that the controller remembers, ended ones too."""
    shown = ask("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%j|%N|%M|%e")
    # The name of somebody else's job may hold anything.
    jobs = [QueuedJob(*line.split("|")) for line in shown.splitlines() if line.count("|") == 6]
    return [job for job in jobs if job.name.startswith(prefix)]


def job_state(job: str) -> str | None:
    """Return the state of one job, or None if the controller does not know it."""
    try:
        shown = ask("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%T").split()
    except ClusterError as error:
        if "Invalid job id" in str(error):
            return None
        raise
    return shown[0] if shown else None


def ended_states(jobs: Sequence[str]) -> dict[str, str]:
    """Return how jobs ended, from accounting; nothing where there is none or it does not answer."""
    if not jobs or not shutil.which("sacct"):
        return {}
    numbers = sorted({job.partition("_")[0] for job in jobs})
    pairs: list[list[str]] = []
    for some in in_pieces(numbers):
        try:
            shown = ask("sacct", "-n", "-a", "-X", "-P", "-o", "JobID,State", "-j", ",".join(some))
        except ClusterError:
            return {}
        pairs += [line.split("|") for line in shown.splitlines()]
    return {pair[0]: pair[1].split()[0] for pair in pairs if len(pair) == 2 and pair[1]}


def in_pieces(jobs: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield so many numbers of jobs at a time as every command line takes."""
    return (jobs[start : start + _PIECE] for start in range(0, len(jobs), _PIECE))


def is_limit(error: ClusterError) -> bool:
    """Return whether `sbatch` refused because of how many jobs there are already, or in an array.

    Its words are the same where one job alone asks for too much.
    """
    return _LIMIT.search(str(error)) is not None


def partition_limits() -> dict[str, float]:
    """Return the longest time of a job, in minutes, by partition, the default one also as such."""
    limits = {}
    for line in ask("sinfo", "-h", "-o", "%P|%l").splitlines():
        name, _, longest = line.partition("|")
        limits[name.rstrip("*")] = minutes(longest)
        if name.endswith("*"):
            limits[DEFAULT_PARTITION] = minutes(longest)
    return limits


def nodes_for(partition: str | None, constraint: str | None, exclude: str | None) -> set[str]:
    """Return the nodes that are up and take such jobs; where in doubt, fewer."""
    excluded = set(ask("scontrol", "show", "hostnames", exclude).split()) if exclude else set()
    wanted = set(re.findall(r"[A-Za-z_][\w.-]*", constraint or ""))
    nodes = set()
    for line in ask("sinfo", "-h", "-N", "-o", "%P|%N|%f|%T").splitlines():
        name, node, features, state = line.split("|")
        names = {name, name.rstrip("*"), *([DEFAULT_PARTITION] if name.endswith("*") else [])}
        if (
            names & set((partition or DEFAULT_PARTITION).split(","))
            and wanted <= set(features.split(","))
            and not state.startswith(_NO_JOBS)
        ):
            nodes.add(node)
    return nodes - excluded


def minutes(text: str) -> float:
    """Return a time of SLURM's, ``[[days-]hours:]minutes:seconds``; infinite for any word."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return math.inf
    days, hours, whole, seconds = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + whole + seconds / 60


def largest_array() -> int:
    """Return how many tasks one array may have here; SLURM's default where none answers."""
    try:
        return max(1, int(_configured("MaxArraySize") or _LARGEST_ARRAY))
    except ClusterError:
        return _LARGEST_ARRAY


def hides_jobs_of(user: str) -> bool:
    """Return whether this user may not see the jobs of another, as far as that can be asked."""
    if not user or user == getpass.getuser() or os.geteuid() == 0:
        return False
    try:
        return "jobs" in _configured("PrivateData").split(",")
    except ClusterError:
        return True


@functools.cache
def _configured(name: str) -> str:
    """Return a value of the cluster's configuration; empty if there is none."""
    shown = ask("scontrol", "show", "config")
    found = re.search(rf"^{name}\s*=\s*(\S+)", shown, re.MULTILINE)
    return found[1] if found else ""


def ask(*command: str, limit_s: float = 60.0) -> str:
    """Run one of SLURM's commands; return its output or raise ClusterError with its own words."""
    try:
        done = subprocess.run(  # noqa: S603 - SLURM's clients with our words
            command, capture_output=True, text=True, check=False, timeout=limit_s
        )
    except FileNotFoundError as error:
        raise ClusterError(f"`{command[0]}` is not on PATH: no SLURM on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{command[0]}` did not answer within {limit_s:.0f} s") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["(no message)"]
        raise ClusterError(words[-1])
    return done.stdout
