"""The learning rates of recipes: one rate for all cells, a rule of graphs, or measured rates."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from cells import Cell
from experiments.surface.grid import Surface
from rebench.analysis.tau import Floats
from rebench.errors import InputError
from rebench.recipes import BENCHMARK_LR, NoPathError, Recipe, make_recipe
from rebench.recipes.fixed import Fixed, NasBench201
from rebench.recipes.init import init_rate_factor
from rebench.runs import RecipeSpec

__all__ = ["RULES", "effective_rate", "fixed_rate", "measured_rates", "rule_rates", "with_rates"]

# Rules that need only the graph. Measured rates need a network, so they come from a table.
RULES: Final = ("topology-lr", "paths", "topology-exact", "am-mup")

# Columns with the size of the network.
_SIZE: Final = ["channels", "cells_per_stage"]


def fixed_rate(label: str) -> float | None:
    """Return the rate of a recipe that is one rate for every cell with the default init."""
    recipe = _recipe(label)
    if isinstance(recipe, NasBench201):
        return BENCHMARK_LR
    if isinstance(recipe, Fixed) and recipe.init == "default":
        return float(recipe.lr)
    return None


def with_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the column `rate`: lr of recipes fixed(lr=...), NaN for other recipes."""
    if "rate" in table:
        return table
    if "recipe" not in table:  # a table of accuracies only
        return table.assign(rate=np.nan)
    labels = table["recipe"].astype(str)
    rates = {label: fixed_rate(label) for label in labels.unique()}
    return table.assign(rate=labels.map(rates).astype(np.float64))


def rule_rates(surface: Surface, labels: Sequence[str] = RULES) -> dict[str, Floats]:
    """Return the rates [cells] that rules give at their own base rate; NaN without a path."""
    rates: dict[str, Floats] = {}
    for label in labels:
        recipe = make_recipe(RecipeSpec.parse(label))
        rates[label] = np.array([_rate(recipe, int(index)) for index in surface.cells])
    return rates


def measured_rates(surface: Surface, table: pd.DataFrame) -> dict[str, Floats]:
    """Return the rates [cells] that the table's measured recipes found: geometric means over seeds.

    A recipe that lacks a cell of the surface is left out.
    """
    found: dict[str, Floats] = {}
    if "learning_rate" not in table:
        return found
    for label in sorted(map(str, table["recipe"].unique())):
        recipe = _recipe(label)
        if recipe is not None and recipe.needs != "graph":
            means = _mean_rates(_runs(surface, table, label)).reindex(surface.cells)
            if means.notna().all():
                found[label] = means.to_numpy(dtype=np.float64)
    return found


def effective_rate(surface: Surface, table: pd.DataFrame, label: str) -> float:
    """Return the effective rate at the first step of recipe `label`: geometric mean over cells.

    Larger weights before batch normalisation act like a smaller rate (`init_rate_factor`). NaN if
    the recipe has a rate for each layer, if the table lacks the size of the networks, or if the
    recipe has no init for a cell.
    """
    if not {"learning_rate", *_SIZE} <= set(table):
        return np.nan
    recipe = _recipe(label)
    runs = _runs(surface, table, label)
    sizes = runs[_SIZE].drop_duplicates().to_numpy(dtype=np.float64)
    rates = _mean_rates(runs)
    if recipe is None or recipe.rates_by_layer or len(sizes) != 1:
        return np.nan
    if not np.isfinite([*rates, *sizes[0]]).all():
        return np.nan
    size = dict(zip(_SIZE, map(int, sizes[0]), strict=True))
    factors = [_factor(recipe, Cell.from_index(int(index)), size) for index in rates.index]
    return float(np.exp(np.log(rates.to_numpy() * factors).mean()))


def _runs(surface: Surface, table: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return a recipe's runs on the surface's cells, with the surface's number of epochs."""
    asked = (table["dataset"] == surface.dataset) & (table["epochs"] == surface.epochs)
    return table[asked & (table["recipe"] == label) & table["index"].isin(surface.cells)]


def _mean_rates(runs: pd.DataFrame) -> pd.Series[float]:
    """Return the geometric mean of the rates of each cell."""
    return runs.groupby("index")["learning_rate"].agg(lambda own: np.exp(np.log(own).mean()))


def _factor(recipe: Recipe, cell: Cell, size: Mapping[str, int]) -> float:
    import torch

    from rebench.nets import TinyNet

    with torch.device("meta"):  # only shapes are needed, so no weights are stored
        net = TinyNet(cell, **size)
    try:
        return init_rate_factor(net, recipe.layer_inits(net, cell))
    except NoPathError:  # in tables by others only
        return np.nan


def _rate(recipe: Recipe, index: int) -> float:
    try:
        return recipe.hyperparameters(Cell.from_index(index)).learning_rate
    except NoPathError:
        return np.nan


@functools.lru_cache(maxsize=4096)
def _recipe(label: str) -> Recipe | None:
    """Return the recipe of a label; None if it is the label of another program."""
    try:
        return make_recipe(RecipeSpec.parse(label))
    except InputError:
        return None
