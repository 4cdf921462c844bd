"""How commands print: a table for people, ``--json`` for programs, progress for terminals.

A command makes its rows once, under headings that people read; here a heading becomes a key.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rebench.cli.fitting import Column, fit, wrapped
from rebench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress

__all__ = [
    "LEVEL",
    "AsJson",
    "Force",
    "Value",
    "as_text",
    "console",
    "frame_rows",
    "print_facts",
    "print_json",
    "print_rows",
    "printable",
    "progress",
    "refuse_existing",
    "say",
    "warn",
]

Scalar: TypeAlias = str | int | float | bool | None
Value: TypeAlias = Scalar | Sequence[Scalar] | Mapping[str, Scalar]
"""A value of a row: in a table a list or a mapping is a text, in JSON it stays what it is."""

# Control characters but for tab and new line, and what turns the direction of writing.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNLIMITED: Final = 10_000
# What is coloured: states and the columns that count them, and p-values below the usual level.
_BAD: Final = frozenset({"failed", "lost", "missing", "failed before", "damaged lines"})
_P_VALUES: Final = frozenset({"p", "p, all K", "p value", "friedman p"})
_NUMBER: Final = re.compile(r"\d+(\.\d+)?(e-\d+)?")
LEVEL: Final = 0.05

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


def console(*, err: bool = False) -> Console:
    """Return a console, made on call so that redirection is seen.

    What is no terminal has no width, unless COLUMNS says one: nothing is arranged to fit it.
    """
    stream = sys.stderr if err else sys.stdout
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console(highlight=False, stderr=err)
    return Console(highlight=False, stderr=err, soft_wrap=True, width=_UNLIMITED)


def print_rows(
    rows: Iterable[Mapping[str, Value]], *, as_json: bool, title: str | None = None
) -> None:
    """Print rows of equal headings as a table, or as a JSON list of objects."""
    listed = list(rows)
    if as_json:
        print_json(listed)
        return
    if not listed:
        typer.echo(f"{title or 'rows'}: none")
        return
    columns = [
        Column(
            heading=name.replace("_", " "),
            texts=tuple(as_text(row[name]) for row in listed),
            numeric=all(isinstance(row[name], int | float | None) for row in listed),
        )
        for name in listed[0]
    ]
    out = console()
    if title:
        out.print(Text(wrapped(title, out.width), style="italic"))
    fitted = fit(columns, out.width)
    _print_facts(fitted.same, out, aligned=not fitted.tables)
    for table in fitted.tables:
        _draw(table, out)
    for row_name, name, text in fitted.below:
        _print_facts([(row_name, f"{name}: {text}")], out, aligned=False)


def print_facts(facts: Mapping[str, Value], *, title: str) -> None:
    """Print names and values downwards."""
    out = console()
    out.print(Text(title, style="italic"))
    texts = [(name.replace("_", " "), as_text(value)) for name, value in facts.items()]
    _print_facts(texts, out, aligned=True)


def _print_facts(facts: Sequence[tuple[str, str]], out: Console, *, aligned: bool) -> None:
    width = max((len(name) for name, _ in facts), default=0) if aligned else 0
    for name, text in facts:
        line = wrapped(f"{name:<{width}}  {text}", out.width, indent="  ")
        # The terminal itself breaks a word that is longer than it: a path stays whole to copy.
        out.print(_coloured(name, line, text), soft_wrap=True)


def _draw(columns: Sequence[Column], out: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for one in columns:
        justify: Literal["left", "right"] = "right" if one.numeric else "left"
        table.add_column(Text(one.heading), justify=justify, width=one.width, overflow="fold")
    for texts in zip(*(one.texts for one in columns), strict=True):
        # As text: what looks like markup in a message is none.
        cells = zip(columns, texts, strict=True)
        table.add_row(*[_coloured(one.heading, text, text) for one, text in cells])
    out.print(table)


def _coloured(heading: str, shown: str, value: str) -> Text:
    """Colour what failed or was lost, and what is significant; on a terminal that has colours."""
    if value in _BAD or (heading in _BAD and value not in ("0", "-")):
        return Text(shown, style="red")
    number = _NUMBER.fullmatch(value) if heading in _P_VALUES else None
    return Text(shown, style="green" if number and float(value) < LEVEL else "")


def say(line: str, *, err: bool = False, style: str = "", indent: str = "") -> None:
    """Print a sentence beside the tables, broken between words where a terminal ends."""
    out = console(err=err)
    text = wrapped(printable(f"{indent}{line}"), out.width, indent=indent)
    out.print(Text(text, style=style), soft_wrap=True)


def print_json(page: object) -> None:
    """Print a page of rows, frames' rows and values: snake_case keys, null for what is missing."""
    typer.echo(json.dumps(_plain(page), indent=1, allow_nan=False))


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Value]]:
    """Return the rows of a frame, None where a value is missing."""
    known = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in known.to_dict("records")]


def _plain(value: object) -> object:
    """Return what JSON can hold: of numpy and pandas, of paths and of floats that are no number."""
    if isinstance(value, Mapping):
        named: dict[str, object] = {}
        for name, one in value.items():
            key, number = _key(str(name)), 2
            while key in named:  # only where a user names columns
                key, number = f"{_key(str(name))}_{number}", number + 1
            named[key] = _plain(one)
        return named
    if hasattr(value, "tolist"):  # of numpy, which most commands do not load
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Iterable):
        return [_plain(one) for one in value]
    return str(value)


def _key(heading: str) -> str:
    words = re.findall("[a-z0-9]+", heading.lower().replace("%", " percent "))
    return "_".join(words) or "value"


def as_text(value: Value) -> str:
    """Return a value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _four_digits(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_text(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(as_text, value))
    return printable(str(value))


def _four_digits(value: float) -> str:
    """Return four significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


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
