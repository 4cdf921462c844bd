"""``rebench report``: one self-contained page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.analysis import study
from rebench.cli.output import AsJson, Force, console, print_rows, refuse_existing
from rebench.cli.study_options import (
    ALL_TOP,
    Against,
    By,
    Datasets,
    Draws,
    Epochs,
    Published,
    Recipes,
    Run,
    Seed,
    Split,
    Top,
    choices,
)
from rebench.report import write_report
from rebench.report.surface import surfaces_of
from rebench.tables.opening import read_rows

__all__ = ["app"]

app = typer.Typer()


@app.command()
def report(
    run: Run,
    published: Published = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; RUN/report by default.")
    ] = None,
    dataset: Datasets = None,
    recipe: Recipes = None,
    against: Against = None,
    split: Split = "ori-test",
    epochs: Epochs = None,
    top: Top = ALL_TOP,
    by: By = "benchmark",
    draws: Draws = 1000,
    seed: Seed = 0,
    theory: Annotated[
        Path | None, typer.Option(help="Folder of `rebench theory --out`: adds its verdicts.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and the figures (PDF, SVG, PNG, CSV) of a run."""
    folder = out or _beside(Path(run))
    refuse_existing(folder / "report.html", force)
    with console().status("Comparing and drawing ..."):
        found = study(
            run,
            choices(published, dataset, recipe, against, split, epochs, top, by, draws, seed),
        )
        surfaces = surfaces_of(read_rows(run), split=split, epochs=epochs, draws=draws, seed=seed)
        written = write_report(found, folder, theory=theory, surfaces=surfaces)
    row = {
        "html": str(written.html),
        "markdown": str(written.markdown),
        "figures": str(written.figures),
    }
    print_rows([row], as_json=as_json)


def _beside(run: Path) -> Path:
    return run / "report" if run.is_dir() else run.with_name(f"{run.stem}-report")
