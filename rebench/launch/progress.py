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
from rebench.launch.files import Kept
from rebench.store import now, write_atomically
from rebench.sweep import Trial

__all__ = ["Report", "Reporter", "read_reports", "report_path"]

_EVERY_S = 2.0


class Report(Kept):
    """What a worker last said."""

    holder: Holder
    trials: tuple[str, ...] = ()
    epoch: int = 0
    epochs: int = 0
    epochs_per_s: float | None = None
    note: str = ""
    log: str = ""  # what the worker prints; empty in reports of before, and outside of a job
    updated: str

    @property
    def eta_s(self) -> float | None:
        """Seconds until the trials in flight should be done."""
        if not self.epochs_per_s:
            return None
        return (self.epochs - self.epoch) / self.epochs_per_s


class Reporter:
    """Writes the report of one worker; from the first moment on, so that others know of it."""

    def __init__(self, run: Path, holder: Holder, log: Path | None = None) -> None:
        self._path = report_path(run, holder.worker)
        self._holder = holder
        self._log = str(log or "")
        self._trials: tuple[str, ...] = ()
        self._epochs = 0
        self._first: tuple[int, float] | None = None
        self._write(epoch=0, force=True)
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
        if not force and clock - self._written < _EVERY_S:
            return
        self._written = clock
        report = Report(
            holder=self._holder,
            trials=self._trials,
            epoch=epoch,
            epochs=self._epochs,
            epochs_per_s=speed,
            note=note,
            log=self._log,
            updated=now(),
        )
        with contextlib.suppress(StoreError):
            write_atomically(self._path, report.model_dump_json().encode())


def report_path(run: Path, worker: str) -> Path:
    """Return where a worker reports."""
    return run / "progress" / f"{worker}.json"


def read_reports(run: Path) -> list[Report]:
    """Return what every worker of a run last said."""
    reports = []
    for path in sorted((run / "progress").glob("*.json")):
        # A file that is being replaced, or was cut by a full disk, says nothing.
        with contextlib.suppress(OSError, ValidationError):
            reports.append(Report.model_validate_json(path.read_bytes(), extra="ignore"))
    return reports
