"""Writing of a report: report.html (self-contained), report.md, figures and their data."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rebench.analysis import Study
from rebench.errors import StoreError
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
    with tempfile.TemporaryDirectory(prefix=".report.", dir=folder) as drawing:
        drawn = Path(drawing) / "figures"
        drawn.mkdir()
        blocks = blocks_of_page(drawn)
        write_atomically(written.markdown, as_markdown(blocks).encode())
        write_atomically(written.html, as_html(blocks).encode())
        _move_files(drawn, written.figures)
    return written


def _move_files(drawn: Path, figures: Path) -> None:
    """Move the drawn files into the folder of figures.

    Others can write there if a run is shared. A link in the place of a file is replaced, not
    followed, and a link in the place of the folder is refused.
    """
    try:
        place = os.open(figures, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreError(
            f"{figures} is not a folder but a link, so no figure was written: remove the link, or"
            " give another folder with --out"
        ) from error
    try:
        for file in drawn.iterdir():
            os.replace(file, file.name, dst_dir_fd=place)
    finally:
        os.close(place)
