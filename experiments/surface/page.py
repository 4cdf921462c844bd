"""The findings and tables of a learning-rate surface, as blocks of a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

import pandas as pd

from experiments.surface.answers import SurfaceAnswers
from experiments.surface.figures import draw_surface
from rebench.extensions import entries
from rebench.printable import number, signed, span
from rebench.report.blocks import Block, Callout, Code, Figure, Heading, TableBlock, Text
from rebench.report.write import Written, write_page

__all__ = ["surface_blocks", "surface_tables", "surface_title", "write_surface"]

Row: TypeAlias = Mapping[str, Any]

# Fields that are powers or shares; other floats have two decimal places.
_SIGNIFICANT: Final = ("rate", "mean_rate", "effective_rate", "top_percent")
_SHARES: Final = ("outside",)


def surface_title(answers: SurfaceAnswers) -> str:
    """Return the size of the surface in one line."""
    surface = answers.surface
    return (
        f"{len(surface.cells)} functional classes, {len(surface.rates)} rates, "
        f"{len(surface.seeds)} seeds; {surface.dataset}, {surface.epochs} epochs"
    )


def write_surface(answers: SurfaceAnswers, name: str, folder: Path) -> Written:
    """Write the page about a learning-rate surface, the table called `name`, into `folder`."""

    def blocks(figures: Path) -> list[Block]:
        again = ["python", "-m", "experiments.surface", name, "--out", str(folder)]
        return [
            Heading("Learning rates: what does a cell gain from its own rate?", 1),
            Text([entries(__file__, "page.toml")["introduction"]]),
            *surface_blocks(answers, figures),
            Heading("How to compute this page again", 3),
            Code(shlex.join(again)),
        ]

    return write_page("surface", folder, blocks)


def surface_blocks(answers: SurfaceAnswers, figures: Path) -> list[Block]:
    """Return the blocks of a page about a surface; its figure is saved in `figures`."""
    draw_surface(answers).save(figures / "surface")
    limits = Path(__file__).with_name("limits.txt").read_text("utf-8").split("\n\n")
    tables: list[Block] = []
    for title, table in surface_tables(answers).items():
        tables += [Heading(title, 3), TableBlock(table)]
    return [
        Text([surface_title(answers)]),
        *_findings(answers),
        Figure(figures / "surface", entries(__file__, "page.toml")["caption"]),
        *tables,
        Heading("Limits", 3),
        Text([*limits, *answers.notes]),
    ]


def _findings(answers: SurfaceAnswers) -> Iterator[Callout]:
    """Return each answer as a sentence with its interval."""
    for row in _of_all_cells(answers.gains):
        if row["of"] == "own best rate":
            yield Callout(
                f"Gain of the cells' own best rates over {row['over']}",
                f"{_points(row, 'gain', ' on average')}.",
                row["gain_low"] > 0,
            )
    # Recipes with other parameters than their defaults were trained for another question.
    recipes = [row for row in _of_all_cells(answers.direct_reranking) if "(" not in row["recipe"]]
    if recipes:
        most = max(recipes, key=itemgetter("drop"))
        [its] = (row for row in _records(answers.direct) if row["recipe"] == most["recipe"])
        yield Callout(
            f"Largest change of the ranking, of {len(recipes)} recipes with default settings: "
            f"{most['recipe']}",
            f"compared with the reference rate, {_reranked(most, of_most=True)}. Accuracies change "
            f"by {_points(its, 'gain')}.",
            most["most_low"] > 0,
        )
    if len(answers.single_rates):
        most = max(_records(answers.single_rates), key=itemgetter("drop"))
        yield Callout(
            f"Largest change of the ranking, of {len(answers.single_rates)} rates for all cells: "
            f"{most['rate']:g}",
            f"{_reranked(most, of_most=True)}.",
            most["most_low"] > 0,
        )
    for row in _of_all_cells(answers.reranking):
        if row["after"] == "own best rate":
            yield Callout(
                f"Ranking at the cells' own best rates, compared with {row['before']}",
                f"{_reranked(row)}.",
                row["drop_low"] > 0,
            )
    rules = [row for row in _records(_rules(answers.regrets)) if row["base"] == "best"]
    if rules:
        best = max(rules, key=itemgetter("over_constant"))
        yield Callout(
            f"Largest gain over the best single rate, of {len(rules)} rules: {best['rule']}",
            f"{_points(best, 'over_constant', ' with the best base rate of each rule')}.",
            best["over_constant_low"] > 0,
        )
    if len(answers.fits):
        best = max(_records(answers.fits), key=itemgetter("gain"))
        yield Callout(
            f"Best prediction of the rate of cells outside the fit, of {len(answers.fits)} "
            f"predictors: {best['predictors']}",
            f"{_points(best, 'gain', ' compared with one rate for all')}.",
            best["gain_low"] > 0,
        )


def _of_all_cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [row for row in _records(frame) if row["top_percent"] == 100]


def _rules(regrets: pd.DataFrame) -> pd.DataFrame:
    return regrets[regrets["rule"] != "constant"]


def _points(row: Row, field: str, said: str = "") -> str:
    """Return a difference in accuracy as text, with its interval."""
    return f"{signed(row[field])} points{said}{_within(row, field)}"


def _reranked(row: Row, *, of_most: bool = False) -> str:
    """Return tau, seed tau and the drop as text.

    With `of_most` the row has the largest drop of several: its interval is wider, because the row
    was chosen by its drop.
    """
    interval = _within(row, "most" if of_most else "drop")
    allowed = ", adjusted for the choice" if of_most and interval else ""
    return (
        f"tau = {row['tau']:.2f}, seed tau = {row['seed_tau']:.2f}: "
        f"a drop of {row['drop']:.2f}{interval}{allowed}; corrected tau {row['corrected_tau']:.2f}"
    )


def surface_tables(answers: SurfaceAnswers) -> dict[str, pd.DataFrame]:
    """Return the tables by title, with numbers as they are shown."""
    frames = answers.frames | {"scaled": _rules(answers.regrets)}
    tables = {}
    for table in entries(__file__, "page.toml")["tables"]:
        title, columns = table["title"], table["columns"]
        rows = _records(frames[table["frame"]])
        if rows:
            tables[title] = pd.DataFrame(
                [{header: _shown(row, field) for header, field in columns.items()} for row in rows],
                dtype=object,
            )
    return tables


def _within(row: Row, field: str) -> str:
    """Return a field's interval as text, or nothing if it has no interval."""
    interval = span(row[f"{field}_low"], row[f"{field}_high"])
    return f" ({interval})" if interval else ""


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame by the names of their columns."""
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
