"""What a page is made of, and how each piece looks as HTML and as Markdown."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

__all__ = [
    "Block",
    "Callout",
    "Code",
    "Details",
    "Figure",
    "Heading",
    "Subtitle",
    "Table",
    "Text",
    "number",
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

    @property
    def safe_text(self) -> str:
        """The text, escaped for HTML."""
        return html.escape(self.text)

    def to_html(self) -> str:
        """HTML."""
        anchor = f' id="{self.anchor}"' if self.level == 2 else ""
        return f"<h{self.level}{anchor}>{self.safe_text}</h{self.level}>"

    def to_markdown(self) -> str:
        """Markdown."""
        return f"{'#' * self.level} {self.text}"


@dataclass(frozen=True, slots=True)
class Subtitle:
    """A line under the title."""

    text: str

    def to_html(self) -> str:
        """HTML."""
        return f'<p class="subtitle">{html.escape(self.text)}</p>'

    def to_markdown(self) -> str:
        """Markdown."""
        return f"*{_escape_markdown(self.text)}*"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a list where there are several lines; white space is folded."""

    lines: Sequence[str]

    def to_html(self) -> str:
        """HTML."""
        lines = [html.escape(" ".join(line.split())) for line in self.lines]
        if len(lines) == 1:
            return f"<p>{lines[0]}</p>"
        return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"

    def to_markdown(self) -> str:
        """Markdown."""
        if len(self.lines) == 1:
            return _escape_markdown(self.lines[0])
        return "\n".join(f"- {_escape_markdown(line)}" for line in self.lines)


@dataclass(frozen=True, slots=True)
class Callout:
    """A finding in a box: what was compared, and the sentence about it."""

    label: str
    text: str
    moved: bool

    def to_html(self) -> str:
        """HTML."""
        kind = "moved" if self.moved else "still"
        return (
            f'<div class="callout {kind}"><b>{html.escape(self.label)}</b>'
            f"<span>{html.escape(self.text)}</span></div>"
        )

    def to_markdown(self) -> str:
        """Markdown."""
        return f"> **{_escape_markdown(self.label)}**: {_escape_markdown(self.text)}"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to type or a file's content."""

    text: str

    def to_html(self) -> str:
        """HTML."""
        return f"<pre><code>{html.escape(self.text)}</code></pre>"

    def to_markdown(self) -> str:
        """Markdown."""
        return f"```\n{self.text}\n```"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A data frame; numbers are shown to `digits` decimal places, long text on several lines."""

    frame: pd.DataFrame
    digits: int = 3
    wrap: bool = False

    def to_html(self) -> str:
        """HTML, in a box of its own that scrolls where the screen is narrower."""
        kinds = [" class=n" if _is_numeric(self.frame[name]) else "" for name in self.frame]
        header, *rows = [
            "<tr>"
            + "".join(
                f"<{tag}{kind}>{html.escape(cell)}</{tag}>"
                for cell, kind in zip(row, kinds, strict=True)
            )
            + "</tr>"
            for tag, row in zip(["th"] + ["td"] * len(self.frame), self._rows(), strict=True)
        ]
        kind = " class=wrap" if self.wrap else ""
        table = f"<table{kind}><thead>{header}</thead><tbody>{''.join(rows)}</tbody></table>"
        return f'<div class="scroll">{table}</div>'

    def to_markdown(self) -> str:
        """Markdown."""
        header, *rows = [f"| {' | '.join(map(_escape_markdown, row))} |" for row in self._rows()]
        return "\n".join([header, "|" + "---|" * len(self.frame.columns), *rows])

    def _rows(self) -> list[list[str]]:
        """The header and the rows, as they are shown."""
        rows = self.frame.itertuples(index=False)
        shown = [[_shown(value, self.digits) for value in row] for row in rows]
        return [[str(name).replace("_", " ") for name in self.frame.columns], *shown]


@dataclass(frozen=True, slots=True)
class Figure:
    """A saved figure: its path without a suffix, and its caption. HTML carries its SVG inside."""

    path: Path
    caption: str

    def to_html(self) -> str:
        """HTML."""
        drawing = self.path.with_name(self.path.name + ".svg").read_bytes()
        image = base64.b64encode(drawing).decode()
        points = _WIDTH.search(drawing)
        width = f' width="{_SCALE * float(points[1]):.0f}"' if points else ""
        caption = html.escape(self.caption)
        return (
            f'<figure><img alt="{caption}"{width} src="data:image/svg+xml;base64,{image}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )

    def to_markdown(self) -> str:
        """Markdown."""
        place = f"{self.path.parent.name}/{self.path.name}.png"
        return f"![{self.caption}]({place})\n\n*{_escape_markdown(self.caption)}*"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are folded away until asked for (Markdown has no fold: they are shown)."""

    summary: str
    blocks: Sequence[Block]

    def to_html(self) -> str:
        """HTML."""
        inner = "".join(block.to_html() for block in self.blocks)
        return f"<details><summary>{html.escape(self.summary)}</summary>{inner}</details>"

    def to_markdown(self) -> str:
        """Markdown."""
        inner = "\n\n".join(block.to_markdown() for block in self.blocks)
        return f"**{_escape_markdown(self.summary)}**\n\n{inner}"


# Figures are made for paper; on a screen they are shown larger. Pixels per point:
_SCALE: Final = 2.2
_WIDTH: Final = re.compile(rb'<svg[^>]* width="([0-9.]+)pt"')

Block: TypeAlias = Heading | Subtitle | Text | Callout | Code | Table | Figure | Details


def number(value: float, digits: int = 2) -> str | None:
    """A number to so many decimal places, never a negative zero; None where it is not finite."""
    if not math.isfinite(value):
        return None
    return f"{round(value, digits) + 0.0:.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"


def span(low: float, high: float, digits: int = 2) -> str | None:
    """An interval; None where an end is not finite."""
    first, last = number(low, digits), number(high, digits)
    return None if first is None or last is None else f"{first} to {last}"


def _is_numeric(column: Iterable[object]) -> bool:
    """Say whether a column holds numbers, with words where there is none."""
    values = list(column)
    numbers = [isinstance(value, float | int | np.number) for value in values]
    return all(numbers) or any(
        number and not math.isnan(float(str(value)))
        for number, value in zip(numbers, values, strict=True)
    )


def _shown(value: object, digits: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"  # noqa: RUF001 - an en dash stands for "no value"
    if not isinstance(value, float):
        return str(value)
    if 0 < value < 0.5 * 10**-digits:
        return f"< {10**-digits:.{digits}f}"
    return number(value, digits) or str(value)


def _escape_markdown(text: str) -> str:
    for character in "\\`*_|<>[]":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
