"""Processes of this machine: marks that tell them apart on any day, their trees."""

from __future__ import annotations

import os
import socket

import psutil

from rebench.sweep import Plain

__all__ = ["ProcessMark", "mark_of", "runs", "this_process", "tree_of"]


class ProcessMark(Plain):
    """One process: its number alone could be another's by tomorrow, its start tells them apart."""

    host: str
    pid: int
    started: str


def this_process() -> ProcessMark:
    """Return the mark of the calling process."""
    return mark_of(os.getpid())


def mark_of(pid: int, *, ended: bool = False) -> ProcessMark:
    """Return the mark of a process on this host, or one that says that it has ended."""
    return ProcessMark(host=socket.gethostname(), pid=pid, started="" if ended else _started(pid))


def runs(mark: ProcessMark) -> bool | None:
    """Return whether the process runs; None if it is on another host."""
    if mark.host != socket.gethostname():
        return None
    return bool(mark.started) and _started(mark.pid) == mark.started


def tree_of(pid: int) -> list[int]:
    """Return a process of this host and all that descend from it, children first."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [*(one.pid for one in reversed(children)), pid]


def _started(pid: int) -> str:
    """Return when a process was started, in a form that never changes; empty if it has ended."""
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
