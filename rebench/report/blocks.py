"""Building blocks of a page, and their form in HTML and Markdown."""

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

from rebench.printable import is_number, number, printable

__all__ = [
    "Block",
    "Callout",
    "Code",
    "Details",
    "Figure",
    "Heading",
    "TableBlock",
    "Text",
    "as_html",
    "as_markdown",
]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the page's title."""

    text: str
    level: int = 2

    @property
    def anchor(self) -> str:
        """Name of the heading in links."""
        return "".join(c if c.isalnum() else "-" for c in self.text.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a list if there are several lines; white space is folded."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Callout:
    """A verdict in a box: the compared tables and the sentence."""

    label: str
    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Code:
    """A command or the content of a file."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class TableBlock:
    """A data frame; numbers are shown to `digits` decimal places."""

    frame: pd.DataFrame
    digits: int = 3

    def rows(self) -> list[list[str]]:
        """Return the header and the rows as texts."""
        rows = self.frame.itertuples(index=False)
        shown = [[_shown(value, self.digits) for value in row] for row in rows]
        return [[str(name).replace("_", " ") for name in self.frame.columns], *shown]


@dataclass(frozen=True, slots=True)
class Figure:
    """A saved figure: its path without a suffix, and its caption. HTML pages contain its SVG."""

    path: Path
    caption: str


@dataclass(frozen=True, slots=True)
class Details:
    """Folded blocks with a summary; Markdown shows them unfolded."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = Heading | Text | Callout | Code | TableBlock | Figure | Details


def as_markdown(blocks: Sequence[Block]) -> str:
    """Return the page as Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def as_html(blocks: Sequence[Block]) -> str:
    """Return the page as one HTML file that contains its style and figures."""
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
        case Callout(label, text, changed):
            kind = "changed" if changed else "still"
            box = f"<b>{safe(label)}</b><span>{safe(text)}</span>"
            return f'<div class="callout {kind}">{box}</div>'
        case Code(text):
            return f"<pre><code>{safe(text)}</code></pre>"
        case TableBlock():
            return _html_table(block)
        case Figure(path, caption):
            image = base64.b64encode(path.with_name(f"{path.name}.svg").read_bytes()).decode()
            shown = f'<img alt="{safe(caption)}" src="data:image/svg+xml;base64,{image}">'
            return f"<figure>{shown}<figcaption>{safe(caption)}</figcaption></figure>"
        case Details(summary, blocks):
            inner = "".join(map(_html, blocks))
            return f"<details><summary>{safe(summary)}</summary>{inner}</details>"


def _html_table(table: TableBlock) -> str:
    """Return a table as HTML in a box that scrolls on narrow screens."""
    columns = table.frame.infer_objects().items()
    kinds = [
        " class=n" if is_numeric_dtype(column) or all(map(is_number, map(str, column))) else ""
        for _, column in columns
    ]

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
        case TableBlock():
            header, *rows = [f"| {' | '.join(map(plain, row))} |" for row in block.rows()]
            return "\n".join([header, "|" + "---|" * len(block.frame.columns), *rows])
        case Figure(path, caption):
            place = urllib.parse.quote(f"{path.parent.name}/{path.name}.png")
            return f"![{plain(caption)}]({place})\n\n*{plain(caption)}*"
        case Details(summary, blocks):
            return f"**{plain(summary)}**\n\n" + "\n\n".join(map(_markdown, blocks))


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


# Characters that begin a block at the start of a line, and special characters within a line.
_MARKS: Final = re.compile(r"^(?=(?:#+|[+-])(?:\s|$))|(?=[\\`*_|<>\[\]])")
# Characters that are special in some dialects of Markdown. A backslash does not escape them in
# every dialect, so they become HTML entities.
_ENTITIES: Final = re.compile(r"[~$]|&(?=#|\w)")


def _escape_markdown(text: str) -> str:
    """Return a text on one line with every special character of Markdown escaped."""
    line = _MARKS.sub(r"\\", " ".join(printable(text).split()))
    return _ENTITIES.sub(lambda one: f"&#{ord(one[0])};", line)
