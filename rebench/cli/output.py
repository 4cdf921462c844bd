"""Output of commands: tables, JSON, notes and progress.

A command makes its rows once, under headings for readers; JSON turns each heading into a key.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

import typer
from rich.cells import cell_len

from rebench.printable import CONTROL, is_number, printable, span

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ScreenColumn",
    "as_text",
    "fit",
    "frame_rows",
    "print_facts",
    "print_json",
    "print_rows",
    "printable",
    "progress",
    "say",
    "span",
    "warn",
    "wrapped",
]

_UNLIMITED: Final = 10_000


def warn(line: str) -> None:
    """Print a warning on standard error."""
    typer.echo(printable(line), err=True)


def _width(*, err: bool = False) -> int:
    """Return the width of a line; it is unlimited if there is no terminal and COLUMNS is unset."""
    stream = sys.stderr if err else sys.stdout
    limited = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if limited else _UNLIMITED


def print_rows(
    rows: pd.DataFrame | Iterable[Mapping[str, object]],
    *,
    as_json: bool,
    title: str | None = None,
    headings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print a frame, or rows with equal headings, as a table or as a JSON list of objects.

    `headings` maps column names to headings of the printed table. The column of an interval gets
    the heading of its low end.
    """
    listed: list[Any] = frame_rows(rows) if _is_frame(rows) else list(rows)
    if as_json:
        print_json(listed)
        return
    if not listed:
        say(f"{title or 'rows'}: none")
        return
    if title:
        say(title)
    shown = [_with_intervals(row, headings) for row in listed]
    texts = {name: _column_texts([row[name] for row in shown]) for name in shown[0]}
    columns = [
        ScreenColumn(
            heading=printable(name.replace("_", " "), keep=""),
            texts=each,
            numeric=all(map(is_number, each)),
        )
        for name, each in texts.items()
    ]
    fitted = fit(columns, _width())
    print_facts(dict(fitted.same), aligned=not fitted.tables)
    for table in fitted.tables:
        _print_table(table, fitted.gap)


def print_facts(facts: Mapping[str, object], *, title: str = "", aligned: bool = True) -> None:
    """Print one name and value per line; if `aligned`, values start in the same column."""
    if title:
        say(title)
    texts = {
        printable(name): f"{value:.6g}" if isinstance(value, float) else as_text(value)
        for name, value in facts.items()
    }
    names = max(map(len, texts), default=0) if aligned else 0
    for name, text in texts.items():
        # Long words are left to the terminal, so that a path can be copied.
        typer.echo(wrapped(f"{name:<{names}}  {text}", _width(), indent="  "))


def _print_table(columns: Sequence[ScreenColumn], gap: int) -> None:
    """Print columns next to each other; a row has as many lines as its longest text."""
    headings = (column.heading.split("\n")[::-1] for column in columns)
    lines = [*itertools.zip_longest(*headings, fillvalue="")][::-1]
    for texts in zip(*(column.texts for column in columns), strict=True):
        lines += itertools.zip_longest(*(text.split("\n") for text in texts), fillvalue="")
    widths = [column.natural for column in columns]
    for line in lines:
        shown = []
        for column, width, text in zip(columns, widths, line, strict=True):
            pad = " " * (width - cell_len(text))
            shown.append(pad + text if column.numeric else text + pad)
        typer.echo((" " * gap).join(shown).rstrip())


def say(line: str, *, err: bool = False, indent: str = "") -> None:
    """Print a sentence, wrapped to the width of the terminal."""
    typer.echo(wrapped(printable(f"{indent}{line}"), _width(err=err), indent=indent), err=err)


def print_json(page: object) -> None:
    """Print rows, frames and values as JSON: snake_case keys, null for missing values."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(_plain(page), indent=1, allow_nan=False, ensure_ascii=plain)
    # JSON keeps new lines and some control characters that terminals obey.
    typer.echo(CONTROL.sub(lambda one: one[0] if one[0] == "\n" else f"\\u{ord(one[0]):04x}", text))


def frame_rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows of a frame, with None for missing values."""
    known = frame.astype(object).where(frame.notna(), None).rename(columns=str)
    return known.to_dict("records")


def _is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    """Whether a value is a pandas frame, without loading pandas."""
    return hasattr(value, "to_dict")


def _plain(value: object) -> object:
    """Convert a value to plain JSON types: numpy, pandas, paths, and NaN to null."""
    if _is_frame(value):
        return _plain(frame_rows(value))
    if isinstance(value, Mapping):
        named: dict[str, object] = {}
        for name, part in value.items():
            key, number = _key(str(name)), 2
            while key in named:  # possible if a user names the columns
                key, number = f"{_key(str(name))}_{number}", number + 1
            named[key] = _plain(part)
        return named
    if hasattr(value, "tolist"):  # a type of numpy, which most commands do not load
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    return str(value)


def _key(heading: str) -> str:
    words = re.findall("[a-z0-9]+", heading.lower().replace("%", " percent "))
    return "_".join(words) or "value"


