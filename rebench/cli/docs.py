"""``rebench docs``: where the documentation lies on this machine."""

from __future__ import annotations

import importlib.metadata
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from rebench.cli.output import warn
from rebench.errors import MissingDataError

__all__ = ["app"]

app = typer.Typer()

_PROJECT: Final = Path(__file__).resolve().parents[2]
_INSTALLED: Final = ("share", "doc", "nas-rebench", "index.md")


@app.command()
def docs(
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Print where the documentation begins: pages for a browser, or else their Markdown."""
    page = _first_page()
    typer.echo(page)
    if page.suffix == ".md" and (_PROJECT / "mkdocs.yml").is_file():
        warn("these are the pages' sources; `mkdocs build` makes pages for a browser of them")
    if show and not webbrowser.open(page.as_uri()):
        raise MissingDataError(f"no browser was found to open {page}")


def _first_page() -> Path:
    if (_PROJECT / "mkdocs.yml").is_file():
        site = _PROJECT / "site" / "index.html"
        return site if site.is_file() else _PROJECT / "docs" / "index.md"
    for file in importlib.metadata.files("nas-rebench") or ():
        if (
            file.parts[-len(_INSTALLED) :] == _INSTALLED
            and (page := Path(str(file.locate()))).exists()
        ):
            return page.resolve()
    raise MissingDataError(
        "the pages are not where this was installed; they are in the folder docs of its source"
    )
