"""What a learning-rate surface says, as tables for a terminal and as blocks of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from rebench.figures.surface import draw_surface
from rebench.report.blocks import Block, Callout, Figure, Heading, Subtitle, Table, Text
from rebench.report.surface import SurfaceAnswers

__all__ = ["records", "surface_blocks", "surface_tables", "surface_title"]

_LIMITS: Final = (
    """These networks are small and were trained briefly. A rate's best value falls as training
    gets longer, and noise between seeds is larger in small data: the sign of an answer may carry
    over to the benchmark's networks, its size need not. The same commands answer on any surface,
    and each cell here is one of a functional class, so that equal networks do not count twice.""",
    """Only the learning rate differs between the columns of a surface. What a rule changes beside
    it (an initialisation, a rate for every layer) is asked by training with the rule: the last
    table.""",
    """A rate is chosen on some seeds and scored on the others. Intervals are 95 %, by bootstrap
    over functional classes.""",
)


def surface_title(answers: SurfaceAnswers) -> str:
    """Say in a line what the surface is made of."""
    found = answers.surface
    scored = "parts of a sample, by regression" if answers.is_regression else "seeds"
    return (
        f"{len(found.cells)} functional classes, {len(found.rates)} rates, {len(found.seeds)} "
        f"{scored}; {found.dataset}, {found.epochs} epochs"
    )


def surface_tables(answers: SurfaceAnswers) -> dict[str, pd.DataFrame]:
    """Return what was answered by its title, numbers as they are shown."""
    tables = {
        "The surface": _rates(answers),
        "What the choice of the rate gains (percentage points)": _gains(answers),
        "How far it can re-rank cells: tau, and tau of seeds alone": _reranking(answers),
        "Rules beside the cells' own best rates: regret": _regrets(answers),
        "Scaled, or merely larger? Over the best constant, and that of equal mean": _constants(
            answers
        ),
        _prediction_title(answers): _predictions(answers),
        "Which cell a perfect search would pick": _picks(answers),
        "Best rates predicted for cells that the fit never saw": _fits(answers),
        "The surface beside recipes trained directly": _direct(answers),
    }
    return {title: pd.DataFrame(rows, dtype=object) for title, rows in tables.items() if rows}


def surface_blocks(answers: SurfaceAnswers, figures: Path, *, stem: str = "surface") -> list[Block]:
    """Return the blocks of a page about a surface; its figure is saved in `figures`."""
    draw_surface(answers, figures / stem)
    return [
        Subtitle(surface_title(answers)),
        *_findings(answers),
        Figure(
            figures / stem,
            "(a) Every cell's accuracy over the rate, mean over seeds, and the mean over cells; "
            "dots: each cell's best rate. (b) Tau between rankings by different choices of the "
            "rate, with its interval, beside what seeds alone would show. (c) Regret of each rule "
            "over its mean rate: its base rate moves it along, its shape decides how low it gets.",
        ),
        *[
            block
            for title, table in surface_tables(answers).items()
            for block in (Heading(title, 3), Table(table))
        ],
        Heading("What this answers, and what it does not", 3),
        Text([*_LIMITS, *answers.notes]),
    ]


def _findings(answers: SurfaceAnswers) -> list[Callout]:
    """Say the four answers in a sentence each, with their intervals."""
    gains = [
        Callout(
            f"Every cell at its own best rate, over {row['over']}",
            f"{row['gain']:+.2f} points on average ({_span(row, 'gain')}).",
            row["gain_low"] > 0,
        )
        for row in records(answers.gains)
        if row["top_percent"] == 100 and row["of"] == "own best rate"
    ]
    moves = [
        Callout(
            f"How far the rate re-ranks all cells: own best rate against {row['before']}",
            f"tau {row['tau']:.2f}, {row['noise']:.2f} by seeds alone: "
            f"{row['reranked']:.2f} less ({_span(row, 'reranked')}).",
            row["reranked_low"] > 0,
        )
        for row in records(answers.reranking)
        if row["top_percent"] == 100 and row["after"] == "own best rate"
    ]
    found = gains + moves
    rules = [
        row
        for row in records(answers.regrets)
        if row["base"] == "best" and row["rule"] != "constant"
    ]
    if rules:
        best = max(rules, key=lambda row: float(row["over_constant"]))
        found.append(
            Callout(
                f"The best of {len(rules)} rules over one rate for all: {best['rule']}",
                f"{best['over_constant']:+.2f} points, each at its best base rate "
                f"({_span(best, 'over_constant')}).",
                best["over_constant_low"] > 0,
            )
        )
    if len(answers.fits):
        best = max(records(answers.fits), key=lambda row: float(row["gain"]))
        found.append(
            Callout(
                f"What predicts the best rate of a cell that the fit never saw: "
                f"{best['predictors']}, of {len(answers.fits)} tried",
                f"{best['gain']:+.2f} points over one rate for all ({_span(best, 'gain')}).",
                best["gain_low"] > 0,
            )
        )
    return found


def _rates(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "rate": f"{row['rate']:g}",
            "mean accuracy": f"{row['accuracy']:.2f}",
            "best for cells": row["best_for"],
            "tau between seeds": _number(row["tau"]),
            "sd of a run": _number(row["seed_sd"]),
        }
        for row in records(answers.rates)
    ]


def _gains(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "choice": row["of"],
            "over": row["over"],
            "top %": f"{row['top_percent']:g}",
            "cells": row["n_cells"],
            "gain": _number(row["gain"]),
            "95 %": _span(row, "gain"),
            "at most": _number(row["in_sample"]),
        }
        for row in records(answers.gains)
    ]


def _reranking(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "ranking": row["before"],
            "against": row["after"],
            "top %": f"{row['top_percent']:g}",
            "tau": _number(row["tau"]),
            "seeds": _number(row["noise"]),
            "less": _number(row["reranked"]),
            "95 %": _span(row, "reranked"),
        }
        for row in records(answers.reranking)
    ]


def _regrets(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "rule": row["rule"],
            "base": row["base"],
            "mean rate": f"{row['mean_rate']:.3g}",
            "regret": _number(row["regret"]),
            "95 %": _span(row, "regret"),
            "outside": f"{row['outside']:.0%}",
        }
        for row in records(answers.regrets)
    ]


def _constants(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "rule": row["rule"],
            "base": row["base"],
            "over best": _number(row["over_constant"]),
            "95 %": _span(row, "over_constant"),
            "over mean": _number(row["over_same_mean"]),
            "its 95 %": _span(row, "over_same_mean"),
        }
        for row in records(answers.regrets)
        if row["rule"] != "constant"
    ]


def _prediction_title(answers: SurfaceAnswers) -> str:
    spread = "" if answers.predictions.empty else answers.predictions["octaves_constant"].iloc[0]
    constant = f" (one rate for all: {spread:.2f} octaves off)" if spread else ""
    return f"Best rates as rules predict them{constant}"


def _predictions(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "rule": row["rule"],
            "slope": _number(row["slope"]),
            "95 %": _span(row, "slope"),
            "octaves off": _number(row["octaves"]),
            "explained": _number(row["explained"]),
            "its 95 %": _span(row, "explained"),
        }
        for row in records(answers.predictions)
    ]


def _picks(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "rate": row["rate_of"],
            "cell": row["cell"],
            "at rate": f"{row['rate']:.3g}",
            "accuracy": f"{row['accuracy']:.2f}",
            "different picks": row["cells"],
        }
        for row in records(answers.picks)
    ]


def _fits(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "predictors": row["predictors"],
            "octaves off": _number(row["octaves"]),
            "constant": _number(row["octaves_constant"]),
            "gain over constant": _number(row["gain"]),
            "95 %": _span(row, "gain"),
        }
        for row in records(answers.fits)
    ]


def _direct(answers: SurfaceAnswers) -> list[dict[str, Any]]:
    return [
        {
            "recipe": row["recipe"],
            "cells": row["n_cells"],
            "trained": _number(row["trained"]),
            "on the surface": _number(row["interpolated"]),
            "difference": _number(row["difference"]),
            "95 %": f"{row['low']:.2f} to {row['high']:.2f}",
        }
        for row in records(answers.direct)
    ]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _number(value: float) -> str | None:
    return f"{round(value, 2) + 0.0:.2f}" if math.isfinite(value) else None


def _span(row: Mapping[str, Any], name: str) -> str | None:
    low, high = _number(row[f"{name}_low"]), _number(row[f"{name}_high"])
    return None if low is None or high is None else f"{low} to {high}"
