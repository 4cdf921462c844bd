"""``rebench benchmark``: others' published files to one table, and one cell of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli.output import AsJson, Force, Value, print_rows, progress, refuse_existing
from rebench.errors import InputError, MissingDataError
from rebench.surfaces.catalogue import PUBLISHED, SURFACES

if TYPE_CHECKING:
    from rebench.surfaces import Ingested as IngestedSurface
    from rebench.tables import Table

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The benchmark's published results as one table.")

Published = Annotated[
    str | None,
    typer.Option(envvar="REBENCH_BENCHMARK", help="The ingested benchmark, or any other table."),
]


@app.command()
def ingest(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[SURFACE] SRC OUT",
            help="SRC: NATS-tss-v1_0-*-simple or -full (folder or .tar), or a .csv or .parquet; "
            f"after SURFACE ({', '.join(SURFACES)}) the folder of its files. OUT: the table.",
        ),
    ],
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    curves: Annotated[bool, typer.Option(help="Also write the per-epoch curves beside it.")] = True,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of a CSV of means: after how many (default: 200).")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read the files of NATS-Bench, or of a published learning-rate surface, into one table.

    Interrupted, NATS-Bench's goes on where it stopped.
    """
    from rebench.nats.ingest import ingest as ingest_files
    from rebench.surfaces import ingest as ingest_surface

    if len(arguments) not in (2, 3):
        raise InputError(f"ingest takes [SURFACE] SRC OUT, got {len(arguments)} arguments")
    source, out = map(Path, arguments[-2:])
    refuse_existing(out, force)
    if len(arguments) == 3:
        if jobs is not None or epochs is not None or not curves:
            raise InputError(
                f"--jobs, --epochs and --no-curves are for NATS-Bench's files, got {arguments[0]}"
            )
        _print_surface(ingest_surface(arguments[0], source, out), as_json=as_json)
        return
    with progress() as display:
        task = display.add_task("cells", total=None)
        made = ingest_files(
            source,
            out,
            jobs=jobs,
            curves=curves,
            epochs=epochs,
            on_start=lambda total: display.update(task, total=total),
            on_progress=lambda count: display.advance(task, count),
        )
    if as_json:
        row: dict[str, Value] = {
            "table": str(made.path),
            "curves": str(made.curves) if made.curves else None,
            "cells": made.cells,
            "missing": made.missing,
            "rows": made.rows,
        }
        print_rows([row], as_json=True)
        return
    typer.echo(f"{made.path}: {made.cells} cells, {made.rows} rows")
    if made.curves:
        typer.echo(f"{made.curves}: their curves")
    if made.missing:
        typer.echo(f"{made.missing} of the 15625 cells are not in {source}: absent from the table")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help=f"What: {', '.join(PUBLISHED)}.")],
    folder: Annotated[Path, typer.Argument(help="Where to.")],
    url: Annotated[
        str | None, typer.Option(help="Another address of the same file, such as a mirror.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download what others have published, or say how people can. Interrupted, it goes on."""
    from rebench.surfaces import fetch as fetch_published

    with progress() as display:
        task = display.add_task("bytes", total=None)
        got = fetch_published(
            name,
            folder,
            url=url,
            on_progress=lambda done, total: display.update(task, completed=done, total=total),
        )
    if as_json:
        row: dict[str, Value] = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in dataclasses.asdict(got).items()
        }
        print_rows([row], as_json=True)
        return
    resumed = f", {got.resumed_at} of them from an earlier try" if got.resumed_at else ""
    typer.echo(f"{got.path}: {got.bytes} bytes{resumed}; SHA-256 {got.sha256}")
    typer.echo(f"{PUBLISHED[name].cite}; {PUBLISHED[name].licence}")


def _print_surface(made: IngestedSurface, *, as_json: bool) -> None:
    if as_json:
        row = {name: value for name, value in dataclasses.asdict(made).items() if name != "path"}
        print_rows([{"table": str(made.path), **row}], as_json=True)
        return
    typer.echo(
        f"{made.path}: {made.cells} cells, {made.rates} rates, {made.runs} runs; ask it with "
        f"`rebench surface {made.path}`"
    )


@app.command()
def show(
    cell: Annotated[str, typer.Argument(help="An index, an architecture string or a code.")],
    published: Published = None,
    table: Annotated[str | None, typer.Option("--table", hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Show all accuracies of one cell: mean over its n seeds, standard deviation, rank."""
    from cells import Cell
    from rebench.tables import cell_index, open_table

    name = table or published
    if name is None:
        raise InputError("name the benchmark's table: --published TABLE, or REBENCH_BENCHMARK")
    opened = open_table(name)
    index = cell_index(cell)
    rows: list[dict[str, Value]] = []
    for key in opened.keys:
        if opened.group(*key).n[index]:
            summary = dataclasses.asdict(opened.query(index, *key))
            del summary["index"]
            rows.append(summary | _cost(opened, index, key.dataset, key.epochs))
    if not rows:
        raise MissingDataError(f"{opened.name} holds nothing of cell {index}")
    print_rows(
        rows, as_json=as_json, title=f"cell {index}, {Cell.from_index(index)}, in {opened.name}"
    )


def _cost(table: Table, index: int, dataset: str, epochs: int) -> dict[str, Value]:
    cost = table.cost(index, dataset, epochs)
    return {"params_m": cost.params_m, "mflops": cost.mflops}
