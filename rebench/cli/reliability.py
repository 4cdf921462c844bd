"""``rebench rank TABLE`` of a table with one recipe: the agreement between its seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebench.cli.output import frame_rows, print_rows, say
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.analysis import Reliability
    from rebench.analysis.choices import Choices

__all__ = ["of_one_data_set", "print_reliability"]


def of_one_data_set(chosen: Choices) -> dict[str, Any]:
    """Return the arguments of an analysis of one data set."""
    names = ("split", "epochs", "top_percent", "draws", "seed")
    return {name: getattr(chosen, name) for name in names}


def print_reliability(table: str, chosen: Choices, *, as_json: bool) -> bool:
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
    if chosen.by != "benchmark":
        raise InputError(f"--by {chosen.by} needs two rankings, but {table} has one recipe")
    held = {key.dataset: opened.has_runs(key) for key in opened.run_keys}
    asked = chosen.datasets or [
        name for name, runs in held.items() if runs or not any(held.values())
    ]
    found = [reliability(opened, dataset=name, **of_one_data_set(chosen)) for name in asked]
    if as_json:
        print_rows([row for each in found for row in _rows(each)], as_json=True)
        return True
    for each in found:
        print_rows(each.frame().dropna(subset=["seed_tau"]), as_json=False, title=each.name)
        say(f"{each.sentence}\n")
    for note in dict.fromkeys(note for each in found for note in each.notes):
        say(note, err=True)
    return True


def _rows(found: Reliability) -> list[dict[str, object]]:
    named: dict[str, object] = {"table": found.accuracies.name, "dataset": found.dataset}
    named |= {"split": found.split, "epochs": found.accuracies.epochs}
    named |= {"may_be_best": found.may_be_best}
    return [{**named, **row} for row in frame_rows(found.frame().round(4))]
