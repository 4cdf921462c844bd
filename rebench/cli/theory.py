"""``rebench theory``: each law measured, with its table, its figure and its data."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pandas as pd
import typer

from rebench.cli.output import AsJson, Value, print_rows, progress
from rebench.figures.theory import draw_law
from rebench.report.theory import theory_page
from rebench.theory import LawResult, Pieces, alignment, load_verdicts, verdict_table
from rebench.theory import am_mup as am_mup_law
from rebench.theory import dag as dag_law
from rebench.theory import depth as depth_law
from rebench.theory.sharing import pieces_of, share_work

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The laws behind the recipes, measured.")

Quick = Annotated[bool, typer.Option("--quick", help="Small sizes, under a minute.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for the figure, its data and finished pieces: a rerun resumes."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every draw.")]
Workers = Annotated[
    int, typer.Option(min=1, help="Processes that share the work, one thread each; needs --out.")
]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of data sets.")]

Settings = TypeVar("Settings")


@app.command()
def depth(
    quick: Quick = False,
    out: Out = None,
    workers: Workers = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Depth law: one step's update grows like L^3, so the learning rate falls like L^-3/2."""
    settings = dataclasses.replace(depth_law.QUICK if quick else depth_law.FULL, seed=seed)
    _run(depth_law.measure_depth_law, settings, out, workers, as_json)


@app.command()
def dag(
    quick: Quick = False,
    out: Out = None,
    workers: Workers = 1,
    seed: Seed = 0,
    data: Annotated[
        str | None, typer.Option(help="Data set; Fashion-MNIST if it is here, else digits.")
    ] = None,
    data_root: DataRoot = None,
    only: Annotated[
        list[str] | None, typer.Option(help="An experiment to search; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Architecture-aware rule: init, one step, kernels, and maximal rates of one epoch."""
    settings = dataclasses.replace(
        dag_law.QUICK if quick else dag_law.FULL, dataset=data, data_root=data_root, seed=seed
    )
    if only:
        settings = dataclasses.replace(settings, only=tuple(only))
    _run(dag_law.measure_dag_law, settings, out, workers, as_json)


@app.command()
def bafu(
    quick: Quick = False,
    out: Out = None,
    workers: Workers = 1,
    seed: Seed = 0,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Backward-aligned feature updates: the identity, alignment with depth, training control."""
    settings = dataclasses.replace(
        alignment.QUICK if quick else alignment.FULL, data_root=data_root, seed=seed
    )
    _run(alignment.measure_alignment_law, settings, out, workers, as_json)


@app.command("am-mup")
def am_mup(
    quick: Quick = False,
    out: Out = None,
    workers: Workers = 1,
    seed: Seed = 0,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """AM-muP: the network-wide mean update of CNNs and ResNets, and transfer across depth."""
    settings = dataclasses.replace(
        am_mup_law.QUICK if quick else am_mup_law.FULL, data_root=data_root, seed=seed
    )
    _run(am_mup_law.measure_am_mup_law, settings, out, workers, as_json)


@app.command()
def verdicts(
    folder: Annotated[Path, typer.Argument(help="A folder that --out wrote.")],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page of tables and figures instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the verdicts of every law measured into a folder."""
    if markdown:
        typer.echo(theory_page(folder), nl=False)
        return
    rows = _rows(load_verdicts(folder))
    if as_json:
        print_rows(rows, as_json=True)
    else:
        _print_verdicts(rows)


def _run(
    measure: Callable[[Settings, Pieces], LawResult],
    settings: Settings,
    out: Path | None,
    workers: int,
    as_json: bool,
) -> None:
    with progress() as bar, share_work(measure, settings, out, workers):
        task = bar.add_task("measuring", total=None)
        pieces = Pieces(
            pieces_of(out) if out else None,
            lambda done, expected: bar.update(task, completed=done, total=expected),
        )
        result = measure(settings, pieces)
    if as_json:
        frames = {"verdicts": verdict_table(result.verdicts), **result.tables}
        listed = {name: _rows(frame) for name, frame in frames.items()}
        typer.echo(json.dumps(listed, indent=1, allow_nan=False))
    else:
        for name, frame in result.tables.items():
            print_rows(_rows(frame, digits=4), as_json=False, title=f"{result.law}: {name}")
            typer.echo()
        _print_verdicts(_rows(verdict_table(result.verdicts)))
    if out is not None:
        for path in [*result.save(out), *draw_law(result, out)]:
            typer.echo(f"wrote {path}", err=True)


def _print_verdicts(rows: list[dict[str, Value]]) -> None:
    law = None
    for row in rows:
        if row["law"] != law:
            law = row["law"]
            typer.echo(f"{law}")
        paper = "no figure" if row["paper"] is None else f"{row['paper']:.3g}"
        ours = f"{row['ours']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
        typer.echo(f"  {row['quantity']}: paper {paper}, ours {ours}")
        typer.echo(f"    {row['verdict']} ({row['settings']})")


def _rows(frame: pd.DataFrame, digits: int = 15) -> list[dict[str, Value]]:
    """Return JSON-ready rows: nan as None, floats to significant digits."""
    return [
        {str(name): _rounded(value, digits) for name, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def _rounded(value: Value, digits: int) -> Value:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
