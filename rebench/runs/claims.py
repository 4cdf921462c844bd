"""Claims: which worker holds a trial, and which process that is.

A claim is a file ``claims/<trial>.<generation>``, linked into place whole; the file system lets
one of two linkers win. A worker that finds a claim whose holder has ended takes the next
generation; the highest is the holder. Whoever was overtaken (a copy of a requeued job that still
lives on a node the controller lost) sees that before it appends its record, and throws it away.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import psutil
from pydantic import Field, ValidationError

from rebench.runs.files import OddFileError, read_file
from rebench.runs.folder import Kept, write_once
from rebench.runs.trial import Plain

__all__ = ["Claims", "Holder", "ProcessMark", "mark_of", "runs", "this_process", "tree_of"]


_GENERATION: Final = re.compile(r"[1-9][0-9]*")


class ProcessMark(Plain):
    """One process: its number alone could be another's by tomorrow, its start tells them apart."""

    host: str
    pid: Annotated[int, Field(ge=1, lt=2**31)]
    started: str


def this_process() -> ProcessMark:
    """The mark of the calling process."""
    return mark_of(os.getpid())


def mark_of(pid: int, *, ended: bool = False) -> ProcessMark:
    """The mark of a process on this host, or one that says that it has ended."""
    return ProcessMark(host=socket.gethostname(), pid=pid, started="" if ended else _started(pid))


def runs(mark: ProcessMark) -> bool | None:
    """Whether the process runs; None if it is on another host."""
    if mark.host != socket.gethostname():
        return None
    return bool(mark.started) and _started(mark.pid) == mark.started


def tree_of(pid: int) -> list[int]:
    """A process of this host and all that descend from it, children first."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [*(one.pid for one in reversed(children)), pid]


def _started(pid: int) -> str:
    """When a process was started, in a form that never changes; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        if not psutil.LINUX:
            return str(process.create_time())
        # psutil adds the time of boot, which moves when the clock is set; ticks since boot do not.
        boot = psutil.boot_time()
        ticks = round((process.create_time() - boot) * os.sysconf("SC_CLK_TCK"))
        return str(ticks) if psutil.boot_time() == boot else _started(pid)
    except psutil.NoSuchProcess:
        return ""


class Holder(Kept):
    """Who holds a claim: one attempt of one job, and its process."""

    worker: str
    job: str
    attempt: int
    cluster: str
    # Empty in claims of version 0.1.
    user: str = ""
    process: ProcessMark
    # How often in a row the trial's worker died while training it, without a new checkpoint.
    # What the scheduler took from it (a preemption, a lost node) is no death.
    deaths: int = 0


@dataclass
class Claims:
    """The claims of a run, as one worker sees them."""

    run: Path
    me: Holder
    lives: Callable[[Holder], bool]
    died: Callable[[Holder], bool] = lambda _: True
    _held: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def _folder(self) -> Path:
        return self.run / "claims"

    def take(self, trial_id: str) -> Holder | None:
        """Claim a trial; return what was claimed, or None if a live worker holds it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                generation, holder = self._current(trial_id)
            except PermissionError:
                # Of a colleague whose files are closed: what cannot be known counts as live.
                return None
            claim = self.me
            if holder is not None:
                requeued = self._is_former_self(holder)
                if not requeued and self.lives(holder):
                    return None
                deaths = holder.deaths + (not requeued and self.died(holder))
                progress = self._moved_on(trial_id, generation)
                claim = self.me.model_copy(update={"deaths": 0 if progress else deaths})
            if write_once(self._folder / f"{trial_id}.{generation + 1}", claim):
                self._held[trial_id] = generation + 1
                return claim

    def holds(self, trial_id: str) -> bool:
        """Whether this worker is still the holder."""
        return trial_id in self._held and self._current(trial_id)[0] == self._held[trial_id]

    def release(self, trial_id: str) -> None:
        """Give a claim up, if it is still this worker's."""
        still, generation = self.holds(trial_id), self._held.pop(trial_id, 0)
        while still and (path := self._folder / f"{trial_id}.{generation}").exists():
            path.unlink(missing_ok=True)
            generation -= 1

    def _is_former_self(self, holder: Holder) -> bool:
        # A requeued job may come back on another node; the number is the controller's.
        same_job = (holder.cluster, holder.job) == (self.me.cluster, self.me.job)
        return same_job and holder.attempt < self.me.attempt

    def _moved_on(self, trial_id: str, generation: int) -> bool:
        """Whether a checkpoint was written since the claim was made."""
        claim = self._folder / f"{trial_id}.{generation}"
        with contextlib.suppress(OSError):
            since = claim.stat().st_mtime
            folder = self.run / "checkpoints" / trial_id
            return any(path.stat().st_mtime > since for path in folder.iterdir())
        return False

    def _current(self, trial_id: str) -> tuple[int, Holder | None]:
        """The highest generation of a trial's claims, and whose it is."""
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
