"""``rebench surface``: what a learning-rate surface says about rules for the learning rate."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any

import pandas as pd
import typer

from rebench.cli.output import AsJson, Value, known, print_rows
from rebench.cli.study_options import Draws, Seed, Split
from rebench.errors import InputError, UnknownNameError
from rebench.recipes import BENCHMARK_LR
from rebench.report.surface import RULES, SurfaceAnswers, ask_surface
from rebench.tables.opening import read_rows

__all__ = ["app"]

app = typer.Typer()

_FRAMES = (
    *("rates", "edges", "gains", "reranking", "regrets", "curve", "predictions"),
    *("picks", "fits", "direct"),
)


@app.command()
def surface(
    table: Annotated[
        str, typer.Argument(help="A run or table with recipes fixed(lr=...) at many rates.")
    ],
    dataset: Annotated[
        str | None, typer.Option(help="Which data set, where there are several.")
    ] = None,
    split: Split = "ori-test",
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
    as_json: AsJson = False,
) -> None:
    """Print what cells' own learning rates gain, and how far each rule falls short of them.

    Rates are chosen on some seeds and scored on the others; intervals are 95 %, by bootstrap over
    functional classes.
    """
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
    if as_json:
        frames = {name: _plain(getattr(answers, name)) for name in _FRAMES}
        said = {"regression": answers.is_regression, "notes": answers.notes}
        typer.echo(json.dumps({**frames, **said}, indent=1, allow_nan=False))
        return
    _print(answers)


def _only(rows: pd.DataFrame, where: Sequence[str]) -> pd.DataFrame:
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
    found = answers.surface
    scored = "parts of a sample, by regression" if answers.is_regression else "seeds"
    typer.echo(
        f"{len(found.cells)} functional classes, {len(found.rates)} rates, {len(found.seeds)} "
        f"{scored}; {found.dataset}, {found.epochs} epochs\n"
    )
    for title, rows in (
        ("The surface", _rates(answers)),
        ("What the choice of the rate gains (percentage points)", _gains(answers)),
        ("How far it can re-rank cells: tau, and tau of seeds alone", _reranking(answers)),
        ("Rules beside the cells' own best rates: regret", _regrets(answers)),
        (
            "Scaled, or merely larger? Over the best constant, and that of equal mean",
            _constants(answers),
        ),
        (_prediction_title(answers), _predictions(answers)),
        ("Which cell a perfect search would pick", _picks(answers)),
        ("Best rates predicted for cells that the fit never saw", _fits(answers)),
        ("The surface beside recipes trained directly", _direct(answers)),
    ):
        if rows:
            print_rows(rows, as_json=False, title=title)
            typer.echo("")
    for note in answers.notes:
        typer.echo(note, err=True)


def _rates(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "rate": row["rate"],
            "mean accuracy": f"{row['accuracy']:.2f}",
            "best for cells": row["best_for"],
            "tau between seeds": _number(row["tau"]),
            "sd of a run": _number(row["seed_sd"]),
        }
        for row in _records(answers.rates)
    ]


def _gains(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "choice": row["of"],
            "over": row["over"],
            "top %": row["top_percent"],
            "cells": row["n_cells"],
            "gain": _number(row["gain"]),
            "95 %": _span(row, "gain"),
            "at most": _number(row["in_sample"]),
        }
        for row in _records(answers.gains)
    ]


def _reranking(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "ranking": row["before"],
            "against": row["after"],
            "top %": row["top_percent"],
            "tau": _number(row["tau"]),
            "seeds": _number(row["noise"]),
            "less": _number(row["reranked"]),
            "95 %": _span(row, "reranked"),
        }
        for row in _records(answers.reranking)
    ]


def _regrets(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "rule": row["rule"],
            "base": row["base"],
            "mean rate": f"{row['mean_rate']:.3g}",
            "regret": _number(row["regret"]),
            "95 %": _span(row, "regret"),
            "outside": f"{row['outside']:.0%}",
        }
        for row in _records(answers.regrets)
    ]


def _constants(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "rule": row["rule"],
            "base": row["base"],
            "over best": _number(row["over_constant"]),
            "95 %": _span(row, "over_constant"),
            "over mean": _number(row["over_same_mean"]),
            "its 95 %": _span(row, "over_same_mean"),
        }
        for row in _records(answers.regrets)
        if row["rule"] != "constant"
    ]


def _prediction_title(answers: SurfaceAnswers) -> str:
    spread = "" if answers.predictions.empty else answers.predictions["octaves_constant"].iloc[0]
    constant = f" (one rate for all: {spread:.2f} octaves off)" if spread else ""
    return f"Best rates as rules predict them{constant}"


def _predictions(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "rule": row["rule"],
            "slope": _number(row["slope"]),
            "95 %": _span(row, "slope"),
            "octaves off": _number(row["octaves"]),
            "explained": _number(row["explained"]),
            "its 95 %": _span(row, "explained"),
        }
        for row in _records(answers.predictions)
    ]


def _picks(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "rate": row["rate_of"],
            "cell": row["cell"],
            "at rate": f"{row['rate']:.3g}",
            "accuracy": f"{row['accuracy']:.2f}",
            "different picks": row["cells"],
        }
        for row in _records(answers.picks)
    ]


def _fits(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "predictors": row["predictors"],
            "octaves off": _number(row["octaves"]),
            "constant": _number(row["octaves_constant"]),
            "gain over constant": _number(row["gain"]),
            "95 %": _span(row, "gain"),
        }
        for row in _records(answers.fits)
    ]


def _direct(answers: SurfaceAnswers) -> list[dict[str, Value]]:
    return [
        {
            "recipe": row["recipe"],
            "cells": row["n_cells"],
            "trained": _number(row["trained"]),
            "on the surface": _number(row["interpolated"]),
            "difference": _number(row["difference"]),
            "95 %": f"{row['low']:.2f} to {row['high']:.2f}",
        }
        for row in _records(answers.direct)
    ]


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _plain(frame: pd.DataFrame) -> list[dict[str, Value]]:
    return [
        {name: known(_rounded(value)) for name, value in row.items()} for row in _records(frame)
    ]


def _rounded(value: Any) -> Value:
    # Bootstrap sums of the same numbers differ in their last bits; 0.0 has no minus.
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def _number(value: float) -> str | None:
    return f"{round(value, 2) + 0.0:.2f}" if math.isfinite(value) else None


def _span(row: dict[str, Any], name: str) -> str | None:
    low, high = _number(row[f"{name}_low"]), _number(row[f"{name}_high"])
    return None if low is None or high is None else f"{low} to {high}"
