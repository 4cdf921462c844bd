"""``rebench cells``: one cell as a page, the space as a table."""

from __future__ import annotations

import typer

from cells import Cell

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Architecture strings and their graph statistics.")


@app.command()
def show(cell: str = typer.Argument(help="An index, an architecture string or a code.")) -> None:
    """Show one cell."""
    typer.echo(str(Cell.find(cell)))


@app.command()
def stats() -> None:
    """Show the space at a glance."""
