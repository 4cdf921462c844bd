"""This process as a cluster: it does the work of one job after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from rebench.launch.clusters.base import Limits, Work
from rebench.launch.clusters.local import Local
from rebench.launch.journal import Job, Sent
from rebench.runs import SlurmOptions
from rebench.runs.claims import mark_of

__all__ = ["Debug"]


class Debug(Local):
    """This process as a cluster. Jobs end before `submit` returns, which helps to find errors."""

    name: ClassVar[str] = "debug"
    waits: ClassVar[bool] = True

    def limits(self, options: SlurmOptions) -> Limits:
        """Return the limits of a process: jobs run one after the other."""
        return Limits(largest=1, refusal=self.refusal(options))

    def submit(
        self,
        jobs: Sequence[Job],
        work: Work,
        *,
        after: Sequence[str] = (),  # noqa: ARG002 - earlier jobs have ended
        dry_run: bool = False,
    ) -> Sent:
        """Do the work of all jobs."""
        script = f"# {len(jobs)} jobs in this process, one after the other\n"
        if dry_run:
            return Sent(jobs=(), script=script)
        for job in jobs:
            work(job)
        # The jobs have ended, although this process still runs.
        return Sent(jobs=(str(os.getpid()),), process=mark_of(os.getpid(), ended=True))
