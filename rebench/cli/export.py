"""``rebench export``: a run's results for other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import pyarrow as pa
import typer

from rebench.cli.output import AsJson, Force, Value, print_rows, progress, refuse_existing
from rebench.errors import InputError
from rebench.nats.about import Exported, OnProgress
from rebench.nats.choice import Choice
from rebench.tables import open_table
from rebench.tables.parquet import write_parquet

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="A run's results for other programs.")

Run = Annotated[str, typer.Argument(help="A run's folder, or any table; RUN@RECIPE.")]
Out = Annotated[Path, typer.Argument(help="The folder or file to write.")]
Recipe = Annotated[
    str | None, typer.Option(help="Whose trials, where the run holds several recipes.")
]
Published = Annotated[
    str | None,
    typer.Option(help="The ingested benchmark, to fill in what was not re-trained."),
]
Export: TypeAlias = Callable[[Choice, OnProgress], Exported]


@app.command()
def nats(
    run: Run,
    out: Out,
    one_file: Annotated[
        bool, typer.Option("--one-file", help="One .pickle.pbz2, for fast_mode=False.")
    ] = False,
    recipe: Recipe = None,
    published: Published = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a NATS-Bench folder that nats_bench.create(OUT, 'tss', fast_mode=True) opens."""
    from rebench.nats.export import export_nats

    if one_file and not out.name.endswith(".pickle.pbz2"):
        raise InputError(f"nats_bench opens one file by its end .pickle.pbz2, got {out}")
    _export(
        run, recipe, published, out, force, as_json,
        lambda choice, advance: export_nats(
            choice, out, one_file=one_file, force=force, on_progress=advance
        ),
    )  # fmt: skip


@app.command("nas-bench-201")
def nas_bench_201(
    run: Run,
    out: Out,
    recipe: Recipe = None,
    published: Published = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a .pth file that nas_201_api.NASBench201API(OUT) opens, at 12 and 200 epochs."""
    from rebench.nats.pth import export_pth

    _export(
        run, recipe, published, out, force, as_json,
        lambda choice, advance: export_pth(choice, out, force=force, on_progress=advance),
    )  # fmt: skip


@app.command("naslib", help="Write NASLib's pickles, one a data set, to lie in its folder data.")
@app.command("syne-tune", help="Write a folder that Syne Tune opens as a tabular blackbox.")
def for_others(
    context: typer.Context,
    run: Run,
    out: Out,
    epochs: Annotated[int, typer.Option(help="The length of the training to export.", min=1)] = 200,
    recipe: Recipe = None,
    published: Published = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write what another library opens, of one length of training."""
    from rebench.nats.naslib import export_naslib
    from rebench.nats.synetune import export_syne_tune

    export = export_naslib if context.command.name == "naslib" else export_syne_tune
    _export(
        run, recipe, published, out, force, as_json,
        lambda choice, advance: export(
            choice, out, epochs=epochs, force=force, on_progress=advance
        ),
    )  # fmt: skip


@app.command("table")
def export_table(run: Run, out: Out, recipe: Recipe = None, force: Force = False) -> None:
    """Write the long table, .csv or .parquet: index, dataset, split, epochs, seed, accuracy, ..."""
    refuse_existing(out, force)
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"OUT must end in .csv or .parquet, got {out}")
    frame = open_table(run, recipe=recipe).frame()
    if out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        write_parquet(out, [rows], rows.schema)
    typer.echo(f"{out}: {len(frame)} rows")


def _export(
    run: str,
    recipe: str | None,
    published: str | None,
    out: Path,
    force: bool,
    as_json: bool,
    export: Export,
) -> None:
    refuse_existing(out, force)
    table = open_table(run, recipe=recipe)
    if published is not None:
        choice = Choice(published=open_table(published), retrained=table)
    elif table.origin == "retrained":
        choice = Choice(retrained=table)
    else:
        choice = Choice(published=table)
    with progress() as display:
        task = display.add_task("cells", total=len(choice.cells))
        made = export(choice, lambda count: display.advance(task, count))
    row: dict[str, Value] = {"out": str(made.path), "cells": made.cells, "missing": made.missing}
    print_rows([row], as_json=as_json)
