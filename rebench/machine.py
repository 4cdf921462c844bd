"""What this machine lends to a process: cores, memory for the reading of a file, a pause."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rebench.errors import InputError, UnsafeFileError

__all__ = [
    "bounded_memory",
    "cores",
    "expanded",
    "garbage_search_paused",
    "keep_freed_memory",
    "search_garbage_rarely",
]

# A record with its weights unpacks to 512 MB at most and is held twice while it is read.
_MOST_BYTES: Final = 2 * 2**30
# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def cores() -> int:
    """How many cores this process may use, which under SLURM is not what there are."""
    import psutil

    affinity = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return len(affinity()) if affinity else psutil.cpu_count() or 1


def expanded(path: str | Path) -> Path:
    """A path in which `~` and `~USER` are home folders; raise InputError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"{path}: this machine knows no home folder of {Path(path).parts[0]}; write the whole"
            " path"
        ) from error


def keep_freed_memory() -> None:
    """Tell glibc's malloc to keep what is freed for the next step; other systems have no need."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def bounded_memory(what: str, *, most_bytes: int = _MOST_BYTES) -> Iterator[None]:
    """Let the reading of the file `what` take `most_bytes` more of memory, and come to an end.

    The limit is on the process's address space, so what the process holds and has freed may be used
    beyond it; it holds on Linux, and elsewhere the checks of the readers hold alone.
    """
    try:
        with _address_space(most_bytes):
            yield
    except MemoryError as error:
        raise UnsafeFileError(
            f"{what}: takes more than {most_bytes} bytes of memory to read; refused"
        ) from error
    except (OverflowError, RecursionError) as error:
        raise UnsafeFileError(f"{what}: refused or damaged file: {error}") from error


@contextlib.contextmanager
def _address_space(most_bytes: int) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + most_bytes
    least = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
    resource.setrlimit(resource.RLIMIT_AS, (least, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def garbage_search_paused() -> Iterator[None]:
    """Hold Python's search for cycles off where millions of objects have none; also a decorator.

    It pays: 10,000 records are collected in .51 s of the processor instead of .75, and 250,000
    trials are planned in 3.0 s instead of 3.5.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def search_garbage_rarely() -> None:
    """Let Python look for cycles a tenth as often in a process that is this project's own.

    It pays: libraries make many objects that stay, and their import alone takes a tenth less.
    """
    gc.set_threshold(10_000)
