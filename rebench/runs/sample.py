"""Choice of the cells, or other items, of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebench.errors import InputError
from rebench.runs.spec import CellsSpec, TableColumn
from rebench.spaces import NB201, Space

__all__ = ["AccuracyReader", "choose_cells"]

# Return the accuracies of a table (percent), one per index; NaN where a cell is missing.
AccuracyReader = Callable[[TableColumn], NDArray[np.float64]]


def choose_cells(
    choice: CellsSpec, accuracies: AccuracyReader, space: Space = NB201
) -> tuple[list[Any], int]:
    """Return the chosen items in order of their index, and the number of duplicates."""
    indices = [space.find(name) for name in (*choice.indices, *choice.strings)]
    if choice.random is not None:
        generator = np.random.default_rng(choice.random.seed)
        indices += _draw(np.arange(space.size), choice.random.n, generator, "cells.random.n")
    if choice.stratified is not None:
        wanted = choice.stratified
        by_rate = wanted.by == "multiplier"
        order = space.rate_factors() if by_rate else accuracies(wanted)
        indices += _stratify(order, wanted.n, wanted.strata, wanted.seed)
    if choice.top is not None:
        indices += _best(accuracies(choice.top), choice.top.n, choice.top.percent)
    if choice.all:
        indices += range(space.size)
    unique = sorted(set(indices))
    repeated = len(indices) - len(unique)
    if choice.classes in ("one of each", "one of each network"):
        classes = space.published_classes()
        if choice.classes == "one of each network":
            classes = space.equal_networks(np.arange(space.size))
        classes = classes[unique]
        unique = [unique[place] for place in sorted(np.unique(classes, return_index=True)[1])]
    elif choice.classes == "every member":
        classes = space.published_classes()
        unique = np.flatnonzero(np.isin(classes, classes[unique])).tolist()
    return [space.item_of(index) for index in unique], repeated


def _draw(pool: NDArray[np.intp], n: int, generator: np.random.Generator, key: str) -> list[int]:
    """Draw `n` cells; a message about too large a number names its `key` in the sweep file."""
    if n > len(pool):
        raise InputError(f"{key} is too large: {n} cells would be drawn from {len(pool)}")
    return list(map(int, generator.permutation(pool)[:n]))


def _stratify(order: NDArray[np.float64], n: int, strata: int, seed: int) -> list[int]:
    known = np.flatnonzero(~np.isnan(order))
    ranked = known[np.argsort(order[known], kind="stable")]
    generator = np.random.default_rng(seed)
    chosen: list[int] = []
    for number, stratum in enumerate(np.array_split(ranked, strata)):
        share = n // strata + (number < n % strata)
        chosen += _draw(stratum, share, generator, f"cells.stratified.n = {n} (strata = {strata})")
    return chosen


def _best(accuracy: NDArray[np.float64], n: int | None, percent: float | None) -> list[int]:
    known = np.flatnonzero(~np.isnan(accuracy))
    if n is None:
        assert percent is not None
        n = max(1, round(len(known) * percent / 100))
    if n > len(known):
        raise InputError(f"cells.top.n = {n}, but the table has accuracies of {len(known)} cells")
    # Ties go to the smaller index.
    return list(map(int, known[np.argsort(-accuracy[known], kind="stable")[:n]]))
