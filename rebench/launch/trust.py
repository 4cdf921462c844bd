"""Files that run in a user's name: who may have written them, and how they stay that user's own."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from rebench.errors import UnsafeFileError

__all__ = ["current_umask", "kept_from_others", "open_own"]

_OTHERS_WRITE: Final = 0o022


@contextlib.contextmanager
def open_own(path: Path, what: str) -> Iterator[IO[bytes]]:
    """Open a file that nobody but this user and root could have written.

    Args:
        path: the file.
        what: what in it would run, for the message.

    Raises:
        UnsafeFileError: another owns it, or others can write to it.
    """
    with path.open("rb") as file:
        # Asked of the open file, which nobody can exchange meanwhile.
        _refuse_of_others(path, os.fstat(file.fileno()), what)
        yield file


def _refuse_of_others(path: Path, about: os.stat_result, what: str) -> None:
    if about.st_uid not in (os.geteuid(), 0):
        why = f"belongs to {_user(about.st_uid)}"
    elif about.st_mode & _OTHERS_WRITE:
        why = "can be written by others"
    else:
        return
    raise UnsafeFileError(
        f"{path} {why}, and {what} would run as you: refused. Give --trust-folder if you trust"
        " everybody who can write there"
    )


def current_umask() -> int:
    """Return which permissions new files do not get."""
    mask = os.umask(_OTHERS_WRITE)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def kept_from_others() -> Iterator[None]:
    """Let nobody else write to the files that are made meanwhile."""
    before = os.umask(current_umask() | _OTHERS_WRITE)
    try:
        yield
    finally:
        os.umask(before)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
