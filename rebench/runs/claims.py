"""Claims: the worker that trains a trial, and its process.

A claim is a file ``claims/<trial>.<generation>``. It is linked into place, so that only one of two
workers succeeds. A worker that finds the claim of an ended worker writes the next generation. The
highest generation is the valid one. A worker that was replaced (for example on a node that SLURM
lost) notices it before it appends its record, and discards the record.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import psutil
from pydantic import Field, ValidationError

from rebench.runs.files import OddFileError, read_file
from rebench.runs.folder import Kept, write_once
from rebench.runs.trial import Plain

__all__ = ["Claims", "Fate", "Holder", "ProcessMark", "mark_of", "runs", "this_process", "tree_of"]


_GENERATION: Final = re.compile(r"[1-9][0-9]*")


class ProcessMark(Plain):
    """Mark of one process: host, number and start time, because numbers are used again."""

    host: str
    pid: Annotated[int, Field(ge=1, lt=2**31)]
    started: str


def this_process() -> ProcessMark:
    """Return the mark of the calling process."""
    return mark_of(os.getpid())


def mark_of(pid: int, *, ended: bool = False) -> ProcessMark:
    """Return the mark of a process on this host; with `ended`, of a process that has ended."""
    return ProcessMark(host=socket.gethostname(), pid=pid, started="" if ended else _started(pid))


def runs(mark: ProcessMark) -> bool | None:
    """Return whether the process runs; None if it is on another host."""
    if mark.host != socket.gethostname():
        return None
    return bool(mark.started) and _started(mark.pid) == mark.started


def tree_of(pid: int) -> list[int]:
    """Return a process of this host and all its descendants, children first."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [*(one.pid for one in reversed(children)), pid]


def _started(pid: int) -> str:
    """Return the start time of a process as a constant text; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        if not psutil.LINUX:
            return str(process.create_time())
        # psutil adds the boot time, which changes when the clock is set. Ticks since boot do not.
        boot = psutil.boot_time()
        ticks = round((process.create_time() - boot) * os.sysconf("SC_CLK_TCK"))
        return str(ticks) if psutil.boot_time() == boot else _started(pid)
    except psutil.NoSuchProcess:
        return ""


class Holder(Kept):
    """Owner of a claim: one attempt of one job, and its process."""

    worker: str
    job: str
    attempt: int
    cluster: str
    user: str
    process: ProcessMark
    # Consecutive deaths of workers on this trial without a new checkpoint. Preemptions and lost
    # nodes do not count.
    deaths: int = 0


Fate: TypeAlias = Literal["lives", "stopped", "died"]
"""Whether a worker may live, was ended by a user or by its cluster, or died by itself."""


@dataclass
class Claims:
    """Claims of a run, seen by one worker."""

    run: Path
    me: Holder
    fate: Callable[[Holder], Fate]
    # Generation and content of each claim: numbers are used again after a release.
    _held: dict[str, tuple[int, Holder]] = field(default_factory=dict, init=False)

    @property
    def _folder(self) -> Path:
        return self.run / "claims"

    def take(self, trial_id: str) -> Holder | None:
        """Claim a trial; return the claim, or None if a running worker holds it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                generation, holder = self._current(trial_id)
            except PermissionError:
                # Another user's file that cannot be read: assume that its worker runs.
                return None
            claim = self.me
            if holder is not None:
                deaths = holder.deaths
                # A requeued job can restart on another node; it keeps its job number.
                same_job = (holder.cluster, holder.job) == (self.me.cluster, self.me.job)
                if not same_job or holder.attempt >= self.me.attempt:
                    fate = self.fate(holder)
                    if fate == "lives":
                        return None
                    deaths += fate == "died"
                if self._moved_on(trial_id, generation):
                    deaths = 0
                claim = self.me.model_copy(update={"deaths": deaths})
            if write_once(self._folder / f"{trial_id}.{generation + 1}", claim):
                self._held[trial_id] = (generation + 1, claim)
                return claim

    def holds(self, trial_id: str) -> bool:
        """Return whether this worker still holds the trial."""
        return trial_id in self._held and self._current(trial_id) == self._held[trial_id]

    def release(self, trial_id: str) -> None:
        """Remove the claim, if this worker still holds it."""
        still = self.holds(trial_id)
        generation, _ = self._held.pop(trial_id, (0, self.me))
        while still and (path := self._folder / f"{trial_id}.{generation}").exists():
            path.unlink(missing_ok=True)
            generation -= 1

    def _moved_on(self, trial_id: str, generation: int) -> bool:
        """Return whether a checkpoint was written after the claim."""
        claim = self._folder / f"{trial_id}.{generation}"
        with contextlib.suppress(OSError):
            since = claim.stat().st_mtime
            folder = self.run / "checkpoints" / trial_id
            return any(path.stat().st_mtime > since for path in folder.iterdir())
        return False

    def _current(self, trial_id: str) -> tuple[int, Holder | None]:
        """Return the highest generation of the claims of a trial, and its holder."""
        numbers = (path.suffix[1:] for path in self._folder.glob(f"{trial_id}.*"))
        last = max((int(one) for one in numbers if _GENERATION.fullmatch(one)), default=0)
        if not last:
            return 0, None
        try:
            content = read_file(self._folder / f"{trial_id}.{last}")
            return last, Holder.model_validate_json(content, extra="ignore")
        except FileNotFoundError:
            return self._current(trial_id)
        except (ValidationError, OddFileError):
            return last, None
