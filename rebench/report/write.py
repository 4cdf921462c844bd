"""The page as files: report.html (self-contained), report.md, and the figures with their data."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rebench.analysis import Study
from rebench.report.blocks import Block, Code, Heading, as_html, as_markdown
from rebench.report.content import blocks_of
from rebench.report.figures.surface import draw_moves
from rebench.report.surface import SurfaceAnswers
from rebench.report.surface_page import surface_blocks
from rebench.runs import write_atomically

__all__ = ["Written", "write_report", "write_surface"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a report went."""

    html: Path
    markdown: Path
    figures: Path


def write_report(study: Study, folder: Path) -> Written:
    """Write a study's report into `folder`; what an earlier one left there is replaced."""
    return _write("report", folder, functools.partial(blocks_of, study))


def write_surface(answers: SurfaceAnswers, name: str, folder: Path) -> Written:
    """Write the page about a learning-rate surface, the table called `name`, into `folder`."""

    def blocks(figures: Path) -> list[Block]:
        draw_moves(answers).save(figures / "moves")
        return [
            Heading("A learning-rate surface: what a cell's own rate is worth", 1),
            *surface_blocks(answers, figures),
            Heading("Again", 3),
            Code(f"rebench surface {shlex.quote(name)} --out {shlex.quote(str(folder))}"),
        ]

    return _write("surface", folder, blocks)


def _write(name: str, folder: Path, blocks_of_page: Callable[[Path], list[Block]]) -> Written:
    written = Written(
        html=folder / f"{name}.html", markdown=folder / f"{name}.md", figures=folder / "figures"
    )
    written.figures.mkdir(parents=True, exist_ok=True)
    blocks = blocks_of_page(written.figures)
    write_atomically(written.markdown, as_markdown(blocks).encode())
    write_atomically(written.html, as_html(blocks).encode())
    return written
