"""Recipes and data sets that changed while their run was trained: its means mix two versions.

The code of a rule, its defaults and the images are not part of a trial's id. But every record
contains the learning rate, a digest of the code of a recipe by others, and a digest of the images.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rebench.errors import RebenchError
from rebench.spaces import NB201, Space

if TYPE_CHECKING:
    from rebench.recipes import Recipe

__all__ = ["changed_origins", "changed_rules"]

# Relative difference between equal learning rates that were computed on two machines.
_ROUNDING: Final = 1e-6


def changed_rules(results: pa.Table, space: Space = NB201) -> Iterator[str]:
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
                if not _equal(own[0], now := _rate_today(rule, cell, space))
            }
            if len(told) == len(cells):
                continue  # the rule changed after the run
        if told:
            yield (
                f"recipe {label!r}: {len(told)} of {len(cells)} {space.items} have {wrong}, such"
                f" as {space.title(min(told))}: {told[min(told)]}. If the rule changed, means of"
                " this run mix two rules: give the new rule a new name and train it in a new run"
            )


def changed_origins(origins: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a line for each recipe with several versions of its code, and each changed data set.

    An origin is a recipe, the digest of its code, a data set, a split and the digest of its images.
    Empty digests are unknown.
    """
    recipes: dict[str, set[str]] = {}
    datasets: dict[str, set[str]] = {}
    for recipe, code, dataset, split, images in origins:
        if code:
            recipes.setdefault(recipe, set()).add(code)
        if images:
            datasets.setdefault(f"{dataset} (split {split})", set()).add(images)
    for recipe, codes in sorted(recipes.items()):
        if len(codes) > 1:
            yield (
                f"recipe {recipe!r}: the code of its package changed during the run"
                f" ({len(codes)} versions). If the rule or the initialisation changed, means"
                " of this run mix two rules: give the new rule a new name and train it in a new run"
            )
    for dataset, digests in sorted(datasets.items()):
        if len(digests) > 1:
            yield (
                f"data set {dataset}: its images changed during the run"
                f" ({len(digests)} versions), so means of this run mix two data sets: train"
                " all trials with one version in a new run"
            )


def _rate_today(rule: Recipe, index: int, space: Space) -> float:
    with contextlib.suppress(RebenchError):
        return rule.hyperparameters(space.graph(index)).learning_rate
    return math.nan


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING)
