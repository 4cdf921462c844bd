"""``rebench report``: one self-contained page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.cli.output import AsJson, console, print_rows
from rebench.cli.rank import Published, Run
from rebench.report import study, write_report

__all__ = ["app"]

app = typer.Typer()


@app.command()
def report(
    run: Run,
    published: Published = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; RUN/report by default.")
    ] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Which data sets; repeatable.")] = None,
    recipe: Annotated[list[str] | None, typer.Option(help="Which recipes; repeatable.")] = None,
    against: Annotated[
        str | None, typer.Option(help="benchmark, or a recipe of the run (mup, say).")
    ] = None,
    split: Annotated[str, typer.Option(help="Where accuracies are measured.")] = "ori-test",
    epochs: Annotated[int | None, typer.Option(min=1, help="Of the run's trials.")] = None,
    draws: Annotated[int, typer.Option(min=0, help="Bootstrap draws and simulated runs.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random draws.")] = 0,
    theory: Annotated[
        Path | None, typer.Option(help="Folder of `rebench theory --out`: adds its verdicts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and the figures (PDF, SVG, PNG, CSV) of a run."""
    folder = out or (run / "report" if run.is_dir() else run.with_name(f"{run.stem}-report"))
    with console().status("Comparing and drawing ..."):
        found = study(
            run,
            published=published,
            datasets=dataset or (),
            recipes=recipe or (),
            against=against,
            split=split,
            epochs=epochs,
            draws=draws,
            seed=seed,
        )
        written = write_report(found, folder, theory=theory)
    row = {
        "html": str(written.html),
        "markdown": str(written.markdown),
        "figures": str(written.figures),
    }
    print_rows([row], as_json=as_json)
