"""What a learning-rate surface says: its findings and its tables, as blocks of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pandas as pd

from rebench.extensions import entries
from rebench.report.blocks import (
    Block,
    Callout,
    Figure,
    Heading,
    Subtitle,
    Table,
    Text,
    number,
    span,
)
from rebench.report.figures.surface import draw_surface
from rebench.report.surface import SurfaceAnswers

__all__ = ["records", "surface_blocks", "surface_tables", "surface_title"]

Row: TypeAlias = Mapping[str, Any]

# Fields that are powers or shares; other floats have two decimal places.
_SIGNIFICANT: Final = ("rate", "mean_rate", "effective_rate", "top_percent")
_SHARES: Final = ("outside",)


def surface_title(answers: SurfaceAnswers) -> str:
    """Say in a line what the surface is made of."""
    surface = answers.surface
    scored = "parts of a sample, by regression" if answers.is_regression else "seeds"
    return (
        f"{len(surface.cells)} functional classes, {len(surface.rates)} rates, "
        f"{len(surface.seeds)} {scored}; {surface.dataset}, {surface.epochs} epochs"
    )


def surface_blocks(answers: SurfaceAnswers, figures: Path, *, stem: str = "surface") -> list[Block]:
    """The blocks of a page about a surface; its figure is saved in `figures`."""
    draw_surface(answers).save(figures / stem)
    limits = Path(__file__).with_name("surface_limits.txt").read_text("utf-8").split("\n\n")
    return [
        Subtitle(surface_title(answers)),
        *_findings(answers),
        Figure(
            figures / stem,
            "(a) Every cell's accuracy over the rate, mean over seeds, and the mean over cells; "
            "dots: each cell's best rate. (b) How far the ranking of all cells moves from that at "
            "the benchmark's rate: what tau lacks beyond seeds, with its interval, over the rate "
            "at which the networks learn, of which an init is a part. (c) Regret of each rule over "
            "that of one rate for all of the same mean: its base rate moves it along, its shape "
            "decides how low it gets.",
        ),
        *[
            block
            for title, table in surface_tables(answers).items()
            for block in (Heading(title, 3), Table(table))
        ],
        Heading("What this answers, and what it does not", 3),
        Text([*limits, *answers.notes]),
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
            f"{_reranked(row)}.",
            row["less_low"] > 0,
        )
        for row in records(answers.reranking)
        if row["top_percent"] == 100 and row["after"] == "own best rate"
    ]
    if len(answers.single_rates):
        most = max(records(answers.single_rates), key=lambda row: float(row["less"]))
        moves.insert(
            0,
            Callout(
                f"The rate that re-ranks all cells most, of {len(answers.single_rates)} given to "
                f"all: {most['rate']:g}",
                f"{_reranked(most, of_most=True)}.",
                most["most_low"] > 0,
            ),
        )
    said = gains + moves
    rules = [
        row
        for row in records(answers.regrets)
        if row["base"] == "best" and row["rule"] != "constant"
    ]
    if rules:
        best = max(rules, key=lambda row: float(row["over_constant"]))
        said.append(
            Callout(
                f"The best of {len(rules)} rules over one rate for all: {best['rule']}",
                f"{best['over_constant']:+.2f} points, each at its best base rate"
                f"{_within(best, 'over_constant')}.",
                best["over_constant_low"] > 0,
            )
        )
    if len(answers.fits):
        best = max(records(answers.fits), key=lambda row: float(row["gain"]))
        said.append(
            Callout(
                f"What predicts the best rate of a cell that the fit never saw: "
                f"{best['predictors']}, of {len(answers.fits)} tried",
                f"{best['gain']:+.2f} points over one rate for all{_within(best, 'gain')}.",
                best["gain_low"] > 0,
            )
        )
    return _findings_of_recipes(answers) + said


def _findings_of_recipes(answers: SurfaceAnswers) -> list[Callout]:
    """Say of the recipe that re-ranks most what it does to the ranking, and to accuracies.

    Only recipes as they come: with parameters of its own, one was trained to ask something else.
    """
    whole = [
        row
        for row in records(answers.direct_reranking)
        if row["top_percent"] == 100 and "(" not in row["recipe"]
    ]
    if not whole:
        return []
    most = max(whole, key=lambda row: float(row["less"]))
    (its,) = (row for row in records(answers.direct) if row["recipe"] == most["recipe"])
    beside = " with the benchmark's rate"
    return [
        Callout(
            f"The recipe that re-ranks all cells most, of {len(whole)} with their own settings: "
            f"{most['recipe']}",
            f"{_reranked(most, beside, of_most=True)}; accuracies change by "
            f"{its['gain']:+.2f} points{_within(its, 'gain')}.",
            most["most_low"] > 0,
        )
    ]


def _reranked(row: Row, other: str = "", *, of_most: bool = False) -> str:
    """What tau is, what seeds alone leave of it, and how much is missing beyond that.

    The interval of the largest of several is the wider one that allows for choosing it.
    """
    less = _within(row, "most" if of_most else "less")
    allowed = ", allowing for the choice" if of_most and less else ""
    return (
        f"tau {row['tau']:.2f}{other}, {row['noise']:.2f} by seeds alone: "
        f"{row['less']:.2f} less{less}{allowed}, a ratio of {row['ratio']:.2f}"
    )


def surface_tables(answers: SurfaceAnswers) -> dict[str, pd.DataFrame]:
    """What was answered by its title, numbers as they are shown."""
    frames = answers.frames
    regrets = frames["regrets"]
    frames["scaled"] = regrets[regrets["rule"] != "constant"] if len(regrets) else regrets
    tables = {}
    for table in entries(__file__, "surface_tables.toml")["tables"]:
        title, columns = table["title"], table["columns"]
        rows = records(frames[table["frame"]])
        if table["frame"] == "predictions" and rows:
            title += f" (one rate for all: {rows[0]['octaves_constant']:.2f} octaves off)"
        if rows:
            tables[title] = pd.DataFrame(
                [{header: _shown(row, field) for header, field in columns.items()} for row in rows],
                dtype=object,
            )
    return tables


def _within(row: Row, field: str) -> str:
    """A field's interval as it stands in a sentence; nothing where there is none."""
    interval = span(row[f"{field}_low"], row[f"{field}_high"])
    return f" ({interval})" if interval else ""


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _shown(row: Row, field: str) -> Any:
    value = row[field]
    if field.endswith("_low"):
        return span(value, row[f"{field.removesuffix('_low')}_high"])
    if not isinstance(value, float):
        # Short, so that intervals stay whole in 80 columns.
        return "best for all" if value == "best single rate" and field != "rate_of" else value
    if field in _SHARES:
        return f"{value:.0%}"
    if field in _SIGNIFICANT:
        return f"{value:.3g}" if math.isfinite(value) else None
    return number(value)
