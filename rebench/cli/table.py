"""``rebench table``: the tables that come with the package, and how a run becomes one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Force, Value, print_facts, print_rows, refuse_existing

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Released tables: what there is, and how one is made.")


@app.command("list")
def list_tables(as_json: AsJson = False) -> None:
    """List the tables that are opened by name, and where each comes from."""
    from rebench.tables.opening import released_tables

    rows = [_row(name, path) for name, path in released_tables().items()]
    if as_json or not rows:
        print_rows(rows, as_json=as_json, title="released tables")
        return
    for row in rows:
        print_facts(row, title=f"released table {row.pop('name')}")


@app.command()
def release(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    out: Annotated[Path, typer.Argument(help="The .parquet to write; its curves go beside it.")],
    title: Annotated[str, typer.Option(help="What was trained, in a line.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a run's rows and curves as one table for others, with a digest of its records."""
    from rebench.tables.release import release as release_run

    refuse_existing(out, force)
    made = release_run(run, out, title=title)
    row: dict[str, Value] = {
        "table": str(out),
        "trials": made.trials,
        "sha256 of records": made.records_sha256,
    }
    print_rows([row], as_json=as_json)


def _row(name: str, path: Path) -> dict[str, Value]:
    from rebench.tables.opening import read_rows
    from rebench.tables.release import release_of

    rows = read_rows(name)
    about = release_of(path)

    def listed(column: str) -> list[str] | list[int] | None:
        return sorted(rows[column].unique().tolist()) if column in rows else None

    return {
        "name": name,
        "title": about.title if about else None,
        "data sets": listed("dataset"),
        "epochs": listed("epochs"),
        "cells": rows["index"].nunique(),
        "recipes": listed("recipe"),
        "seeds": listed("seed"),
        "trials": about.trials if about else None,
        "trained by": list(about.environments) if about else None,
        "sha256 of records": about.records_sha256 if about else None,
    }
