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

__all__ = ["Block", "Callout", "Code", "Details", "Figure", "Heading", "Subtitle", "Table", "Text"]


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
        """Return HTML."""
        anchor = f' id="{self.anchor}"' if self.level == 2 else ""
        return f"<h{self.level}{anchor}>{self.safe_text}</h{self.level}>"

    def to_markdown(self) -> str:
        """Return Markdown."""
        return f"{'#' * self.level} {self.text}"


@dataclass(frozen=True, slots=True)
class Subtitle:
    """A line under the title."""

    text: str

    def to_html(self) -> str:
        """Return HTML."""
        return f'<p class="subtitle">{html.escape(self.text)}</p>'

    def to_markdown(self) -> str:
        """Return Markdown."""
        return f"*{_escape_markdown(self.text)}*"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a list where there are several lines; white space is folded."""

    lines: Sequence[str]

    def to_html(self) -> str:
        """Return HTML."""
        lines = [html.escape(" ".join(line.split())) for line in self.lines]
        if len(lines) == 1:
            return f"<p>{lines[0]}</p>"
        return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"

    def to_markdown(self) -> str:
        """Return Markdown."""
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
        """Return HTML."""
        kind = "moved" if self.moved else "still"
        return (
            f'<div class="callout {kind}"><b>{html.escape(self.label)}</b>'
            f"<span>{html.escape(self.text)}</span></div>"
        )

    def to_markdown(self) -> str:
        """Return Markdown."""
        return f"> **{_escape_markdown(self.label)}**: {_escape_markdown(self.text)}"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to type or a file's content."""

    text: str

    def to_html(self) -> str:
        """Return HTML."""
        return f"<pre><code>{html.escape(self.text)}</code></pre>"

    def to_markdown(self) -> str:
        """Return Markdown."""
        return f"```\n{self.text}\n```"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A data frame; numbers are shown to `digits` decimal places, long text on several lines."""

    frame: pd.DataFrame
    digits: int = 3
    wrap: bool = False

    def to_html(self) -> str:
        """Return HTML."""
        numeric = [_is_numeric(self.frame[name]) for name in self.frame]
        head = "".join(
            f"<th{' class=n' if number else ''}>{html.escape(_label(name))}</th>"
            for name, number in zip(self.frame.columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{' class=n' if number else ''}>{html.escape(cell)}</td>"
                for cell, number in zip(row, numeric, strict=True)
            )
            + "</tr>"
            for row in self._rows()
        )
        kind = " class=wrap" if self.wrap else ""
        table = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="scroll">{table}</div>'

    def to_markdown(self) -> str:
        """Return Markdown."""
        lines = [
            "| " + " | ".join(_label(name) for name in self.frame.columns) + " |",
            "|" + "---|" * len(self.frame.columns),
        ]
        lines += [
            "| " + " | ".join(_escape_markdown(cell) for cell in row) + " |" for row in self._rows()
        ]
        return "\n".join(lines)

    def _rows(self) -> list[list[str]]:
        return [
            [_shown(value, self.digits) for value in row]
            for row in self.frame.itertuples(index=False)
        ]


@dataclass(frozen=True, slots=True)
class Figure:
    """A saved figure: its path without a suffix, and its caption. HTML carries its SVG inside."""

    path: Path
    caption: str

    def to_html(self) -> str:
        """Return HTML."""
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
        """Return Markdown."""
        place = f"{self.path.parent.name}/{self.path.name}.png"
        return f"![{self.caption}]({place})\n\n*{_escape_markdown(self.caption)}*"


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are folded away until asked for (Markdown has no fold: they are shown)."""

    summary: str
    blocks: Sequence[Block]

    def to_html(self) -> str:
        """Return HTML."""
        inner = "".join(block.to_html() for block in self.blocks)
        return f"<details><summary>{html.escape(self.summary)}</summary>{inner}</details>"

    def to_markdown(self) -> str:
        """Return Markdown."""
        inner = "\n\n".join(block.to_markdown() for block in self.blocks)
        return f"**{_escape_markdown(self.summary)}**\n\n{inner}"


# Figures are made for paper; on a screen they are shown larger. Pixels per point:
_SCALE: Final = 2.2
_WIDTH: Final = re.compile(rb'<svg[^>]* width="([0-9.]+)pt"')

Block: TypeAlias = Heading | Subtitle | Text | Callout | Code | Table | Figure | Details


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
    if isinstance(value, float):
        if 0 < value < 0.5 * 10**-digits:
            return f"< {10**-digits:.{digits}f}"
        return f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"
    return str(value)


def _label(name: object) -> str:
    return str(name).replace("_", " ")


def _escape_markdown(text: str) -> str:
    for character in "\\`*_|<>[]":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