def as_text(value: object, decimals: int | None = None) -> str:
    """Return a value as text; a finite number with `decimals`, if they are given."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "-"
        if decimals is not None:
            return f"{value:.{decimals}f}"
        # Four significant digits, and all digits before the point.
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(as_text, value))
    return printable(str(value))


def _with_intervals(row: Mapping[str, object], headings: Mapping[str, str]) -> dict[str, object]:
    """Return a row in which the columns of a low and a high end are one interval."""
    shown: dict[str, object] = {}
    for name, value in row.items():
        before, _, end = name.rpartition("low")
        if not end and f"{before}high" in row and (not before or before[-1] in " _"):
            usual = "its 95 %" if "95 %" in shown else "95 %"
            digits = 0 if isinstance(value, int) else 2
            shown[headings.get(name, usual)] = span(value, row[f"{before}high"], digits)
        elif not (name.endswith("high") and f"{name[:-4]}low" in row):
            shown[headings.get(name, name)] = value
    return shown


def _column_texts(values: Sequence[object]) -> tuple[str, ...]:
    """Return the texts of a column, its numbers with equal numbers of decimals if possible."""
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    sizes = [abs(value) for value in numbers if value]
    if not sizes or not 1e-4 <= min(sizes) <= max(sizes) < 1e4:
        return tuple(map(as_text, values))
    short = [f"{value:.4g}" for value in numbers]
    if all(float(text) == value for text, value in zip(short, numbers, strict=True)):
        decimals = max(len(text.partition(".")[2]) for text in short)
    else:
        # The largest number gets four digits, but at most three decimals. The smallest number gets
        # one digit.
        most, least = (math.floor(math.log10(size(sizes))) for size in (max, min))
        decimals = max(min(3 - most, 3), -least)
    return tuple(as_text(value, decimals) for value in values)


@contextlib.contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar if standard error is a terminal; yield the function that advances it.

    It takes the arguments of `rich.progress.Progress.update`: `advance`, `completed`, `total`.
    """
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:
        yield functools.partial(bars.update, bars.add_task(what, total=total))


GAP: Final = 2
_INTERVAL: Final = re.compile(r"\[[^][\n]*\]|-?[\d.]+ to -?[\d.]+")
_TIE: Final = "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenColumn:
    """Column of a table: its heading and the text of each row."""

    heading: str
    texts: tuple[str, ...]
    numeric: bool = False

    @property
    def natural(self) -> int:
        """Width of the longest line."""
        return max(map(cell_len, "\n".join((self.heading, *self.texts)).split("\n")))

    @property
    def least(self) -> int:
        """Smallest width at which no word is broken."""
        words = _tied("\n".join((self.heading, *self.texts))).split()
        return max(map(cell_len, words), default=0)


class Fitted(NamedTuple):
    """Table arranged for printing."""

    same: tuple[tuple[str, str], ...] = ()
    """Headings and texts of columns that are equal in all rows."""
    tables: tuple[tuple[ScreenColumn, ...], ...] = ()
    gap: int = GAP
    """Number of spaces between columns."""


def fit(columns: Sequence[ScreenColumn], width: int) -> Fitted:
    """Arrange columns so that no line is wider than `width`, if that is possible."""
    if _breadth([column.natural for column in columns]) <= width:
        return Fitted(tables=(tuple(columns),))
    first, *rest = columns
    if len(first.texts) == 1:
        return Fitted(same=tuple((column.heading, column.texts[0]) for column in columns))
    same = tuple((each.heading, each.texts[0]) for each in rest if len(set(each.texts)) == 1)
    rest = [each for each in rest if len(set(each.texts)) > 1]
    for gap in (GAP, 1):
        if _breadth([each.least for each in (first, *rest)], gap) <= width:
            return Fitted(same, (_narrowed([first, *rest], width, gap),), gap)
    parts = [[first]]
    for column in rest:
        part = [*parts[-1], column]
        if len(part) > 2 and _breadth([each.least for each in part]) > width:
            parts.append([first, column])
        else:
            parts[-1] = part
    return Fitted(same, tuple(_narrowed(part, width) for part in parts))


def wrapped(text: str, width: int, *, indent: str = "") -> str:
    """Wrap a text into lines of at most `width`, later lines indented; words stay whole."""
    wrapper = textwrap.TextWrapper(
        max(width, len(indent) + 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(map(wrapper.fill, _tied(text).split("\n"))).replace(_TIE, " ")


def _tied(text: str) -> str:
    """Return a text in which no interval can be broken between lines."""
    return _INTERVAL.sub(lambda interval: interval[0].replace(" ", _TIE), text)


def _breadth(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _narrowed(
    columns: Sequence[ScreenColumn], width: int, gap: int = GAP
) -> tuple[ScreenColumn, ...]:
    """Narrow the widest column step by step, until all fit or none can be narrowed."""
    widths = [column.natural for column in columns]
    least = [column.least for column in columns]
    while _breadth(widths, gap) > width and widths != least:
        giving = (at for at in range(len(widths)) if widths[at] > least[at])
        widths[max(giving, key=widths.__getitem__)] -= 1
    return tuple(
        replace(
            column,
            heading=wrapped(column.heading, size),
            texts=tuple(wrapped(text, size) for text in column.texts),
        )
        for column, size in zip(columns, widths, strict=True)
    )
