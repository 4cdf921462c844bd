"""What a page is made of, and how it looks as HTML and as Markdown."""

from __future__ import annotations

import base64
import html
import math
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final, TypeAlias

import pandas as pd
from pandas.api.types import is_numeric_dtype

from rebench.printable import printable

__all__ = [
    "Block",
    "Callout",
    "Code",
    "Details",
    "Figure",
    "Heading",
    "Table",
    "Text",
    "as_html",
    "as_markdown",
    "number",
    "signed",
    "span",
]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the page's title."""

    text: str
    level: int = 2

    @property
    def anchor(self) -> str:
        """The name that a link within the page gives."""
        return "".join(c if c.isalnum() else "-" for c in self.text.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a list where there are several lines; white space is folded."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Callout:
    """A finding in a box: what was compared, and the sentence about it."""

    label: str
    text: str
    moved: bool


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to type or a file's content."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A data frame; numbers are shown to `digits` decimal places."""

    frame: pd.DataFrame
    digits: int = 3

    def rows(self) -> list[list[str]]:
        """The header and the rows, as they are shown."""
        rows = self.frame.itertuples(index=False)
        shown = [[_shown(value, self.digits) for value in row] for row in rows]
        return [[str(name).replace("_", " ") for name in self.frame.columns], *shown]


@dataclass(frozen=True, slots=True)
class Figure:
    """A saved figure: its path without a suffix, and its caption. HTML carries its SVG inside."""

    path: Path
    caption: str


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are folded away until asked for (Markdown has no fold: they are shown)."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = Heading | Text | Callout | Code | Table | Figure | Details


def as_markdown(blocks: Sequence[Block]) -> str:
    """The page as Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def as_html(blocks: Sequence[Block]) -> str:
    """The page as HTML that needs no other file: its style and its figures are inside."""
    titles = [block for block in blocks if isinstance(block, Heading)]
    links = "".join(
        f'<a href="#{title.anchor}">{_escape_html(title.text)}</a>'
        for title in titles
        if title.level == 2
    )
    here = Path(__file__)
    return Template(here.with_name("page.html").read_text("utf-8")).substitute(
        title=_escape_html(titles[0].text),
        style=here.with_name("page.css").read_text("utf-8"),
        contents=f"<nav>{links}</nav>" if links else "",
        body="\n".join(map(_html, blocks)),
    )


def _html(block: Block) -> str:
    safe = _escape_html
    match block:
        case Heading(text, level):
            anchor = f' id="{block.anchor}"' if level == 2 else ""
            return f"<h{level}{anchor}>{safe(text)}</h{level}>"
        case Text(lines):
            folded = [safe(" ".join(line.split())) for line in lines]
            if len(folded) == 1:
                return f"<p>{folded[0]}</p>"
            return "<ul>" + "".join(f"<li>{line}</li>" for line in folded) + "</ul>"
        case Callout(label, text, moved):
            kind = "moved" if moved else "still"
            box = f"<b>{safe(label)}</b><span>{safe(text)}</span>"
            return f'<div class="callout {kind}">{box}</div>'
        case Code(text):
            return f"<pre><code>{safe(text)}</code></pre>"
        case Table():
            return _html_table(block)
        case Figure(path, caption):
            image = base64.b64encode(path.with_name(f"{path.name}.svg").read_bytes()).decode()
            shown = f'<img alt="{safe(caption)}" src="data:image/svg+xml;base64,{image}">'
            return f"<figure>{shown}<figcaption>{safe(caption)}</figcaption></figure>"
        case Details(summary, blocks):
            inner = "".join(map(_html, blocks))
            return f"<details><summary>{safe(summary)}</summary>{inner}</details>"


def _html_table(table: Table) -> str:
    """A table in a box of its own, which scrolls where the screen is narrower."""
    columns = table.frame.infer_objects().items()
    kinds = [" class=n" if is_numeric_dtype(column) else "" for _, column in columns]

    def line(tag: str, row: Sequence[str]) -> str:
        cells = zip(kinds, row, strict=True)
        return "".join(f"<{tag}{kind}>{_escape_html(text)}</{tag}>" for kind, text in cells)

    header, *rows = table.rows()
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{line('th', header)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _markdown(block: Block) -> str:
    plain = _escape_markdown
    match block:
        case Heading(text, level):
            return f"{'#' * level} {plain(text)}"
        case Text([line]):
            return plain(line)
        case Text(lines):
            return "\n".join(f"- {plain(line)}" for line in lines)
        case Callout(label, text):
            return f"> **{plain(label)}**: {plain(text)}"
        case Code(text):
            longest = max(map(len, re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{printable(text)}\n{fence}"
        case Table():
            header, *rows = [f"| {' | '.join(map(plain, row))} |" for row in block.rows()]
            return "\n".join([header, "|" + "---|" * len(block.frame.columns), *rows])
        case Figure(path, caption):
            place = urllib.parse.quote(f"{path.parent.name}/{path.name}.png")
            return f"![{plain(caption)}]({place})\n\n*{plain(caption)}*"
        case Details(summary, blocks):
            return f"**{plain(summary)}**\n\n" + "\n\n".join(map(_markdown, blocks))


def number(value: float, digits: int = 2) -> str | None:
    """A number to so many decimal places, never a negative zero; None where it is not finite."""
    if not math.isfinite(value):
        return None
    return f"{round(value, digits) + 0.0:.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"


def signed(value: float) -> str:
    """A difference with its sign, to two decimal places, never a negative zero."""
    return f"{round(value, 2) + 0.0:+.2f}"


def span(low: float, high: float, digits: int = 2) -> str | None:
    """An interval; None where an end is not finite."""
    first, last = number(low, digits), number(high, digits)
    return None if first is None or last is None else f"{first} to {last}"


def _shown(value: object, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"  # noqa: RUF001 - an en dash stands for "no value"
    if not isinstance(value, float):
        return str(value)
    if 0 < value < 0.5 * 10**-digits:
        return f"< {10**-digits:.{digits}f}"
    return number(value, digits) or str(value)


def _escape_html(text: str) -> str:
    return html.escape(printable(text))


# What begins a block where it stands first in a line, and what means something within one.
_MARKS: Final = re.compile(r"^(?=(?:#+|[+-])(?:\s|$))|(?=[\\`*_|<>\[\]])")
# What only some kinds of Markdown know, and not all let escape by a backslash.
_ENTITIES: Final = re.compile(r"[~$]|&(?=#|\w)")


def _escape_markdown(text: str) -> str:
    """A text on one line of which no character means anything to Markdown."""
    line = _MARKS.sub(r"\\", " ".join(printable(text).split()))
    return _ENTITIES.sub(lambda one: f"&#{ord(one[0])};", line)
