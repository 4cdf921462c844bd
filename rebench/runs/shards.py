"""Shards: append-only files of JSON lines, each with one writer.

A line counts when its newline is on disk. Text after the last newline is an unfinished line: it is
ignored, and its work is repeated. This module does not know the content of the lines.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from rebench.errors import StoreError
from rebench.printable import printable
from rebench.runs.files import OddFileError, open_file, status_of

__all__ = ["Line", "ShardReader", "ShardWriter", "atomic_file", "file_clock_ns", "write_atomically"]

# Ten times a record of 100,000 epochs, the maximum of a trial.
_LONGEST_LINE: Final = 1 << 28
_IN_THE_WAY: Final = "no worker wrote it; move it away"
_UNREAD: Final = "its records count as missing; make it readable, or move it away"
# Errors of a shared file system that are often temporary, such as a full disk.
_TRANSIENT = {errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT}


class Line(NamedTuple):
    """One complete line of a shard: its number from 1, its first byte and its content."""

    path: Path
    number: int
    start: int
    data: bytes

    @property
    def place(self) -> str:
        """Place of the line in a message, such as ``results/0001-7_0.0.jsonl:3``."""
        return printable(f"{self.path.parent.name}/{self.path.name}:{self.number}", keep="")


@dataclass
class ShardWriter:
    """Writer of one shard, which no other process writes.

    The file ``<folder>/<worker>.<attempt>.jsonl`` is created at the first append. If the name
    exists, the attempt is increased until the name is free.
    """

    folder: Path
    worker: str
    attempt: int = 0
    _: KW_ONLY
    patience_s: float = 60.0
    on_wait: Callable[[str], None] = lambda _: None
    path: Path | None = field(default=None, init=False)
    _file: int | None = field(default=None, init=False)

    def append(self, lines: Sequence[str]) -> None:
        """Append all lines or none, and return when they are on disk.

        Temporary errors (full disk, quota, stale handle) are retried for `patience_s` seconds. Then
        StoreError is raised, and the file is unchanged.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        deadline = time.monotonic() + self.patience_s
        pause_s = 0.1
        while error := self._try_append(data):
            problem = f"cannot append to {self.path or self.folder}: {error.strerror}"
            if error.errno not in _TRANSIENT or time.monotonic() + pause_s > deadline:
                raise StoreError(f"{problem}; earlier lines are not lost") from error
            self.on_wait(f"{problem}; trying again in {pause_s:.1f} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 10.0)

    def close(self) -> None:
        """Close the file; the next append creates a new one."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _try_append(self, data: bytes) -> OSError | None:
        try:
            file = self._open() if self._file is None else self._file
            start = os.fstat(file).st_size
        except OSError as error:
            return error
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
            os.fsync(file)
        except OSError as error:
            try:
                os.ftruncate(file, start)
            except OSError:
                # If an incomplete line cannot be removed, it must remain the last of its file.
                with contextlib.suppress(OSError):
                    os.close(file)
                self._file = None
            return error
        return None

    def _open(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        while True:
            path = self.folder / f"{self.worker}.{self.attempt}.jsonl"
            try:
                self._file = os.open(path, flags, 0o664)
            except FileExistsError:
                self.attempt += 1
                continue
            self.path = path
            _sync_folder(self.folder)
            return self._file


class ShardReader:
    """Reader of the complete lines of all shards of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, tuple[int, int]] = {}
        self._problems: dict[Path, str] = {}

    @property
    def problems(self) -> list[str]:
        """Shards that could not be read, one line each with the remedy."""
        return [
            f"{printable(str(path.relative_to(self._folder.parent)), keep='')} {problem}"
            for path, problem in self._problems.items()
        ]

    def read_new(self, only: Path | None = None) -> Iterator[Line]:
        """Yield complete lines that earlier calls did not yield, and update `problems`.

        With `only`, the other shards are not read: with many shards, even their sizes cost time.
        """
        self._problems.clear()
        try:
            shards = self._folder.iterdir() if only is None else [only]
            paths = sorted(path for path in shards if path.suffix == ".jsonl")
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems[self._folder] = f"cannot be read ({error.strerror}): {_IN_THE_WAY}"
            return
        for path in paths:
            try:
                yield from self._lines(path)
            except OddFileError:  # noqa: PERF203 - other shards are still read
                self._problems[path] = f"is not a file: {_IN_THE_WAY}"
            except OSError as error:
                self._problems[path] = f"cannot be read ({error.strerror}): {_UNREAD}"

    def _lines(self, path: Path) -> Iterator[Line]:
        start, number = self._read.get(path, (0, 0))
        if status_of(path).st_size <= start:
            return
        try:
            with open_file(path) as file:
                file.seek(start)
                for data in iter(functools.partial(file.readline, _LONGEST_LINE), b""):
                    if not data.endswith(b"\n"):
                        self._problems[path] = "ends with an unfinished line, which is ignored"
                        break
                    number += 1
                    yield Line(path, number, start, data[:-1])
                    start += len(data)
        finally:
            self._read[path] = start, number


def file_clock_ns(folder: Path) -> int:
    """Return the time of the clock of a folder's file system, in nanoseconds."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime_ns


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; its file replaces `path` at the end, or nothing changes.

    The file is on disk before it gets its name. A crash leaves the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns():x}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        temporary.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; it is unchanged"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically, so that a crash leaves the old or the new content."""
    with atomic_file(path) as temporary, temporary.open("xb") as file:
        file.write(data)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    # Some network file systems refuse to sync a folder; they order operations themselves.
    with contextlib.suppress(OSError):
        _sync(folder)
