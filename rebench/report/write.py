"""Writing of a report: report.html (self-contained), report.md, figures and their data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rebench.analysis import Study
from rebench.report.blocks import Block, as_html, as_markdown
from rebench.report.content import blocks_of
from rebench.runs import write_atomically

__all__ = ["Written", "write_page", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Paths of a written report."""

    html: Path
    markdown: Path
    figures: Path


def write_report(study: Study, folder: Path) -> Written:
    """Write a study's report into `folder`, and replace an earlier report there."""
    return write_page("report", folder, functools.partial(blocks_of, study))


def write_page(name: str, folder: Path, blocks_of_page: Callable[[Path], list[Block]]) -> Written:
    """Write a page as NAME.html and NAME.md; `blocks_of_page` saves its figures in a folder."""
    written = Written(
        html=folder / f"{name}.html", markdown=folder / f"{name}.md", figures=folder / "figures"
    )
    written.figures.mkdir(parents=True, exist_ok=True)
    blocks = blocks_of_page(written.figures)
    write_atomically(written.markdown, as_markdown(blocks).encode())
    write_atomically(written.html, as_html(blocks).encode())
    return written
