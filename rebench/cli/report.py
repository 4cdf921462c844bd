"""``rebench report``: one self-contained page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebench.analysis.choices import Choices
from rebench.cli.options import takes
from rebench.cli.output import AsJson, Force, console, print_rows, refuse_existing, warn
from rebench.cli.study_options import Run, choices

__all__ = ["app"]

app = typer.Typer()


@app.command()
@takes(chosen=choices)
def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write into; RUN/report by default.")
    ] = None,
    *,
    chosen: Choices,
    theory: Annotated[
        Path | None, typer.Option(help="Folder of `rebench theory --out`: adds its verdicts.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and the figures (PDF, SVG, PNG, CSV) of a run."""
    from rebench.analysis import study
    from rebench.report import write_report
    from rebench.report.surface import surfaces_of
    from rebench.tables.opening import read_rows

    folder = out or _beside(Path(run))
    refuse_existing(folder / "report.html", force)
    with console().status("Comparing and drawing ..."):
        found = study(run, chosen)
        surfaces, unasked = surfaces_of(
            read_rows(run),
            split=found.choices.split,
            epochs=chosen.epochs,
            draws=chosen.draws,
            seed=chosen.seed,
        )
        written = write_report(found, folder, theory=theory, surfaces=surfaces)
    for line in unasked:
        warn(line)
    row = {
        "html": str(written.html),
        "markdown": str(written.markdown),
        "figures": str(written.figures),
    }
    print_rows([row], as_json=as_json)


def _beside(run: Path) -> Path:
    return run / "report" if run.is_dir() else run.with_name(f"{run.stem}-report")
