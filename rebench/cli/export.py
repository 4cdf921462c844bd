"""``rebench export``: a run's results for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, Value, print_rows, progress
from rebench.errors import InputError
from rebench.nats.choice import Choice
from rebench.nats.export import export_nats
from rebench.tables import open_table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="A run's results for other programs.")

Run = Annotated[str, typer.Argument(help="A run's folder, or any table; RUN@RECIPE.")]
Recipe = Annotated[
    str | None, typer.Option(help="Whose trials, where the run holds several recipes.")
]


@app.command()
def nats(
    run: Run,
    out: Annotated[Path, typer.Argument(help="The folder to write; it must not exist.")],
    recipe: Recipe = None,
    published: Annotated[
        str | None,
        typer.Option(help="The ingested benchmark, to fill in what was not re-trained."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a NATS-Bench folder that nats_bench.create(OUT, 'tss', fast_mode=True) opens."""
    table = open_table(run, recipe=recipe)
    choice = (
        Choice(published=table)
        if published is None
        else Choice(published=open_table(published), retrained=table)
    )
    with progress() as display:
        task = display.add_task("cells", total=len(choice.cells))
        made = export_nats(choice, out, on_progress=lambda count: display.advance(task, count))
    row: dict[str, Value] = {"folder": str(made.path), "cells": made.cells, "missing": made.missing}
    print_rows([row], as_json=as_json)


@app.command("table")
def export_table(
    run: Run,
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file to write.")],
    recipe: Recipe = None,
) -> None:
    """Write the long table: index, dataset, split, epochs, seed, accuracy, loss, ..."""
    frame = open_table(run, recipe=recipe).frame()
    if out.suffix == ".csv":
        frame.to_csv(out, index=False)
    elif out.suffix == ".parquet":
        frame.to_parquet(out, index=False)
    else:
        raise InputError(f"OUT must end in .csv or .parquet, got {out}")
    typer.echo(f"{out}: {len(frame)} rows")
