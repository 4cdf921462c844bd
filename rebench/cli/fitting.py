"""How a table fits a screen: nothing is cut, neither a number nor a name.

Tried in this order, until it fits: the table as it is; a single row downwards; what is the same in
all rows said once; long words, such as paths, below the table; texts in several lines; columns
closer together; the columns in several tables, each with the first column.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len

__all__ = ["GAP", "Column", "Fitted", "fit", "wrapped"]

GAP: Final = 2
# A word that takes more of the screen than this stands below the table.
_LONG: Final = 0.4
_INTERVAL: Final = re.compile(r"\[[^][]*\]|-?[\d.]+ to -?[\d.]+")
_TIE: Final = "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and a text of every row."""

    heading: str
    texts: tuple[str, ...]
    numeric: bool = False
    width: int = 0
    """As many characters as its lines get."""

    @property
    def natural(self) -> int:
        """Return the width at which every text is one line."""
        return max(map(cell_len, (self.heading, *self.texts)))

    @property
    def least(self) -> int:
        """Return the width at which no word is broken."""
        texts = (self.heading, *self.texts)
        return max((cell_len(word) for text in texts for word in _tied(text).split()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table as it is to be printed."""

    same: tuple[tuple[str, str], ...] = ()
    """Headings and texts that hold for all rows."""
    gap: int = GAP
    """The blanks between columns."""
    tables: tuple[tuple[Column, ...], ...] = ()
    below: tuple[tuple[str, str, str], ...] = ()
    """What is said after the tables: of which row, heading and text."""


def fit(columns: Sequence[Column], width: int) -> Fitted:
    """Arrange columns so that no line is wider than `width`, if any arrangement is."""
    if _breadth([column.natural for column in columns]) <= width:
        return Fitted(tables=(_as_wide(columns),))
    if len(columns[0].texts) == 1:
        return Fitted(same=tuple((column.heading, column.texts[0]) for column in columns))
    first, rest = columns[0], columns[1:]
    same = tuple(
        (column.heading, column.texts[0]) for column in rest if len(set(column.texts)) == 1
    )
    rest = [column for column in rest if len(set(column.texts)) > 1]
    if _breadth([column.natural for column in (first, *rest)]) <= width:
        return Fitted(same=same, tables=(_as_wide([first, *rest]),))
    long = [column for column in rest if column.least > _LONG * width]
    rest = [column for column in rest if column not in long]
    below = tuple(
        (row, column.heading, text)
        for number, row in enumerate(first.texts)
        for column in long
        if (text := column.texts[number]) != "-"
    )
    if GAP * len(rest) > width - sum(column.least for column in (first, *rest)) >= len(rest):
        table = _narrowed([first, *rest], width, gap=1)
        return Fitted(same=same, gap=1, tables=(table,), below=below)
    tables: list[tuple[Column, ...]] = []
    part = [first]
    for column in rest:
        if len(part) > 1 and _breadth([each.least for each in (*part, column)]) > width:
            tables.append(_narrowed(part, width))
            part = [first]
        part.append(column)
    return Fitted(same=same, tables=(*tables, _narrowed(part, width)), below=below)


def wrapped(text: str, width: int, *, indent: str = "") -> str:
    """Return a text in lines of at most `width`, later ones indented; no word is broken."""
    lines = [
        textwrap.fill(
            _tied(line),
            max(width, len(indent) + 1),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    ]
    return "\n".join(lines).replace(_TIE, " ")


def _tied(text: str) -> str:
    """A text whose intervals are words: no line ends within one."""
    return _INTERVAL.sub(lambda interval: interval[0].replace(" ", _TIE), text)


def _breadth(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _as_wide(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, width=column.natural) for column in columns)


def _narrowed(columns: Sequence[Column], width: int, gap: int = GAP) -> tuple[Column, ...]:
    """Take width from the widest column that can give some, until they fit or none can."""
    widths = [column.natural for column in columns]
    least = [column.least for column in columns]
    while _breadth(widths, gap) > width:
        giving = [at for at in range(len(widths)) if widths[at] > least[at]]
        if not giving:
            break
        widths[max(giving, key=widths.__getitem__)] -= 1
    return tuple(
        replace(column, width=size, texts=tuple(wrapped(text, size) for text in column.texts))
        for column, size in zip(columns, widths, strict=True)
    )
