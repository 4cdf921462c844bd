"""This machine as a cluster: submitit's LocalExecutor, in a separate session.

submitit starts the processes of a job in the session of the caller. Ctrl-C or a closed terminal
would end these processes. Therefore a job begins with `rebench.launch.clusters.background`, which
is the leader of a new session and calls submitit there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

import psutil

from rebench.errors import ClusterError
from rebench.launch.clusters.base import Array, Cluster, JobView, Limits, check_device, worker_of
from rebench.launch.devices import find_device, visible_gpus
from rebench.launch.journal import Sent
from rebench.launch.liveness import WORKER_SILENCE_S, last_heard_s, process_state
from rebench.machine import cores
from rebench.runs import SlurmOptions
from rebench.runs.claims import Holder, ProcessMark, mark_of, runs, tree_of
from rebench.runs.folder import Run, Tell

__all__ = ["Local", "room"]

_LEADER: Final = "rebench.launch.clusters.background"
# Environment variable of all processes of a job: the GPUs of the job.
_GPUS: Final = "REBENCH_GPUS"
# Processes started by this process. Ended ones are reaped when the next one starts, so that none
# stays a zombie; the others continue after the end of this process.
_started: Final[list[subprocess.Popen[bytes]]] = []


class Local(Cluster):
    """This machine. A job is a process; the job number is the process id."""

    name: ClassVar[str] = "local"

    def limits(self, options: SlurmOptions) -> Limits:
        """Return the limits: as many jobs at once as this machine has GPUs or cores for."""
        return Limits(at_once=room(options), largest=1)

    def preflight(self, options: SlurmOptions) -> None:
        """Raise if the options ask for a GPU that torch or a job does not see."""
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if options.device != "cpu" and any(kind in named for kind in ("GPU-", "MIG-")):
            raise ClusterError(
                f"CUDA_VISIBLE_DEVICES is {named}; local jobs need numbers, such as 0,1. Set them, "
                "or set device = 'cpu' (--set slurm.device=cpu)"
            )
        if not self.waits:  # a job in this process sees all GPUs
            check_device(options, _gpus_of_a_job(options))
        if options.gpu_setting:
            find_device(options)

    def script(self, array: Array) -> str:
        """Return the script for bash."""
        return _script(array)

    def submit(self, array: Array) -> Sent:
        """Start the process of a job; neither Ctrl-C nor closing the terminal ends it."""
        array.submission.logs.mkdir(exist_ok=True)
        own = ",".join(map(str, _least_used_gpus(_gpus_of_a_job(array.options))))
        process = subprocess.Popen(  # noqa: S603 - the sweep's own set-up commands
            ["/bin/bash", "-c", _script(array)],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": own, _GPUS: own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _started[:] = [one for one in _started if one.poll() is None] + [process]
        return Sent(jobs=(str(process.pid),), process=mark_of(process.pid))

    def states(
        self,
        run: Run,
        jobs: Sequence[JobView],
        *,
        ask: bool,  # noqa: ARG002 - processes are always asked
        done: Collection[str] | None,  # noqa: ARG002 - and no accounting
        tell: Tell,  # noqa: ARG002
    ) -> list[JobView]:
        """Return the jobs with the states of their processes."""
        heard = functools.cache(functools.partial(last_heard_s, run.folder))
        return [
            replace(job, state=process_state(job.process, job.sent_file, job.job, heard))
            for job in jobs
        ]

    def cancel(self, jobs: Sequence[JobView]) -> list[str]:
        """Send SIGTERM to all processes of jobs on this machine: workers stop at a checkpoint."""
        cancelled = []
        for job in jobs:
            if job.process is None or not _is_ours(job, job.process):
                continue
            for pid in tree_of(job.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            cancelled.append(job.job)
        return cancelled

    def worker_lives(self, run: Path, me: Holder, holder: Holder) -> bool:  # noqa: ARG002
        """Return whether the holder runs; on another host, whether its job reported recently."""
        if (seen := runs(holder.process)) is not None:
            return seen
        return last_heard_s(run).get(holder.job, WORKER_SILENCE_S) < WORKER_SILENCE_S

    def job_was_killed(self, job: str) -> bool:
        """Return whether the leader of this session has ended; its number is not used again."""
        return os.getsid(0) == int(job) and not mark_of(int(job)).started


def _is_ours(job: JobView, process: ProcessMark) -> bool:
    """Return whether this user started the process for this job, by its owner and command line.

    In a shared run folder, others can write the file that names the process.
    """
    if not runs(process):
        return False
    try:
        seen = psutil.Process(process.pid)
        command = " ".join(seen.cmdline())
        owner = seen.uids().real
    except psutil.Error:
        return False
    return owner == os.getuid() and _LEADER in command and job.name in command


def room(options: SlurmOptions) -> int:
    """Return the number of jobs that this machine can run at once: by GPUs, or by cores."""
    gpus, there = _gpus_of_a_job(options), len(visible_gpus())
    jobs = cores() // ((options.cpus_per_task or 1) * options.processes_per_job)
    if gpus and there >= gpus:
        jobs = there // gpus
    return max(1, min(jobs, options.array_parallelism))


def _least_used_gpus(count: int) -> list[int]:
    """Return the GPUs with the fewest local jobs, of all runs, by the processes' environments."""
    jobs = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # ended, or of another user
            if gpus := process.environ().get(_GPUS):
                jobs[os.getsid(process.pid)] = gpus
    used = Counter(int(gpu) for gpus in jobs.values() for gpu in gpus.split(","))
    return sorted(visible_gpus(), key=used.__getitem__)[:count]


def _gpus_of_a_job(options: SlurmOptions) -> int:
    if options.gpus_per_task is not None:
        return options.gpus
    return 1 if options.device != "cpu" and visible_gpus() else 0


def _script(array: Array) -> str:
    """Return the script of a job: its set-up, then the process that calls submitit.

    submitit lets processes write to private files, so each worker opens a log that others may read.
    """
    logs = shlex.quote(str(array.submission.logs))
    worker = (
        f"exec >> {logs}/${{REBENCH_JOB}}_${{SUBMITIT_LOCAL_GLOBALID}}.log 2>&1;"
        f" exec {worker_of(array, '0')}"
    )
    # bash ignores the words that submitit appends to its command of Python.
    python = shlex.join(["/bin/bash", "-c", worker, "rebench"])
    words = [array.chunk.name, str(array.options.processes_per_job), python]
    start = f"exec {shlex.quote(sys.executable)} -m {_LEADER}"
    steps = [*array.options.setup, f"{start} {shlex.join(words)}"]
    return f"export REBENCH_JOB=$$\nexec >> {logs}/$$_0.log 2>&1\n" + " &&\n".join(steps) + "\n"
