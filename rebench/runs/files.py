"""Safe opening of files in a run folder: only regular files, only up to a maximum size.

Pipes and devices are never opened. Other users may have written the files of a shared folder.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

__all__ = [
    "OddFileError",
    "open_file",
    "read_bounded",
    "read_file",
    "status_of",
    "without_following",
]

# Ten times the largest file of a submission with 1.5 million trials.
_MOST_BYTES: Final = 1 << 28
_PIECE_BYTES: Final = 256 << 10


class OddFileError(OSError):
    """Path that is not a regular file, or a file that is larger than any valid file."""


def status_of(path: Path) -> os.stat_result:
    """Return the status of a regular file; raise OddFileError for anything else."""
    try:
        return _regular(path, path.stat())
    except ValueError as error:
        raise OddFileError(errno.EINVAL, "its name contains NUL", repr(str(path))) from error


def open_file(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; raise OddFileError for anything else.

    Unless `follow` is set, a symbolic link raises OSError with the number ELOOP.
    """
    status_of(path)
    # If the file was replaced by a pipe in the meantime, do not wait for it.
    flags = os.O_RDONLY | os.O_NONBLOCK
    if not follow:
        flags |= os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags), "rb", _PIECE_BYTES)
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
    if stat.S_ISDIR(status.st_mode):
        raise OddFileError(errno.EINVAL, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OddFileError(errno.EINVAL, "it is not a regular file", str(path))
    return status


def without_following(path: str, flags: int) -> int:
    """Open a file as `open` does, but raise OSError for a symbolic link: an `opener` of `open`."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
