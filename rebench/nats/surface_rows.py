"""Rows of a long table from the runs of a learning-rate surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from cells import Cell
from rebench.runs import RecipeSpec

__all__ = ["surface_rows"]


def surface_rows(
    runs: pd.DataFrame, by_split: Mapping[str, Mapping[str, pd.Series[Any]]]
) -> pd.DataFrame:
    """Return a row for each run and split, with the names of its cell and of its recipe.

    Args:
        runs: properties of each run, with `index` and `learning_rate`.
        by_split: split -> metric -> values, in the order of `runs`.
    """
    archs = {index: str(Cell.from_index(index)) for index in set(runs["index"])}
    labels = {
        rate: RecipeSpec(name="fixed", parameters={"lr": rate}).label
        for rate in set(runs["learning_rate"])
    }
    named = runs.assign(arch=runs["index"].map(archs), recipe=runs["learning_rate"].map(labels))
    measured = [named.assign(split=split, **metrics) for split, metrics in by_split.items()]
    return pd.concat(measured, ignore_index=True)
