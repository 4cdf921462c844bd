"""``rebench doctor``: what is installed, what is missing, how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Value, print_rows

__all__ = ["app"]

app = typer.Typer()


@app.command()
def doctor(
    data_root: Annotated[
        Path | None, typer.Option(envvar="REBENCH_DATA", help="Folder of data sets.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is installed and what is missing; exit 1 if something required is."""
    from rebench.launch.doctor import examine

    findings = list(examine(data_root))
    rows: list[dict[str, Value]] = [
        {
            "what": one.what,
            "found": one.found or (None if as_json else "missing"),
            "for": one.needed_for,
            "how to get it": None if one.found else one.get,
        }
        for one in findings
    ]
    print_rows(rows, as_json=as_json)
    if any(one.required and not one.found for one in findings):
        raise typer.Exit(1)
