"""Stored notebooks as pages: their texts, code and outputs as they are in the file. Nothing is run.

An output is shown as text, as an image or as tables: its HTML passes a list of tags that can do
nothing, so that a page does no more than a notebook's author wrote in its texts.
"""

from __future__ import annotations

import base64
import html
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import markdown

__all__ = ["NotebookPage", "inert", "notebook_page"]

# Longer code is folded, so that results come first.
_SHORT_LINES: Final = 8
_HEADING: Final = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
# Files that a notebook links to are next to the notebook, one folder above its page.
_LINK: Final = re.compile(r"\]\(([\w/.-]+\.md)\)")
_TAGS: Final = frozenset(
    [
        *("b", "blockquote", "br", "code", "em", "hr", "i", "p", "pre", "strong", "sub", "sup"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "ul"),
        *("caption", "table", "tbody", "td", "tfoot", "th", "thead", "tr"),
    ]
)
_EMPTY: Final = frozenset({"br", "hr"})
_UNREAD: Final = frozenset({"script", "style"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookPage:
    """A notebook in Markdown, and its figures (PNG) by the names that the page has for them."""

    text: str
    figures: Mapping[str, bytes]


def notebook_page(path: Path) -> NotebookPage:
    """The page of a stored notebook."""
    made = _Making(folder=path.stem)
    for cell in json.loads(path.read_text())["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            made.parts.append(_LINK.sub(r"](../\1)", source))
            made.heading = [made.heading, *_HEADING.findall(source)][-1]
        else:
            made.parts.append(_code(source))
            made.parts += [made.output(output) for output in cell.get("outputs", ())]
    about = (
        f"This page shows the notebook [`{path.name}`]({path.name}) as it is stored; code of more "
        "than a few lines is folded."
    )
    return NotebookPage(
        text="\n\n".join([*made.parts[:1], about, *made.parts[1:]]) + "\n", figures=made.figures
    )


def inert(text: str) -> str:
    """HTML with nothing but text, tables and lists: no script, style, link or handler."""
    reader = _Inert()
    reader.feed(text)
    reader.close()
    reader.close_down_to(0)
    return "".join(reader.written)


@dataclass(slots=True, kw_only=True)
class _Making:
    """A page as far as it is written."""

    folder: str
    heading: str = ""
    parts: list[str] = field(default_factory=list)
    figures: dict[str, bytes] = field(default_factory=dict)

    def output(self, output: Mapping[str, Any]) -> str:
        """One output: the first of its forms that a page can show."""
        if output["output_type"] == "stream":
            return _fenced(_joined(output["text"]), "{.text .output}")
        data = {kind: _joined(text) for kind, text in output.get("data", {}).items()}
        if "image/png" in data:
            size = output.get("metadata", {}).get("image/png", {})
            return self.figure(base64.b64decode(data["image/png"]), size.get("width"))
        if "text/html" in data:
            return f'<div class="output">{inert(data["text/html"])}</div>'
        if "text/markdown" in data:
            shown = markdown.markdown(data["text/markdown"], extensions=["tables"])
            return f'<div class="output">{inert(shown)}</div>'
        if "text/plain" in data:
            return _fenced(data["text/plain"], "{.text .output}")
        raise ValueError(
            f"{self.folder}: under {self.heading!r} stands an output that no page can show: "
            f"{output['output_type']} of {sorted(data)}"
        )

    def figure(self, png: bytes, width: int | None) -> str:
        """Keep a figure; return it in the width that it is meant for, leading to all its pixels."""
        name = f"{self.folder}/{len(self.figures) + 1}.png"
        self.figures[name] = png
        alt = re.sub(r"[][]", "", f"Figure {len(self.figures)}: {self.heading}")
        size = f'{{ width="{int(width)}" }}' if width else ""
        return f"[![{alt}]({name}){size}]({name})"


class _Inert(HTMLParser):
    """Writes again what it reads, of all tags those that can do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self._open: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._unread += 1
        elif tag in _TAGS:
            self.written.append(f"<{tag}{''.join(_spans(attrs))}>")
            self._open += [] if tag in _EMPTY else [tag]

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        elif tag in self._open:
            self.close_down_to(len(self._open) - 1 - self._open[::-1].index(tag))

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.written.append(html.escape(data, quote=False))

    def close_down_to(self, depth: int) -> None:
        """Close the innermost tags, until so many are open."""
        while len(self._open) > depth:
            self.written.append(f"</{self._open.pop()}>")


def _spans(attributes: list[tuple[str, str | None]]) -> Iterator[str]:
    for name, value in attributes:
        if name in ("colspan", "rowspan") and value and value.isdecimal():
            yield f' {name}="{int(value)}"'


def _code(source: str) -> str:
    fenced, lines = _fenced(source, "python"), source.count("\n") + 1
    if lines <= _SHORT_LINES:
        return fenced
    return f'??? code "Code, {lines} lines"\n\n{textwrap.indent(fenced, "    ")}'


def _fenced(text: str, about: str) -> str:
    """A fenced block that nothing in the text can end."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence} {about}\n{text.strip(chr(10))}\n{fence}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
