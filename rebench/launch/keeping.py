"""Follow a run until it is over, and on the way send again what was lost or did not fit before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rebench.errors import ClusterError
from rebench.launch.files import Tell, unheard
from rebench.launch.run import Run
from rebench.launch.status import Status, status_of
from rebench.launch.submit import Submitted

__all__ = ["follow"]

# Between two submissions lie so many looks, and twice as many after each that finished nothing.
_LOOKS: Final = 6
_FRUITLESS: Final = 3
# A controller that does not answer, or takes no job, for about two hours with looks every 10 s.
_REFUSALS: Final = 12
_LONGEST_PAUSE_S: Final = 900.0


def follow(
    run: Run,
    look: Callable[[Status], None],
    *,
    every_s: float,
    send: Callable[[], Submitted] | None = None,
    tell: Tell = unheard,
) -> Status:
    """Return the status of a run once nothing runs and nothing waits.

    Args:
        run: the run.
        look: is given the status, again and again.
        every_s: seconds between looks.
        send: submits what is pending or lost; it is called until there is nothing left.
        tell: is given one line about each submission.

    Raises:
        ClusterError: what was sent again and again has finished no trial, or was refused.
    """
    sender = None if send is None else _Sender(send, every_s, tell)
    while True:
        status = status_of(run)
        look(status)
        missing = status.counts["lost"] + status.counts["pending"]
        if sender is not None and missing:
            sender.attend(status)
        elif status.is_over:
            return status
        time.sleep(every_s)


class _Sender:
    """Decides when to send again, and when that is of no use."""

    def __init__(self, send: Callable[[], Submitted], every_s: float, tell: Tell) -> None:
        self._send = send
        self._pause_s = _LOOKS * every_s
        self._tell = tell
        self._next = 0.0
        self._finished = -1
        self._fruitless = self._refused = 0
        # As many jobs as there were when the scheduler took no more.
        self._full: int | None = None

    def attend(self, status: Status) -> None:
        live = sum(job.live for job in status.jobs)
        full = self._full is not None and live > self._full - max(1, self._full // 10)
        if full or time.monotonic() < self._next:
            return
        if status.is_over:
            self._count(status)
        try:
            done = self._send()
        except ClusterError as error:
            self._refused += 1
            if self._refused == _REFUSALS:
                raise
            self._wait(self._refused)
            self._tell(f"not sent: {error}; trying again")
            return
        self._refused = 0
        self._full = live + len(done.jobs) if done.waiting else None
        self._wait(self._fruitless)
        self._tell(f"sent {done.sent} trials in {len(done.jobs)} jobs; {done.waiting} wait")

    def _wait(self, times: int) -> None:
        self._next = time.monotonic() + min(self._pause_s * 2**times, _LONGEST_PAUSE_S)

    def _count(self, status: Status) -> None:
        counts = status.counts
        finished = counts["done"] + counts["diverged"] + counts["failed"]
        self._fruitless = self._fruitless + 1 if finished == self._finished else 0
        self._finished = finished
        if self._fruitless == _FRUITLESS:
            reasons = {one.reason for one in status.trials.values() if one.state == "lost"}
            raise ClusterError(
                f"stopped: {_FRUITLESS} submissions in a row have finished no trial"
                f" ({'; '.join(sorted(reasons)[:3])}); see `rebench status {status.run.folder}`"
            )
