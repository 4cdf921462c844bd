"""The work of a job: the folder of the run, and the place of the job in the run's journal.

Everything else is read from files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """One job of a submission."""

    run: str
    submission: int
    chunk: int
    task: int

    def __call__(self, *, in_job: bool = True) -> None:
        """Train the remaining trials, in a job or in the process of the submitter."""
        from rebench.launch.worker import work  # imported here, because only a job needs it

        work(Path(self.run), self.submission, self.chunk, self.task, in_job=in_job)
