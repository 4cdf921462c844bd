"""The page as files: report.html (self-contained), report.md, and the figures with their data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rebench.analysis import Study
from rebench.errors import StoreError
from rebench.report.blocks import Code, Heading, as_html, as_markdown
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


def write_report(
    study: Study,
    folder: Path,
    *,
    surfaces: Sequence[SurfaceAnswers] = (),
) -> Written:
    """Write a study's report into `folder`; what an earlier one left there is replaced.

    The page has what the learning-rate surfaces say that the run holds.
    """
    written = Written(
        html=folder / "report.html", markdown=folder / "report.md", figures=folder / "figures"
    )
    try:
        written.figures.mkdir(parents=True, exist_ok=True)
        blocks = blocks_of(study, written.figures, surfaces)
        write_atomically(written.markdown, as_markdown(blocks).encode())
        write_atomically(written.html, as_html(blocks).encode())
    except OSError as error:
        raise StoreError(f"cannot write the report into {folder}: {error}") from error
    return written


def write_surface(answers: SurfaceAnswers, name: str, folder: Path) -> None:
    """Write the page about a learning-rate surface, the table called `name`, into `folder`."""
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        blocks = [
            Heading("A learning-rate surface: what a cell's own rate is worth", 1),
            *surface_blocks(answers, folder / "figures"),
            Heading("Again", 3),
            Code(f"rebench surface {shlex.quote(name)} --out {shlex.quote(str(folder))}"),
        ]
        draw_moves(answers).save(folder / "figures" / "moves")
        write_atomically(folder / "surface.md", as_markdown(blocks).encode())
        write_atomically(folder / "surface.html", as_html(blocks).encode())
    except OSError as error:
        raise StoreError(f"cannot write the page into {folder}: {error}") from error
