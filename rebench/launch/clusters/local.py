"""This machine as a cluster: submitit's LocalExecutor, in a separate session.

submitit starts the processes of a job in the session of the caller. Ctrl-C or a closed terminal
would end these processes. Therefore a job begins with `rebench.launch.clusters.background`, which
is the leader of a new session and calls submitit there.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import psutil

from rebench.errors import ClusterError, RebenchError
from rebench.launch.clusters.base import Cluster, Limits, Work, check_device, worker_command
from rebench.launch.devices import find_device, visible_gpus
from rebench.launch.journal import UNSENT, Job, JobState, Sent
from rebench.launch.liveness import WORKER_SILENCE_S, age_s, last_heard_s
from rebench.machine import cores
from rebench.runs import SlurmOptions
from rebench.runs.claims import ProcessMark, mark_of, runs, tree_of
from rebench.runs.folder import Tell, unheard

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
        return Limits(at_once=room(options), largest=1, refusal=self.refusal(options))

    def refusal(self, options: SlurmOptions) -> RebenchError | None:
        """Return an error if the options ask for a GPU that torch or a job does not see."""
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if options.device != "cpu" and ("GPU-" in named or "MIG-" in named):
            return ClusterError(
                f"CUDA_VISIBLE_DEVICES is {named}; local jobs need numbers, such as 0,1. Set them, "
                "or set device = 'cpu' (--set slurm.device=cpu)"
            )
        try:
            if not self.waits:  # a job in this process sees all GPUs
                check_device(options, _gpus_of_a_job(options))
            if options.gpu_setting:
                find_device(options)
        except RebenchError as error:
            return error
        return None

    def submit(
        self,
        jobs: Sequence[Job],
        work: Work,  # noqa: ARG002 - another process does the work
        *,
        after: Sequence[str] = (),  # noqa: ARG002 - jobs of this machine start at once
        dry_run: bool = False,
    ) -> Sent:
        """Start the process of a job; neither Ctrl-C nor closing the terminal ends it."""
        (job,) = jobs
        script = _script(job)
        if dry_run:
            return Sent(jobs=(), script=script)
        job.submission.logs.mkdir(exist_ok=True)
        own = ",".join(map(str, _least_used_gpus(_gpus_of_a_job(job.options))))
        process = subprocess.Popen(  # noqa: S603 - the sweep's own set-up commands
            ["/bin/bash", "-c", script],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": own, _GPUS: own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _started[:] = [one for one in _started if one.poll() is None] + [process]
        return Sent(jobs=(str(process.pid),), process=mark_of(process.pid))

    def look(
        self,
        jobs: Sequence[Job],
        *,
        done: Collection[str] | None = None,  # noqa: ARG002 - no cause is known here
        tell: Tell = unheard,  # noqa: ARG002
    ) -> list[Job]:
        """Return the jobs with the states of their processes."""
        heard: Mapping[str, float] | None = None
        seen = []
        for job in jobs:
            state = UNSENT
            if job.process is not None:
                state = JobState("ended", "ended")
                is_running = runs(job.process)
                if is_running:
                    state = JobState("running", "running")
                elif is_running is None:
                    if heard is None:
                        heard = last_heard_s(job.submission.run)
                    if _silence_s(job, heard) < WORKER_SILENCE_S:
                        host = job.process.host
                        where = f"cannot be seen from here: it runs on {host}"
                        state = JobState("running", "running", where)
            seen.append(replace(job, state=state))
        return seen

    def stop(self, jobs: Sequence[Job], *, requeue: bool = False) -> list[str]:
        """Send SIGTERM to all processes of jobs on this machine: workers stop at a checkpoint."""
        if requeue:
            raise ClusterError("this machine has no queue: submit the run again")
        cancelled = []
        for job in jobs:
            if job.process is None or not _is_ours(job, job.process):
                continue
            for pid in tree_of(job.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            cancelled.append(job.number)
        return cancelled


def _silence_s(job: Job, heard: Mapping[str, float]) -> float:
    """Return the seconds since the last sign of life of a job."""
    # A job that has just been started has not reported yet.
    if job.number not in heard and job.name:
        return age_s(job.submission.sent_file(job.chunk))
    return heard.get(job.number, WORKER_SILENCE_S)


def _is_ours(job: Job, process: ProcessMark) -> bool:
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
    gpus = _gpus_of_a_job(options)
    there = len(visible_gpus())
    jobs = cores() // ((options.cpus_per_task or 1) * options.processes_per_job)
    if gpus and there >= gpus:
        jobs = there // gpus
    return max(1, min(jobs, options.array_parallelism))


def _least_used_gpus(count: int) -> list[int]:
    """Return the GPUs with the fewest local jobs, of all runs, by the processes' environments."""
    if not count:
        return []
    jobs = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # ended, or of another user
            if gpus := process.environ().get(_GPUS):
                jobs[os.getsid(process.pid)] = gpus
    used: Counter[int] = Counter()
    for gpus in jobs.values():
        used.update(map(int, gpus.split(",")))
    return sorted(visible_gpus(), key=used.__getitem__)[:count]


def _gpus_of_a_job(options: SlurmOptions) -> int:
    if options.gpus_per_task is not None:
        return options.gpus
    return 1 if options.device != "cpu" and visible_gpus() else 0


def _script(job: Job) -> str:
    """Return the script of a job: its set-up, then the process that calls submitit.

    submitit lets processes write to private files, so each worker opens a log that others may read.
    """
    logs = shlex.quote(str(job.submission.logs))
    worker = (
        f"exec >> {logs}/${{REBENCH_JOB}}_${{SUBMITIT_LOCAL_GLOBALID}}.log 2>&1;"
        f" exec {worker_command(job, '0')}"
    )
    # bash ignores the words that submitit appends to its command of Python.
    python = shlex.join(["/bin/bash", "-c", worker, "rebench"])
    words = [job.name, str(job.options.processes_per_job), python]
    start = f"exec {shlex.quote(sys.executable)} -m {_LEADER}"
    steps = [*job.options.setup, f"{start} {shlex.join(words)}"]
    return f"export REBENCH_JOB=$$\nexec >> {logs}/$$_0.log 2>&1\n" + " &&\n".join(steps) + "\n"
