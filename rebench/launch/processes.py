"""Which process did something, and whether it still lives: asked from any host, at any time."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from rebench.sweep import Plain

__all__ = ["ProcessMark", "age_s", "is_alive", "mark_of", "this_process", "tree_of"]


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


def tree_of(pid: int) -> list[int]:
    """Return a process of this host and all that descend from it, children first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if stat := _stat(int(folder.name)):
            children.setdefault(int(stat[1]), []).append(int(folder.name))
    tree = [pid]
    for one in tree:
        tree += children.get(one, [])
    return tree[::-1]


def _started(pid: int) -> str | None:
    stat = _stat(pid)
    return None if stat is None or stat[0] == "Z" else stat[19]


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a process from its state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything.
    return text.rpartition(")")[2].split()
