"""Files of a run's folder, opened safely: regular files alone, of a bounded size.

A pipe has no end and a device may do anything: neither is ever opened.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["OddFileError", "open_file", "read_bounded", "read_file", "status_of"]

# Ten times what a submission of 1.5 million trials writes.
_MOST_BYTES: Final = 1 << 28
_PIECE_BYTES: Final = 256 << 10


class OddFileError(OSError):
    """What has the name of a file is no regular file, or is larger than such a file can be."""


def status_of(path: Path) -> os.stat_result:
    """The status of a regular file; raise OddFileError for anything else of its name."""
    try:
        return _regular(path, path.stat())
    except ValueError as error:
        raise OddFileError(errno.EINVAL, "its name holds NUL", repr(str(path))) from error


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise OddFileError for anything else of its name."""
    status_of(path)
    # What has come there since is neither waited for nor read.
    file = open(path, "rb", _PIECE_BYTES, opener=_without_waiting)  # noqa: SIM115 - closed below
    try:
        _regular(path, os.fstat(file.fileno()))
    except OddFileError:
        file.close()
        raise
    return file


def read_file(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """Read a regular file; raise OddFileError for anything else and for a larger one."""
    with open_file(path) as file:
        return read_bounded(path, file, most_bytes)


def read_bounded(path: Path, file: BinaryIO, most_bytes: int = _MOST_BYTES) -> bytes:
    """Read an open file of this path; raise OddFileError if it is larger than `most_bytes`."""
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OddFileError(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
    return content


def _regular(path: Path, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        folder = stat.S_ISDIR(status.st_mode)
        why = os.strerror(errno.EISDIR) if folder else "it is no regular file"
        raise OddFileError(errno.EINVAL, why, str(path))
    return status


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
