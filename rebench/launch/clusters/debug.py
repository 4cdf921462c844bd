"""This process as a cluster: submitit's DebugExecutor calls one job after the other."""

from __future__ import annotations

import os
from typing import ClassVar

from rebench.launch.clusters.base import Array, Limits
from rebench.launch.clusters.local import Local
from rebench.launch.journal import Sent
from rebench.runs import SlurmOptions
from rebench.runs.claims import mark_of

__all__ = ["Debug"]


class Debug(Local):
    """This process as a cluster. Jobs end before `submit` returns, which helps to find errors."""

    name: ClassVar[str] = "debug"
    waits: ClassVar[bool] = True

    def limits(self, options: SlurmOptions) -> Limits:  # noqa: ARG002 - a process has room for any
        """Return the limits of a process: jobs run one after the other."""
        return Limits(largest=1)

    def script(self, array: Array) -> str:
        """Return a comment: this process needs no script."""
        return f"# {len(array.chunk.jobs)} jobs in this process, one after the other\n"

    def submit(self, array: Array) -> Sent:
        """Do the work of all jobs."""
        from submitit import DebugExecutor  # imported here, because only `submit` needs it

        executor = DebugExecutor(array.submission.folder / "submitit")
        for task in range(len(array.chunk.jobs)):
            # `exception` runs the job. `results` would start a debugger if the job raised.
            error = executor.submit(array.work, task).exception()
            if error is not None:
                raise error
        # The jobs have ended, although this process still runs.
        return Sent(jobs=(str(os.getpid()),), process=mark_of(os.getpid(), ended=True))
