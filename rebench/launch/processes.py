"""Which process did something, and whether it still lives: asked from any host, at any time."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from rebench.sweep import Plain

__all__ = ["ProcessMark", "age_s", "is_alive", "mark_of", "this_process"]


class ProcessMark(Plain):
    """One process: its number alone could be another's by tomorrow, its start time tells."""

    host: str
    pid: int
    started: str


def this_process() -> ProcessMark:
    """Return the mark of the calling process."""
    return mark_of(os.getpid())


def mark_of(pid: int) -> ProcessMark:
    """Return the mark of a process on this host."""
    return ProcessMark(host=socket.gethostname(), pid=pid, started=_started(pid) or "")


def is_alive(mark: ProcessMark) -> bool | None:
    """Return whether the process lives; None if it runs on another host."""
    if mark.host != socket.gethostname():
        return None
    return bool(mark.started) and _started(mark.pid) == mark.started


def age_s(path: Path) -> float:
    """Return the seconds since a file was written, by the clock of the file system it is on."""
    probe = path.parent / f".clock.{socket.gethostname()}.{os.getpid()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:
        now = time.time()
    return now - path.stat().st_mtime


def _started(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state == "Z" else fields[18]
