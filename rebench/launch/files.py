"""The small files of a run's folder: written whole, read so that damage stops nobody, kept safe."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, TypeAlias, TypeVar

from pydantic import ValidationError

from rebench.errors import UnsafeFileError
from rebench.runs import Plain, write_atomically

__all__ = [
    "Kept",
    "Tell",
    "kept_from_others",
    "open_own",
    "read_kept",
    "read_line",
    "unheard",
    "write_kept",
]

Tell: TypeAlias = Callable[[str], None]
"""Told what the user should know, one line each."""

_OTHERS_WRITE: Final = 0o022


def unheard(line: str) -> None:
    """Tell nobody."""


class Kept(Plain):
    """What a file holds. Later versions may add keys; this one ignores those it does not know."""

    version: int = 1


Form = TypeVar("Form", bound=Plain)


def read_kept(form: type[Form], path: Path, tell: Tell, meaning: str) -> Form | None:
    """What a file holds; None if there is none, or if it cannot be used, which is told.

    Args:
        form: what it should hold.
        path: the file.
        tell: is given one line about a file that is damaged or may not be read.
        meaning: what follows from that, for this line.
    """
    try:
        return form.model_validate_json(path.read_bytes(), extra="ignore")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        tell(f"{path} cannot be read ({error.strerror}): {meaning}")
    except ValidationError:
        tell(f"{path} is damaged: {meaning}")
    return None


def read_line(form: type[Form], line: str | bytes, tell: Tell, place: str) -> Form | None:
    """What a line of a file holds; None if it is damaged, which is told."""
    try:
        # Unknown keys of anything else, such as a trial, may change what it means.
        return form.model_validate_json(line, extra="ignore" if issubclass(form, Kept) else None)
    except ValidationError:
        tell(f"{place} is damaged: ignored")
        return None


def write_kept(path: Path, content: Plain) -> None:
    """Replace a file, seen whole or not at all."""
    write_atomically(path, content.model_dump_json().encode())


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
        about = os.fstat(file.fileno())
        why = f"belongs to {_user(about.st_uid)}"
        if about.st_uid in (os.geteuid(), 0):
            why = "can be written by others" if about.st_mode & _OTHERS_WRITE else ""
        if why:
            raise UnsafeFileError(
                f"{path} {why}, and {what} would run as you: refused. Give --trust-folder if you"
                " trust everybody who can write there"
            )
        yield file


@contextlib.contextmanager
def kept_from_others() -> Iterator[None]:
    """Let nobody else write to the files that are made meanwhile."""
    before = os.umask(_OTHERS_WRITE)
    os.umask(before | _OTHERS_WRITE)
    try:
        yield
    finally:
        os.umask(before)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
