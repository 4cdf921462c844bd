"""``rebench rank``: how far rankings move, beside what seed noise alone would do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rebench.analysis.choices import Choices
from rebench.cli.options import takes
from rebench.cli.output import (
    LEVEL,
    AsJson,
    Force,
    Value,
    frame_rows,
    print_json,
    print_rows,
    refuse_existing,
    say,
)
from rebench.cli.study_options import Run, choices
from rebench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

if TYPE_CHECKING:
    from rebench.analysis import Reranking

__all__ = ["app"]

app = typer.Typer()


@app.command()
@takes(chosen=choices)
def rank(
    run: Run,
    chosen: Choices,
    across: Annotated[
        Literal["recipes", "datasets"] | None,
        typer.Option(help="Compare all recipes, or all data sets, of the table with each other."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="With --across: save the heat map; no suffix.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Print Kendall's tau at each top K %, its interval, and the tau of seed noise alone.

    Every recipe is compared with the run's own nb201 and with the published table; with --across,
    everything with everything, of which --dataset and --recipe choose.
    """
    from rebench.analysis import study, verdict

    if across is not None:
        if figure is not None:
            refuse_existing(figure.with_name(f"{figure.name}.pdf"), force)
        _print_matrices(run, across, chosen, figure, as_json=as_json)
        return
    if figure is not None:
        raise InputError("--figure draws the heat map of --across recipes or --across datasets")
    found = study(run, chosen)
    if as_json:
        rows = [
            {"dataset": one.dataset, "recipe": one.after.name, **row}
            | {"against": one.before.name, "differs_by": one.contrast}
            | {"p_adjusted": one.p_adjusted, "comparisons": one.comparisons}
            | {"n_classes": int(one.improvement["n_classes"])}
            for one in found.rerankings
            for row in _rows(one)
        ]
        print_rows(rows, as_json=True)
        return
    for one in found.rerankings:
        print_rows([_shown(row) for row in _rows(one)], as_json=False, title=one.name)
        say(verdict(one) + "\n", style="green" if one.p_judged <= LEVEL else "")
    for note in dict.fromkeys([*found.notes, *(n for one in found.rerankings for n in one.notes)]):
        say(note, err=True)


def _print_matrices(
    run: str,
    across: Literal["recipes", "datasets"],
    chosen: Choices,
    figure: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print how every two recipes or data sets rank the cells."""
    import numpy as np

    from rebench.analysis.matrix import read_rankings, tau_matrix
    from rebench.tables.opening import read_rows

    if chosen.against is not None:
        raise InputError("--across compares what one table holds: leave --against out")
    tables = read_rankings(
        read_rows(run),
        across,
        datasets=chosen.datasets,
        recipes=chosen.recipes,
        split=chosen.split,
        epochs=chosen.epochs,
    )
    of = "dataset" if across == "recipes" else "recipe"
    page: list[dict[str, Value]] = []
    for number, (shared, rankings) in enumerate(tables.items()):
        found, notes = tau_matrix(
            rankings,
            chosen.top_percent,
            by=chosen.by,
            draws=chosen.draws,
            rng=np.random.default_rng([chosen.seed, number]),
        )
        whole = found[found["top_percent"] == max(chosen.top_percent)].dropna(subset=["tau"])
        names = [name for name in rankings if (whole[["first", "second"]] == name).any(axis=None)]
        if len(names) < len(rankings):
            alone = ", ".join(name for name in rankings if name not in names)
            notes += (f"{shared}: too few cells in common with any other: {alone}",)
        if as_json:
            page += [{of: shared, **row} for row in frame_rows(found)]
        elif names:
            _print_matrix(found, whole, names, shared)
        if figure is not None and names:
            from rebench.figures.matrix import draw_tau_matrix

            several = len(tables) > 1
            path = figure.with_name(f"{figure.name}-{number + 1}") if several else figure
            for written in draw_tau_matrix(whole, shared).save(path):
                say(f"wrote {written}", err=True)
        for note in notes:
            say(note, err=True)
    if as_json:
        print_json(page)


def _print_matrix(found: pd.DataFrame, whole: pd.DataFrame, names: list[str], shared: str) -> None:
    """Print two rankings at every top K %, more of them as a matrix of all cells."""
    if len(names) == 2:
        rows = [_shown(row) for row in _records(found)]
        print_rows(rows, as_json=False, title=f"{names[1]} against {names[0]}, {shared}")
        return
    cells: dict[tuple[str, str], str] = {}
    for row in _records(whole):
        one, other = str(row["first"]), str(row["second"])
        p_value = row.get("p_adjusted")
        star = "*" if isinstance(p_value, float) and p_value < LEVEL else ""
        cells[one, other] = _two_digits(row["tau"]) + star
        cells[other, one] = _two_digits(row.get("null_tau"))
    numbered: list[dict[str, Value]] = [
        {
            "no": at + 1,
            "ranking": name,
            **{str(place + 1): cells.get((name, other)) for place, other in enumerate(names)},
        }
        for at, name in enumerate(names)
    ]
    least, most = int(whole["n_cells"].min()), int(whole["n_cells"].max())
    shared += f", {least} cells" if least == most else f", {least} to {most} cells"
    print_rows(numbered, as_json=False, title=shared)
    say(
        "Above the diagonal tau, below it tau by seed noise alone; * less than noise explains at "
        f"5 %, adjusted for {len(whole)} pairs.\n"
    )


def _two_digits(value: Value) -> str:
    return f"{value:.2f}" if isinstance(value, float) and math.isfinite(value) else "-"


def _rows(found: Reranking) -> list[dict[str, Value]]:
    columns = ["top_percent", "n_cells", "tau", "tau_low", "tau_high", "spearman", "weighted_tau"]
    columns += ["null_tau", "null_low", "null_high", "effect", "p_value", "p_family"]
    return _records(found.curve[[name for name in columns if name in found.curve]])


def _records(frame: pd.DataFrame) -> list[dict[str, Value]]:
    return [{name: _rounded(value) for name, value in row.items()} for row in frame_rows(frame)]


def _shown(row: dict[str, Value]) -> dict[str, Value]:
    """Return a row of a curve in few columns: intervals beside their values."""
    line: dict[str, Value] = {"top %": row["top_percent"], "cells": row["n_cells"]}
    if row["tau"] is None:
        line |= {"tau": "too few", "95 %": None}
    else:
        line |= {"tau": f"{row['tau']:.3f}", "95 %": _span(row["tau_low"], row["tau_high"])}
    if "null_tau" in row:
        known = row["null_tau"] is not None
        line |= {
            "noise": f"{row['null_tau']:.3f}" if known else None,
            "its 95 %": _span(row["null_low"], row["null_high"]),
            "p": row["p_value"],
            "p, all K": row["p_family"],
        }
    return line


def _span(low: Value, high: Value) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _rounded(value: Value) -> Value:
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() and abs(value) > 1 else round(value, 4)
