"""How far each worker is: a small file a worker, replaced as it goes; for people, never for truth.

A file that cannot be written is not an error: training matters more than telling of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from rebench.errors import StoreError
from rebench.launch.claims import Holder
from rebench.launch.processes import age_s
from rebench.store import now, write_atomically
from rebench.sweep import Plain, Trial

__all__ = ["Progress", "Report", "is_silent", "read_reports"]

_EVERY_S = 2.0
# A process on another host that has said nothing for so long is taken for dead.
_SILENCE_S = 1800.0


class Report(Plain):
    """What a worker last said."""

    holder: Holder
    trials: tuple[str, ...] = ()
    epoch: int = 0
    epochs: int = 0
    epochs_per_s: float | None = None
    note: str = ""
    updated: str

    @property
    def eta_s(self) -> float | None:
        """Seconds until the trials in flight should be done."""
        if not self.epochs_per_s:
            return None
        return (self.epochs - self.epoch) / self.epochs_per_s


class Progress:
    """The report of one worker."""

    def __init__(self, run: Path, holder: Holder) -> None:
        self._path = run / "progress" / f"{holder.worker}.json"
        self._holder = holder
        self._trials: tuple[str, ...] = ()
        self._epochs = 0
        self._first: tuple[int, float] | None = None
        self._written = float("-inf")

    def begin(self, group: Sequence[Trial]) -> None:
        """Say that these trials are being trained now."""
        self._trials = tuple(one.trial_id for one in group)
        self._epochs = group[0].epochs
        self._first = None
        self._write(epoch=0)

    def on_epoch(self, epoch: int) -> None:
        """Say that an epoch (from 1) has ended."""
        clock = time.monotonic()
        if self._first is None:
            self._first = (epoch, clock)
        epochs, seconds = epoch - self._first[0], clock - self._first[1]
        self._write(epoch=epoch, speed=epochs / seconds if epochs and seconds else None)

    def end(self, note: str) -> None:
        """Say how the worker ended."""
        self._trials = ()
        self._write(epoch=0, note=note, force=True)

    def _write(
        self, *, epoch: int, speed: float | None = None, note: str = "", force: bool = False
    ) -> None:
        clock = time.monotonic()
        if clock - self._written < _EVERY_S and not force:
            return
        self._written = clock
        report = Report(
            holder=self._holder,
            trials=self._trials,
            epoch=epoch,
            epochs=self._epochs,
            epochs_per_s=speed,
            note=note,
            updated=now(),
        )
        with contextlib.suppress(StoreError):
            write_atomically(self._path, report.model_dump_json().encode())


def read_reports(run: Path) -> list[Report]:
    """Return what every worker of a run last said."""
    reports = []
    for path in sorted((run / "progress").glob("*.json")):
        # A file that is being replaced, or was cut by a full disk, says nothing.
        with contextlib.suppress(OSError, ValidationError):
            reports.append(Report.model_validate_json(path.read_bytes()))
    return reports


def is_silent(run: Path, job: str) -> bool:
    """Return whether a job that cannot be seen from here has not reported for long."""
    reports = list((run / "progress").glob(f"*-{job}-*.json"))
    return all(age_s(path) > _SILENCE_S for path in reports)
