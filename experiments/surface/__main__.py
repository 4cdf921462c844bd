"""``python -m experiments.surface TABLE``: rules for the learning rate, scored on a surface."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from experiments.surface.answers import SurfaceAnswers, ask_surface
from experiments.surface.page import surface_tables, surface_title, write_surface
from experiments.surface.recipe_rates import RULES
from rebench.cli import options
from rebench.cli.app import main as run
from rebench.cli.groups import App
from rebench.cli.output import print_json, print_rows, say
from rebench.errors import InputError, UnknownNameError
from rebench.recipes import BENCHMARK_LR
from rebench.tables.opening import read_rows

__all__ = ["main"]

app = App()


@app.command()
def surface(
    table: options.TableName,
    dataset: options.Dataset = None,
    split: options.Split = None,
    epochs: options.Epochs = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows with COLUMN=VALUE, such as batch_size=256; repeatable."),
    ] = None,
    reference: Annotated[
        float | None,
        typer.Option(help="Reference rate for comparisons (default: the benchmark's)."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Recipes whose rate follows from the graph; repeatable."),
    ] = None,
    draws: options.Draws = 1000,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for a page with the figure: surface.html and .md.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the gain of cells from their own learning rates, and the gain that each rule misses.

    Rates are chosen on some seeds and scored on the others. Intervals are 95 %, by a bootstrap over
    functional classes.

    Example: python -m experiments.surface mini
    """
    if out is not None:
        options.refuse_existing(out / "surface.html", force)
    rows = _only(read_rows(table), where or ())
    answers = ask_surface(
        rows,
        dataset=dataset,
        split=split,
        epochs=epochs,
        reference=BENCHMARK_LR if reference is None else reference,
        rules=rule or RULES,
        draws=draws,
        seed=seed,
    )
    if out is not None:
        write_surface(answers, table, out)
    if as_json:
        # Rounded, because the last bits of bootstrap sums can differ between calls.
        frames = {name: frame.round(9) for name, frame in answers.frames.items()}
        print_json(frames | {"notes": answers.notes})
        return
    _print(answers)


def _only(rows: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--where takes COLUMN=VALUE, got {text!r}")
        if name not in rows:
            raise UnknownNameError("column of this table", name, list(map(str, rows.columns)))
        texts = rows[name].astype(str)
        if value not in set(texts):
            raise UnknownNameError(f"{name} in this table", value, texts.unique())
        rows = rows[texts == value]
    return rows


def _print(answers: SurfaceAnswers) -> None:
    say(f"{surface_title(answers)}\n")
    for title, table in surface_tables(answers).items():
        print_rows(table, as_json=False, title=title)
        typer.echo("")
    for note in answers.notes:
        say(note, err=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 something failed, 2 bad input."""
    return run(arguments, app, "python -m experiments.surface")


if __name__ == "__main__":
    sys.exit(main())
