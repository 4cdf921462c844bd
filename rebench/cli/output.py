"""How commands print: a table for people, ``--json`` for programs, progress for terminals.

A command makes its rows once, under headings that people read; here a heading becomes a key.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

import typer
from rich.cells import cell_len

from rebench.printable import CONTROL, printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Column",
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
_ALIGNED: Final = re.compile(r"(-|-?[\d.,]+(e[+-]?\d+)?)( ?%|[ *])?")


def warn(line: str) -> None:
    """Tell the user something beside what was asked for."""
    typer.echo(printable(line), err=True)


def _width(*, err: bool = False) -> int:
    """The characters of a line: what is no terminal has no width, unless COLUMNS says one."""
    stream = sys.stderr if err else sys.stdout
    limited = stream.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if limited else _UNLIMITED


def print_rows(
    rows: pd.DataFrame | Iterable[Mapping[str, object]], *, as_json: bool, title: str | None = None
) -> None:
    """Print a frame, or rows of equal headings, as a table or as a JSON list of objects."""
    listed: list[Any] = frame_rows(rows) if _is_frame(rows) else list(rows)
    if as_json:
        print_json(listed)
        return
    if not listed:
        say(f"{title or 'rows'}: none")
        return
    if title:
        say(title)
    shown = [_with_intervals(row) for row in listed]
    texts = {name: _column_texts([row[name] for row in shown]) for name in shown[0]}
    columns = [
        Column(
            heading=printable(name.replace("_", " "), keep=""),
            texts=each,
            numeric=all(map(_ALIGNED.fullmatch, each)),
        )
        for name, each in texts.items()
    ]
    fitted = fit(columns, _width())
    print_facts(dict(fitted.same), aligned=not fitted.tables)
    for table in fitted.tables:
        _print_table(table, fitted.gap)


def print_facts(facts: Mapping[str, object], *, title: str = "", aligned: bool = True) -> None:
    """Print names and values downwards, the values below each other if `aligned`."""
    if title:
        say(title)
    texts = {
        printable(name): f"{value:.6g}" if isinstance(value, float) else as_text(value)
        for name, value in facts.items()
    }
    names = max(map(len, texts), default=0) if aligned else 0
    for name, text in texts.items():
        # The terminal itself breaks a word that is longer than it: a path stays whole to copy.
        typer.echo(wrapped(f"{name:<{names}}  {text}", _width(), indent="  "))


def _print_table(columns: Sequence[Column], gap: int) -> None:
    """Print columns beside each other; a row is as high as its highest text."""
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
    """Print a sentence beside the tables, broken between words where a terminal ends."""
    typer.echo(wrapped(printable(f"{indent}{line}"), _width(err=err), indent=indent), err=err)


def print_json(page: object) -> None:
    """Print a page of rows, frames' rows and values: snake_case keys, null for what is missing."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(_plain(page), indent=1, allow_nan=False, ensure_ascii=plain)
    # Of control characters JSON itself leaves new lines, and some that terminals obey.
    typer.echo(CONTROL.sub(lambda one: one[0] if one[0] == "\n" else f"\\u{ord(one[0]):04x}", text))


def frame_rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """The rows of a frame, None where a value is missing."""
    known = frame.astype(object).where(frame.notna(), None).rename(columns=str)
    return known.to_dict("records")


def _is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    """Whether it is a frame of pandas, which most commands do not load."""
    return hasattr(value, "to_dict")


def _plain(value: object) -> object:
    """A value as JSON can hold it: of numpy and pandas, paths, floats that are no number."""
    if _is_frame(value):
        return _plain(frame_rows(value))
    if isinstance(value, Mapping):
        named: dict[str, object] = {}
        for name, part in value.items():
            key, number = _key(str(name)), 2
            while key in named:  # only where a user names columns
                key, number = f"{_key(str(name))}_{number}", number + 1
            named[key] = _plain(part)
        return named
    if hasattr(value, "tolist"):  # of numpy, which most commands do not load
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
    """A value as people read it; a finite number with `decimals`, if they are given."""
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


def _with_intervals(row: Mapping[str, object]) -> dict[str, object]:
    """A row in which a low and a high end are one interval, after the value that it is of."""
    shown: dict[str, object] = {}
    for name, value in row.items():
        before, _, end = name.rpartition("low")
        if not end and f"{before}high" in row and (not before or before[-1] in " _"):
            shown["its 95 %" if "95 %" in shown else "95 %"] = span(value, row[f"{before}high"])
        elif not (name.endswith("high") and f"{name[:-4]}low" in row):
            shown[name] = value
    return shown


def span(low: object, high: object) -> str | None:
    """An interval as people read it, None where there is none."""
    ends = [end for end in (low, high) if isinstance(end, int | float) and math.isfinite(end)]
    if len(ends) < 2:
        return None
    # 0.0 has no minus.
    return " to ".join(f"{round(end, 2) + 0.0:.2f}" for end in ends)


def _column_texts(values: Sequence[object]) -> tuple[str, ...]:
    """The texts of a column: its numbers with as many decimals each, where these are few."""
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    sizes = [abs(value) for value in numbers if value]
    if not sizes or not 1e-4 <= min(sizes) <= max(sizes) < 1e4:
        return tuple(map(as_text, values))
    short = [f"{value:.4g}" for value in numbers]
    if all(float(text) == value for text, value in zip(short, numbers, strict=True)):
        decimals = max(len(text.partition(".")[2]) for text in short)
    else:
        # Four digits of the largest, but no more than three decimals; one digit of the smallest.
        most, least = (math.floor(math.log10(size(sizes))) for size in (max, min))
        decimals = max(min(3 - most, 3), -least)
    return tuple(as_text(value, decimals) for value in values)


@contextlib.contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A bar on standard error, where that is a terminal; what is given moves it.

    It takes what `rich.progress.Progress.update` takes: `advance`, `completed`, `total`.
    """
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:
        yield functools.partial(bars.update, bars.add_task(what, total=total))


GAP: Final = 2
_INTERVAL: Final = re.compile(r"\[[^][\n]*\]|-?[\d.]+ to -?[\d.]+")
_TIE: Final = "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and a text of every row, each of one line or more."""

    heading: str
    texts: tuple[str, ...]
    numeric: bool = False

    @property
    def natural(self) -> int:
        """The width of the longest line."""
        return max(map(cell_len, "\n".join((self.heading, *self.texts)).split("\n")))

    @property
    def least(self) -> int:
        """The width at which no word is broken."""
        words = _tied("\n".join((self.heading, *self.texts))).split()
        return max(map(cell_len, words), default=0)


class Fitted(NamedTuple):
    """A table as it is to be printed."""

    same: tuple[tuple[str, str], ...] = ()
    """Headings and texts that hold for all rows."""
    tables: tuple[tuple[Column, ...], ...] = ()
    gap: int = GAP
    """The blanks between columns."""


def fit(columns: Sequence[Column], width: int) -> Fitted:
    """Arrange columns so that no line is wider than `width`, if any arrangement is."""
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
    """A text in lines of at most `width`, later ones indented; no word is broken."""
    wrapper = textwrap.TextWrapper(
        max(width, len(indent) + 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(map(wrapper.fill, _tied(text).split("\n"))).replace(_TIE, " ")


def _tied(text: str) -> str:
    """A text whose intervals are words: no line ends within one."""
    return _INTERVAL.sub(lambda interval: interval[0].replace(" ", _TIE), text)


def _breadth(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _narrowed(columns: Sequence[Column], width: int, gap: int = GAP) -> tuple[Column, ...]:
    """Take width from the widest column that can give some, until they fit or none can."""
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
