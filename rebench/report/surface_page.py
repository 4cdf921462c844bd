"""What a learning-rate surface says, as tables for a terminal and as blocks of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pandas as pd

from rebench.figures.surface import draw_surface
from rebench.report.blocks import Block, Callout, Figure, Heading, Subtitle, Table, Text
from rebench.report.surface import SurfaceAnswers

__all__ = ["records", "surface_blocks", "surface_tables", "surface_title"]

_LIMITS: Final = (
    """The answers hold for networks of this size, trained this long on these images. Longer
    training may ask for other rates, and seeds differ more in small data: for other sizes ask the
    same of a surface of theirs. Every cell is one of a functional class, so that equal networks do
    not count twice.""",
    """Only the learning rate differs between the columns of a surface. What a rule changes beside
    it (an initialisation, a rate for every layer) is asked by training with the rule: the last
    two tables.""",
    """A rate is chosen on some seeds and scored on the others. Intervals are 95 %, by bootstrap
    over functional classes.""",
)


Row: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = Mapping[str, tuple[Callable[[Row, str], Any], str]]


def _plain(row: Row, field: str) -> Any:
    return row[field]


def _exact(row: Row, field: str) -> str:
    return f"{row[field]:g}"


def _short(row: Row, field: str) -> str:
    return f"{row[field]:.3g}"


def _share(row: Row, field: str) -> str:
    return f"{row[field]:.0%}"


def _number(row: Row, field: str) -> str | None:
    value = row[field]
    return f"{round(value, 2) + 0.0:.2f}" if math.isfinite(value) else None


def _span(row: Row, field: str) -> str | None:
    low, high = _number(row, f"{field}_low"), _number(row, f"{field}_high")
    return None if low is None or high is None else f"{low} to {high}"


def _within(row: Row, field: str) -> str:
    span = _span(row, field)
    return f" ({span})" if span else ""


# What each table shows: header -> (how a value is shown, the frame's column).
_RATES: Final[Columns] = {
    "rate": (_exact, "rate"),
    "mean accuracy": (_number, "accuracy"),
    "best for cells": (_plain, "best_for"),
    "tau between seeds": (_number, "tau"),
    "sd of a run": (_number, "seed_sd"),
}
_GAINS: Final[Columns] = {
    "choice": (_plain, "of"),
    "over": (_plain, "over"),
    "top %": (_exact, "top_percent"),
    "cells": (_plain, "n_cells"),
    "gain": (_number, "gain"),
    "95 %": (_span, "gain"),
    "at most": (_number, "in_sample"),
}
_RERANKING: Final[Columns] = {
    "ranking": (_plain, "before"),
    "against": (_plain, "after"),
    "top %": (_exact, "top_percent"),
    "tau": (_number, "tau"),
    "seeds": (_number, "noise"),
    "less": (_number, "reranked"),
    "95 %": (_span, "reranked"),
}
_REGRETS: Final[Columns] = {
    "rule": (_plain, "rule"),
    "base": (_plain, "base"),
    "mean rate": (_short, "mean_rate"),
    "regret": (_number, "regret"),
    "95 %": (_span, "regret"),
    "outside": (_share, "outside"),
}
_SCALED: Final[Columns] = {
    "rule": (_plain, "rule"),
    "base": (_plain, "base"),
    "over best": (_number, "over_constant"),
    "95 %": (_span, "over_constant"),
    "over mean": (_number, "over_same_mean"),
    "its 95 %": (_span, "over_same_mean"),
}
_PREDICTIONS: Final[Columns] = {
    "rule": (_plain, "rule"),
    "slope": (_number, "slope"),
    "95 %": (_span, "slope"),
    "octaves off": (_number, "octaves"),
    "explained": (_number, "explained"),
    "its 95 %": (_span, "explained"),
}
_PICKS: Final[Columns] = {
    "rate": (_plain, "rate_of"),
    "cell": (_plain, "cell"),
    "at rate": (_short, "rate"),
    "accuracy": (_number, "accuracy"),
    "different picks": (_plain, "cells"),
}
_FITS: Final[Columns] = {
    "predictors": (_plain, "predictors"),
    "octaves off": (_number, "octaves"),
    "constant": (_number, "octaves_constant"),
    "gain over constant": (_number, "gain"),
    "95 %": (_span, "gain"),
}
_DIRECT: Final[Columns] = {
    "recipe": (_plain, "recipe"),
    "cells": (_plain, "n_cells"),
    "trained": (_number, "trained"),
    "surface": (_number, "interpolated"),
    "apart": (_number, "difference"),
    "95 %": (_span, "difference"),
    "gain": (_number, "gain"),
    "its 95 %": (_span, "gain"),
}
_DIRECT_RERANKING: Final[Columns] = {
    "recipe": (_plain, "recipe"),
    "top %": (_exact, "top_percent"),
    "cells": (_plain, "n_cells"),
    "tau": (_number, "tau"),
    "seeds": (_number, "noise"),
    "less": (_number, "reranked"),
    "95 %": (_span, "reranked"),
}


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
    scaled = answers.regrets
    if len(scaled):
        scaled = scaled[scaled["rule"] != "constant"]
    spread = "" if answers.predictions.empty else answers.predictions["octaves_constant"].iloc[0]
    constant = f" (one rate for all: {spread:.2f} octaves off)" if spread else ""
    asked = (
        ("The surface", answers.rates, _RATES),
        ("What the choice of the rate gains (percentage points)", answers.gains, _GAINS),
        (
            "How far it can re-rank cells: tau, and tau of seeds alone",
            answers.reranking,
            _RERANKING,
        ),
        ("Rules beside the cells' own best rates: regret", answers.regrets, _REGRETS),
        (
            "Scaled, or merely larger? Over the best constant, and that of equal mean",
            scaled,
            _SCALED,
        ),
        (f"Best rates as rules predict them{constant}", answers.predictions, _PREDICTIONS),
        ("Which cell a perfect search would pick", answers.picks, _PICKS),
        ("Best rates predicted for cells that the fit never saw", answers.fits, _FITS),
        (
            "Recipes trained directly, beside the surface; gain over the benchmark's rate",
            answers.direct,
            _DIRECT,
        ),
        (
            "How far they re-rank cells: tau with the benchmark's rate, and tau of seeds alone",
            answers.direct_reranking,
            _DIRECT_RERANKING,
        ),
    )
    return {
        title: pd.DataFrame(
            [
                {header: shown(row, field) for header, (shown, field) in columns.items()}
                for row in records(frame)
            ],
            dtype=object,
        )
        for title, frame, columns in asked
        if len(frame)
    }


def surface_blocks(answers: SurfaceAnswers, figures: Path, *, stem: str = "surface") -> list[Block]:
    """Return the blocks of a page about a surface; its figure is saved in `figures`."""
    draw_surface(answers).save(figures / stem)
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
    """Say the answers in a sentence each, with their intervals."""
    gains = [
        Callout(
            f"Every cell at its own best rate, over {row['over']}",
            f"{row['gain']:+.2f} points on average{_within(row, 'gain')}.",
            row["gain_low"] > 0,
        )
        for row in records(answers.gains)
        if row["top_percent"] == 100 and row["of"] == "own best rate"
    ]
    moves = [
        Callout(
            f"How far the rate re-ranks all cells: own best rate against {row['before']}",
            f"tau {row['tau']:.2f}, {row['noise']:.2f} by seeds alone: "
            f"{row['reranked']:.2f} less{_within(row, 'reranked')}.",
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
                f"{best['over_constant']:+.2f} points, each at its best base rate"
                f"{_within(best, 'over_constant')}.",
                best["over_constant_low"] > 0,
            )
        )
    if len(answers.fits):
        best = max(records(answers.fits), key=lambda row: float(row["gain"]))
        found.append(
            Callout(
                f"What predicts the best rate of a cell that the fit never saw: "
                f"{best['predictors']}, of {len(answers.fits)} tried",
                f"{best['gain']:+.2f} points over one rate for all{_within(best, 'gain')}.",
                best["gain_low"] > 0,
            )
        )
    return _findings_of_recipes(answers) + found


def _findings_of_recipes(answers: SurfaceAnswers) -> list[Callout]:
    """Say of the recipe that re-ranks most what it does to the ranking, and to accuracies."""
    whole = [row for row in records(answers.direct_reranking) if row["top_percent"] == 100]
    if not whole:
        return []
    most = max(whole, key=lambda row: float(row["reranked"]))
    (its,) = (row for row in records(answers.direct) if row["recipe"] == most["recipe"])
    return [
        Callout(
            f"The recipe that re-ranks all cells most, of {len(whole)} trained directly: "
            f"{most['recipe']}",
            f"tau {most['tau']:.2f} with the benchmark's rate, {most['noise']:.2f} by seeds alone: "
            f"{most['reranked']:.2f} less{_within(most, 'reranked')}; accuracies change by "
            f"{its['gain']:+.2f} points{_within(its, 'gain')}.",
            most["reranked_low"] > 0,
        )
    ]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
