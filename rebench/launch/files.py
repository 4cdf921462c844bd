"""The small JSON files of a run's folder: written whole, and read so that damage stops nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from pydantic import ValidationError

from rebench.store import write_atomically
from rebench.sweep import Plain

__all__ = ["Kept", "Tell", "read_kept", "read_line", "unheard", "write_kept"]

Tell: TypeAlias = Callable[[str], None]
"""Told what the user should know, one line each."""


def unheard(line: str) -> None:
    """Tell nobody."""


class Kept(Plain):
    """What a file holds. Later versions may add keys; this one ignores those it does not know."""

    version: int = 1


Form = TypeVar("Form", bound=Plain)


def read_kept(form: type[Form], path: Path, tell: Tell, meaning: str) -> Form | None:
    """Return what a file holds; None if there is none, or if it cannot be used, which is told.

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
    """Return what a line of a file holds; None if it is damaged, which is told."""
    try:
        # Unknown keys of anything else, such as a trial, may change what it means.
        return form.model_validate_json(line, extra="ignore" if issubclass(form, Kept) else None)
    except ValidationError:
        tell(f"{place} is damaged: ignored")
        return None


def write_kept(path: Path, content: Plain) -> None:
    """Replace a file, seen whole or not at all."""
    write_atomically(path, content.model_dump_json().encode())
