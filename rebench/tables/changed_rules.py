"""Recipes whose rule changed while their run was trained: their trials must not be averaged.

The code of a rule and its defaults are not part of a trial's id, but every record contains the
learning rate.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from cells import Cell
from rebench.errors import RebenchError

if TYPE_CHECKING:
    from rebench.recipes import Recipe

__all__ = ["changed_rules"]

# Relative difference between equal learning rates that were computed on two machines.
_ROUNDING: Final = 1e-6


def changed_rules(results: pa.Table) -> Iterator[str]:
    """Yield a line for each recipe with trials of several rules.

    A rate that is measured in the network or on images differs between seeds and is not checked.
    """
    from rebench.recipes import parse_recipe  # loads the packages of all recipes

    columns = [results["recipe"].cast(pa.string()), results["index"], results["learning_rate"]]
    trained = pa.table(columns, ["recipe", "index", "rate"])
    rates: dict[str, dict[int, list[float]]] = {}
    for row in trained.group_by(trained.column_names).aggregate([]).to_pylist():
        rates.setdefault(row["recipe"], {}).setdefault(row["index"], []).append(row["rate"])
    for label, cells in sorted(rates.items()):
        rule = None
        with contextlib.suppress(RebenchError):  # its package may not be installed here
            rule = parse_recipe(label)
        if rule is not None and rule.needs != "graph":
            continue
        wrong = "several learning rates"
        told = {
            cell: f"{min(own):.6g} and {max(own):.6g}"
            for cell, own in cells.items()
            if not _equal(min(own), max(own))
        }
        if rule is not None and not told:
            wrong = "an outdated learning rate"
            told = {
                cell: f"{own[0]:.6g}, now {now:.6g}"
                for cell, own in cells.items()
                if not _equal(own[0], now := _rate_today(rule, cell))
            }
            if len(told) == len(cells):
                continue  # the rule changed after the run
        if told:
            yield (
                f"recipe {label!r}: {len(told)} of {len(cells)} cells have {wrong}, such as cell"
                f" {min(told)}: {told[min(told)]}. If the rule changed, means of this run mix two"
                " rules: give the new rule a new name and train it in a new run"
            )


def _rate_today(rule: Recipe, index: int) -> float:
    with contextlib.suppress(RebenchError):
        return rule.hyperparameters(Cell.from_index(index)).learning_rate
    return math.nan


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING)
