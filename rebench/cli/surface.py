"""``rebench surface``: what a learning-rate surface says about rules for the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebench.cli.output import AsJson, Force, Value, print_json, print_rows, refuse_existing, say
from rebench.cli.study_options import Draws, Seed, Split
from rebench.errors import InputError, UnknownNameError
from rebench.recipes.reference import BENCHMARK_LR

if TYPE_CHECKING:
    import pandas as pd

    from rebench.report.surface import SurfaceAnswers

__all__ = ["app"]

app = typer.Typer()


@app.command()
def surface(
    table: Annotated[
        str, typer.Argument(help="A run or table with recipes fixed(lr=...) at many rates.")
    ],
    dataset: Annotated[
        str | None, typer.Option(help="Which data set, where there are several.")
    ] = None,
    split: Split = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="After how many epochs (default: the most).")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only rows with COLUMN=VALUE, such as batch_size=256; repeatable."),
    ] = None,
    reference: Annotated[
        float, typer.Option(help="The rate that others are compared with.")
    ] = BENCHMARK_LR,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Recipes whose rate follows from the graph; repeatable."),
    ] = None,
    draws: Draws = 1000,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for a page with the figure: surface.html and .md.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Print what cells' own learning rates gain, and how far each rule falls short of them.

    Rates are chosen on some seeds and scored on the others; intervals are 95 %, by bootstrap over
    functional classes.
    """
    from rebench.report.recipe_rates import RULES
    from rebench.report.surface import ask_surface
    from rebench.report.write import write_surface
    from rebench.tables.opening import read_rows

    if out is not None:
        refuse_existing(out / "surface.html", force)
    rows = _only(read_rows(table), where or ())
    answers = ask_surface(
        rows,
        dataset=dataset,
        split=split,
        epochs=epochs,
        reference=reference,
        rules=rule or RULES,
        draws=draws,
        seed=seed,
    )
    if out is not None:
        write_surface(answers, table, out)
    if as_json:
        frames = {name: _plain(frame) for name, frame in answers.frames.items()}
        said = {"regression": answers.is_regression, "notes": answers.notes}
        print_json(frames | said)
        return
    _print(answers)


def _only(rows: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--where takes COLUMN=VALUE, got {text!r}")
        if name not in rows:
            raise UnknownNameError("column of this table", name, list(map(str, rows.columns)))
        numeric = pd.api.types.is_numeric_dtype(rows[name])
        try:
            chosen = rows[name] == (float(value) if numeric else value)
        except ValueError as error:
            raise InputError(f"--where {name} takes a number, got {value!r}") from error
        if not chosen.any():
            raise UnknownNameError(f"{name} in this table", value, rows[name].astype(str).unique())
        rows = rows[chosen]
    return rows


def _print(answers: SurfaceAnswers) -> None:
    from rebench.report.surface_page import surface_title
    from rebench.report.surface_tables import records, surface_tables

    typer.echo(f"{surface_title(answers)}\n")
    for title, table in surface_tables(answers).items():
        print_rows(records(table), as_json=False, title=title)
        typer.echo("")
    for note in answers.notes:
        say(note, err=True)


def _plain(frame: pd.DataFrame) -> list[dict[str, Value]]:
    from rebench.report.surface_tables import records

    return [{name: _rounded(value) for name, value in row.items()} for row in records(frame)]


def _rounded(value: Any) -> Value:
    # Bootstrap sums of the same numbers differ in their last bits; 0.0 has no minus.
    return round(value, 9) + 0.0 if isinstance(value, float) else value
