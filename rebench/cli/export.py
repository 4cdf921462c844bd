"""``rebench export``: a run's results for other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli import completion
from rebench.cli.options import takes
from rebench.cli.output import AsJson, Force, Value, print_rows, progress, refuse_existing
from rebench.cli.study_options import Run
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.nats.about import Exported

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="A run's results for other programs.")

Out = Annotated[Path, typer.Argument(help="The folder or file to write.")]
Recipe = Annotated[
    str | None,
    typer.Option(
        help="Whose trials, where the run holds several recipes.",
        autocompletion=completion.recipes_of,
    ),
]
Published = Annotated[
    str | None,
    typer.Option(help="The ingested benchmark, to fill in what was not re-trained."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exporting:
    """What is exported, and where to: arguments and options of the commands for other packages."""

    run: Run
    out: Out
    recipe: Recipe = None
    published: Published = None
    force: Force = False
    as_json: AsJson = False

    def write(self, export: Callable[..., Exported], **wishes: object) -> None:
        """Call the function that writes it, with its own wishes; print what was written."""
        from rebench.nats.choice import Choice
        from rebench.tables import open_table

        refuse_existing(self.out, self.force)
        table = open_table(self.run, recipe=self.recipe)
        if self.published is not None:
            choice = Choice(published=open_table(self.published), retrained=table)
        elif table.origin == "retrained":
            choice = Choice(retrained=table)
        else:
            choice = Choice(published=table)
        with progress() as display:
            task = display.add_task("cells", total=len(choice.cells))
            made = export(
                choice,
                self.out,
                force=self.force,
                on_progress=lambda count: display.advance(task, count),
                **wishes,
            )
        row: dict[str, Value] = {
            "out": str(made.path),
            "cells": made.cells,
            "missing": made.missing,
        }
        print_rows([row], as_json=self.as_json)


@app.command()
@takes(what=_Exporting)
def nats(
    what: _Exporting,
    one_file: Annotated[
        bool, typer.Option("--one-file", help="One .pickle.pbz2, for fast_mode=False.")
    ] = False,
) -> None:
    """Write a NATS-Bench folder that nats_bench.create(OUT, 'tss', fast_mode=True) opens."""
    from rebench.nats.export import export_nats

    if one_file and not what.out.name.endswith(".pickle.pbz2"):
        raise InputError(f"nats_bench opens one file by its end .pickle.pbz2, got {what.out}")
    what.write(export_nats, one_file=one_file)


@app.command("nas-bench-201")
@takes(what=_Exporting)
def nas_bench_201(what: _Exporting) -> None:
    """Write a .pth file that nas_201_api.NASBench201API(OUT) opens, at 12 and 200 epochs."""
    from rebench.nats.pth import export_pth

    what.write(export_pth)


@app.command("naslib", help="Write NASLib's pickles, one a data set, to lie in its folder data.")
@app.command("syne-tune", help="Write a folder that Syne Tune opens as a tabular blackbox.")
@takes(what=_Exporting)
def for_others(
    context: typer.Context,
    what: _Exporting,
    epochs: Annotated[int, typer.Option(help="The length of the training to export.", min=1)] = 200,
) -> None:
    """Write what another library opens, of one length of training."""
    from rebench.nats.naslib import export_naslib
    from rebench.nats.synetune import export_syne_tune

    export = export_naslib if context.command.name == "naslib" else export_syne_tune
    what.write(export, epochs=epochs)


@app.command("table")
def export_table(run: Run, out: Out, recipe: Recipe = None, force: Force = False) -> None:
    """Write the long table, .csv or .parquet: index, dataset, split, epochs, seed, accuracy, ..."""
    import pyarrow as pa

    from rebench.tables import open_table
    from rebench.tables.parquet import write_parquet

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


@app.command("curves")
def export_curves(run: Run, out: Out, recipe: Recipe = None, force: Force = False) -> None:
    """Write every trial's curves, .csv: trial_id, index, ..., split, epoch, what, value."""
    from rebench.store import atomic_file
    from rebench.tables.opening import read_curves

    refuse_existing(out, force)
    if out.suffix != ".csv":
        raise InputError(f"OUT must end in .csv, got {out}")
    pieces = read_curves(run, recipe=recipe)
    rows = 0
    with atomic_file(out) as unfinished, progress() as display:
        task = display.add_task("rows", total=None)
        for piece in pieces:
            piece.to_csv(unfinished, mode="a", header=not rows, index=False)
            rows += len(piece)
            display.update(task, completed=rows)
    typer.echo(f"{out}: {rows} rows")


@app.command("tensorboard")
def export_tensorboard(run: Run, out: Out, recipe: Recipe = None) -> None:
    """Write event files, one folder a trial, that `tensorboard --logdir OUT` shows."""
    from rebench.nats.tensorboard import write_events
    from rebench.tables.opening import read_curves

    if out.exists():
        raise InputError(f"{out} exists, and TensorBoard would draw both; give another name")
    pieces = read_curves(run, recipe=recipe)
    with progress() as display:
        task = display.add_task("trials", total=None)
        trials = write_events(pieces, out, on_progress=lambda: display.advance(task))
    typer.echo(f"{out}: {trials} trials; tensorboard --logdir {out}")
