"""``rebench rank TABLE`` of a table with one recipe: the agreement between its seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rebench.cli.output import frame_rows, print_rows, say
from rebench.errors import InputError
from rebench.printable import printable, without_formulas

if TYPE_CHECKING:
    from rebench.analysis import Reliability
    from rebench.analysis.choices import Choices

__all__ = ["of_one_data_set", "print_reliability", "print_values"]


def of_one_data_set(chosen: Choices) -> dict[str, Any]:
    """Return the arguments of an analysis of one data set."""
    names = ("split", "epochs", "top_percent", "draws", "seed")
    return {name: getattr(chosen, name) for name in names}


def print_values(rows: list[dict[str, object]], output: str) -> None:
    """Print rows as JSON or as CSV."""
    if output == "json":
        print_rows(rows, as_json=True)
        return
    import pandas as pd

    frame = without_formulas(pd.DataFrame(rows))
    typer.echo(printable(frame.to_csv(index=False)), nl=False)


def print_reliability(table: str, chosen: Choices, output: str, figure: Path | None) -> bool:
    """Print seed tau at each K and the number of cells that may be the best, per data set.

    Returns:
        False if the table has several recipes, or if another table or recipe was named. Then
        nothing was printed.
    """
    if chosen.published or chosen.against or chosen.recipes:
        return False
    from rebench.analysis import reliability
    from rebench.tables.opening import open_recipes

    if len(tables := open_recipes(table)) > 1:
        return False
    [opened] = tables.values()
    for option, given in (
        (f"--by {chosen.by}", chosen.by is not None),
        ("--figure", figure is not None),
        (f"--format {output}", output in ("latex", "md")),
    ):
        if given:
            raise InputError(
                f"{option} needs two rankings, but {table} has one recipe: name a second table, or "
                f"leave {option.split()[0]} out"
            )
    held = {key.dataset: opened.has_runs(key) for key in opened.run_keys}
    asked = chosen.datasets or [
        name for name, runs in held.items() if runs or not any(held.values())
    ]
    found = [reliability(opened, dataset=name, **of_one_data_set(chosen)) for name in asked]
    if output != "table":
        print_values([row for each in found for row in _rows(each)], output)
        return True
    for each in found:
        say(f"{each.name}. {each.sentence}")
    for each in found:
        say(f"\n{each.name}")
        headings = {
            "top_percent": "K",
            "n_cells": each.accuracies.space.items,
            "seed_tau_low": "95 % CI",
        }
        rows = each.frame().dropna(subset=["seed_tau"])
        print_rows(rows, as_json=False, headings=headings)
    for note in dict.fromkeys(note for each in found for note in each.notes):
        say(note, err=True)
    return True


def _rows(found: Reliability) -> list[dict[str, object]]:
    named: dict[str, object] = {"table": found.accuracies.name, "dataset": found.dataset}
    named |= {"split": found.split, "epochs": found.accuracies.epochs}
    named |= {"may_be_best": found.may_be_best}
    return [{**named, **row} for row in frame_rows(found.frame().round(4))]
