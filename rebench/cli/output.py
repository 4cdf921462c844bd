"""How commands print: a table for people, ``--json`` for programs, progress for terminals."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rebench.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "AsJson",
    "Force",
    "Value",
    "console",
    "known",
    "print_rows",
    "printable",
    "progress",
    "refuse_existing",
    "warn",
]

Value: TypeAlias = str | int | float | bool | None

# Control characters but for tab and new line, and what turns the direction of writing.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNLIMITED: Final = 10_000

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]


def refuse_existing(path: Path | None, force: bool) -> None:
    """Refuse to write over a file or folder, unless `force` says so; None is nowhere."""
    if path is not None and not force and (path.exists() or path.is_symlink()):
        raise InputError(f"{path} exists; give another name, or --force to replace it")


def warn(line: str) -> None:
    """Tell the user something beside what was asked for."""
    typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """Return a text that comes from elsewhere without what a terminal would obey."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def console() -> Console:
    """Return a console on standard output, made on call so that redirection is seen."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    # Nothing is cut to a width that a file or a pipe does not have.
    return Console(highlight=False, soft_wrap=True, width=_UNLIMITED)


def print_rows(
    rows: Iterable[Mapping[str, Value]], *, as_json: bool, title: str | None = None
) -> None:
    """Print rows of equal keys as a table, or as a JSON list of objects."""
    listed = list(rows)
    if as_json:
        typer.echo(json.dumps(listed, indent=1, allow_nan=False, default=str))
        return
    if not listed:
        typer.echo(f"{title or 'rows'}: none")
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in listed[0]:
        numeric = all(isinstance(row[name], int | float | None) for row in listed)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
    for row in listed:
        # As text: what looks like markup in a message is none.
        table.add_row(*[Text(_cell_text(value)) for value in row.values()])
    console().print(table)


def known(value: Value) -> Value:
    """Return a value, or None for a float that is not finite, which JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell_text(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def progress(columns: Sequence[str] = ()) -> Progress:
    """Return a progress display on standard error that is silent when it is no terminal.

    Args:
        columns: templates of extra text columns, such as ``"{task.fields[loss]}"``.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        *[TextColumn(template) for template in columns],
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
