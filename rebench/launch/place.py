"""Where a worker runs: under SLURM, under submitit's local executor, or in the caller's process."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from submitit import JobEnvironment
from submitit.core.utils import JobPaths

from rebench.store import job_name

__all__ = ["Place", "find_place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One attempt of one job."""

    cluster: str
    job: str
    attempt: int
    worker: str
    node: str
    paths: JobPaths | None
    # Which of the job's processes this is; the first one alone may requeue the job.
    rank: int = 0
    processes: int = 1

    @property
    def leads(self) -> bool:
        """Whether the job lives as long as this process wants it to."""
        return self.rank == 0

    @property
    def log(self) -> Path | None:
        """Where what the worker prints goes."""
        return None if self.paths is None else Path(self.paths.stderr)

    def remove_leftovers(self) -> None:
        """Remove what an attempt that was killed while it saved left: submitit would fail on it."""
        if self.paths is not None and self.leads:
            pickle = Path(self.paths.submitted_pickle)
            pickle.with_name(pickle.name + ".save_tmp").unlink(missing_ok=True)


def find_place(submission: int) -> Place:
    """Return where this process runs."""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    executor = os.environ.get("SUBMITIT_EXECUTOR")
    rank, processes = 0, 1
    if executor in ("slurm", "local"):
        environment = JobEnvironment()
        job = (job_name() if executor == "slurm" else None) or environment.job_id
        paths = environment.paths
        rank, processes = environment.global_rank, environment.num_tasks
    elif (allocation := job_name()) is not None:
        # Started by hand inside a job: the queue knows best whether it still lives.
        executor, job, paths = "slurm", allocation, None
    else:
        executor, job, paths = "debug", str(os.getpid()), None
    return Place(
        cluster=executor,
        job=job,
        attempt=int(os.environ.get("SLURM_RESTART_COUNT", "0")) if executor == "slurm" else 0,
        worker=f"{submission:04d}-{job}"
        + ("" if executor == "slurm" else f"-{node}")
        + (f"-p{rank}" if processes > 1 else ""),
        node=node,
        paths=paths,
        rank=rank,
        processes=processes,
    )
