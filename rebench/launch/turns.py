"""How many jobs of a run may run at once, over all its arrays: the others wait behind them.

SLURM throttles every array by itself, so an array that does not fit beside those that are live
waits until they have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rebench.launch.holding import JobView

__all__ = ["Turns", "live_arrays"]


class Turns:
    """What is ahead of the next array of a run."""

    def __init__(self, at_once: int, ahead: Mapping[str, int]) -> None:
        """Take how many jobs may run at once, and of each live array how many jobs it has."""
        self._at_once = at_once
        self._ahead = {array: min(jobs, at_once) for array, jobs in ahead.items()}

    @property
    def room(self) -> int:
        """How many jobs more may run at once with what is ahead."""
        return max(0, self._at_once - sum(self._ahead.values()))

    def first_size(self, largest: int) -> int:
        """Return how many jobs the first array should have: what need not wait, if anything."""
        return min(self.room, largest) if self._ahead and self.room else largest

    def before(self, jobs: int) -> tuple[str, ...]:
        """Return the arrays that have to end before one of so many jobs may begin."""
        return () if jobs <= self.room else tuple(self._ahead)

    def sent(self, array: str, jobs: int) -> None:
        """Take in that an array of so many jobs was sent, after what is `before` it."""
        if jobs > self.room:
            self._ahead = {}
        self._ahead[array] = min(jobs, self._at_once)


def live_arrays(jobs: Iterable[JobView]) -> Mapping[str, int]:
    """Return SLURM's number of every array that the queue shows, and how many of its jobs live."""
    shown = (job for job in jobs if job.cluster == "slurm" and job.live and job.job)
    return Counter(job.job.partition("_")[0] for job in shown if job.state.name != "UNKNOWN")
