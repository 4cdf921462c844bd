"""``rebench rank``: how far recipes move the ranking, beside what seed noise alone would do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, get_args

import typer

from rebench.analysis import TOP_PERCENT, Reranking, verdict
from rebench.analysis.ranks import Selection
from rebench.cli.output import AsJson, Value, print_rows
from rebench.errors import InputError
from rebench.report.study import study

__all__ = ["app"]

app = typer.Typer()

Run = Annotated[Path, typer.Argument(help="A run's folder, or a table of re-trained results.")]
Published = Annotated[
    Path | None,
    typer.Option(envvar="REBENCH_BENCHMARK", help="The ingested benchmark, to compare with."),
]


@app.command()
def rank(
    run: Run,
    published: Published = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Which data sets; repeatable.")] = None,
    recipe: Annotated[list[str] | None, typer.Option(help="Which recipes; repeatable.")] = None,
    against: Annotated[
        str | None, typer.Option(help="benchmark, or a recipe of the run (mup, say).")
    ] = None,
    split: Annotated[str, typer.Option(help="Where accuracies are measured.")] = "ori-test",
    epochs: Annotated[int | None, typer.Option(min=1, help="Of the run's trials.")] = None,
    top: Annotated[str, typer.Option(help="Percentages K, comma-separated.")] = ",".join(
        f"{percent:g}" for percent in TOP_PERCENT
    ),
    by: Annotated[
        str, typer.Option(help="Whose top K %: benchmark, retrained or either.")
    ] = "benchmark",
    draws: Annotated[int, typer.Option(min=0, help="Bootstrap draws and simulated runs.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print Kendall's tau at each top K %, its interval, and the tau of seed noise alone."""
    found = study(
        run,
        published=published,
        datasets=dataset or (),
        recipes=recipe or (),
        against=against,
        split=split,
        epochs=epochs,
        top_percent=_percentages(top),
        by=_selection(by),
        draws=draws,
        seed=seed,
    )
    if as_json:
        rows = [
            {"dataset": one.dataset, "recipe": one.pairing.after_name, **row}
            | {"against": one.pairing.before_name}
            for one in found.rerankings
            for row in _rows(one)
        ]
        print_rows(rows, as_json=True)
        return
    for one in found.rerankings:
        print_rows(_shown(one), as_json=False, title=one.name)
        typer.echo(verdict(one) + "\n")
    for note in dict.fromkeys([*found.notes, *(n for one in found.rerankings for n in one.notes)]):
        typer.echo(note, err=True)


def _rows(found: Reranking) -> list[dict[str, Value]]:
    columns = ["top_percent", "n_cells", "tau", "tau_low", "tau_high", "spearman", "weighted_tau"]
    columns += ["null_tau", "null_low", "null_high", "effect", "p_value", "p_family"]
    shown = found.curve[[name for name in columns if name in found.curve]]
    return [
        {str(name): _value(value) for name, value in row.items()}
        for row in shown.to_dict(orient="records")
    ]


def _shown(found: Reranking) -> list[dict[str, Value]]:
    """Return the curve in few columns: intervals beside their values."""
    rows = []
    for row in _rows(found):
        line: dict[str, Value] = {"top %": row["top_percent"], "cells": row["n_cells"]}
        if row["tau"] is None:
            line |= {"tau": "too few", "95 %": None}
        else:
            line |= {"tau": f"{row['tau']:.3f}", "95 %": _span(row["tau_low"], row["tau_high"])}
        if "null_tau" in row:
            known = row["null_tau"] is not None
            line |= {
                "noise alone": f"{row['null_tau']:.3f}" if known else None,
                "its 95 %": _span(row["null_low"], row["null_high"]),
                "p": row["p_value"],
                "p, all K": row["p_family"],
            }
        rows.append(line)
    return rows


def _span(low: Value, high: Value) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _value(value: float) -> Value:
    if not math.isfinite(value):
        return None  # too few cells
    return int(value) if float(value).is_integer() and abs(value) > 1 else round(float(value), 4)


def _percentages(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--top takes percentages like 100,50,10, got {text!r}") from error


def _selection(name: str) -> Selection:
    for known in get_args(Selection):
        if name == known:
            selection: Selection = known
            return selection
    raise InputError(f"--by must be benchmark, retrained or either, got {name!r}")
