"""Cancel: end the live jobs of a run. Workers checkpoint first if the cluster gives them time."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from rebench.errors import UnknownNameError
from rebench.launch.files import Tell, unheard
from rebench.launch.holding import jobs_of
from rebench.launch.processes import ProcessMark, runs, tree_of
from rebench.launch.run import Run
from rebench.launch.slurm import ask, in_pieces

__all__ = ["cancel_jobs"]


def cancel_jobs(run: Run, only: Sequence[str] = (), tell: Tell = unheard) -> list[str]:
    """Cancel the live jobs of a run, or `only` those of these numbers; return their numbers."""
    live = [job for job in jobs_of(run, tell) if job.live]
    for name in only:
        if name not in {job.job for job in live}:
            raise UnknownNameError("live job", name, sorted(job.job for job in live))
    if only:
        live = [job for job in live if job.job in only]
    slurm = [job.job for job in live if job.cluster == "slurm" and job.state.name != "UNKNOWN"]
    for some in in_pieces(slurm):
        ask("scancel", *some)
    local = [job for job in live if job.cluster == "local"]
    return slurm + [job.job for job in local if job.process and _end(job.process)]


def _end(process: ProcessMark) -> bool:
    if not runs(process):
        return False
    # With set-up commands the process is a shell, which would die and leave the rest.
    for pid in tree_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return True
