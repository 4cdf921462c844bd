"""From long tables to arrays of the same cells: what pairs, what does not, counted and named.

A long table has the columns `index`, `dataset`, `split`, `epochs`, `seed`, `accuracy` (and
`recipe`, where it was re-trained). What cannot be used is never dropped in silence: every drop is
one of the notes of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats, Ints
from rebench.errors import InputError, UnknownNameError
from rebench.tables.columns import REQUIRED
from rebench.tables.group import common_cells, finite

__all__ = ["Accuracies", "Pairing", "pair", "read_accuracies"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accuracies:
    """One data set's accuracies under one recipe, as cells by seeds."""

    name: str
    cells: Ints
    """[cells] benchmark indices, ascending."""
    seeds: tuple[int, ...]
    values: Floats
    """[cells, seeds] percent; NaN where a cell lacks that seed."""
    epochs: int
    notes: tuple[str, ...]
    """What was left out, and why."""

    def take(self, cells: Ints) -> Floats:
        """Return the rows of `cells`, all of which are here."""
        return self.values[np.searchsorted(self.cells, cells)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairing:
    """Two tables on the cells that both have."""

    before_name: str
    after_name: str
    cells: Ints
    """[cells] benchmark indices, ascending."""
    before: Floats
    """[cells, seeds] of the benchmark or the recipe compared with."""
    after: Floats
    """[cells, seeds] of the re-trained table."""
    notes: tuple[str, ...]


def read_accuracies(
    table: pd.DataFrame,
    *,
    dataset: str,
    split: str = "ori-test",
    epochs: int | None = None,
    recipe: str | None = None,
    name: str | None = None,
) -> Accuracies:
    """Pick one data set, split, number of epochs and recipe out of a long table.

    Equal duplicates count once; duplicates that differ are refused. Accuracies that are not finite
    are left out (see `rebench.tables.group`). `epochs` and `recipe` may be None where the table
    has only one.
    """
    missing = [column for column in REQUIRED if column not in table]
    if missing:
        raise InputError(f"the table lacks the columns {', '.join(missing)}")
    rows = _only(table, "dataset", dataset)
    rows = _only(rows, "split", split)
    if "recipe" in rows:
        recipe = recipe if recipe is not None else _single(rows, "recipe")
        rows = _only(rows, "recipe", recipe)
    elif recipe is not None:
        raise InputError(f"the table has no column 'recipe' to find {recipe!r} in")
    epochs = epochs if epochs is not None else int(_single(rows, "epochs"))
    rows = _only(rows, "epochs", epochs)

    label = name or recipe or "benchmark"
    notes = []
    compared = finite(rows["accuracy"].to_numpy(dtype=np.float64))
    if not compared.all():
        notes.append(_note(label, "accuracies that are not finite", rows.loc[~compared, "index"]))
        rows = rows[compared]
    rows = rows.drop_duplicates(["index", "seed", "accuracy"])
    duplicates = int(compared.sum()) - len(rows)
    unequal = rows.loc[rows.duplicated(["index", "seed"]), "index"].unique()
    if len(unequal):
        raise InputError(
            f"{label}: {len(unequal)} cells have two different accuracies for one seed of "
            f"{dataset} {split} after {epochs} epochs (first: cell {unequal[0]}); keep one of each"
        )
    if rows.empty:
        raise InputError(f"{label}: no finite accuracy on {dataset} {split} after {epochs} epochs")
    if duplicates:
        notes.append(f"{label}: {duplicates} records appear more than once and count once")
    wide = rows.set_index(["index", "seed"])["accuracy"].unstack().sort_index()  # noqa: PD010 - pivot_table averages
    values = wide.to_numpy(dtype=np.float64)
    partial = np.isnan(values).any(axis=1)
    if partial.any():
        cells = pd.Series(wide.index[partial])
        notes.append(_note(label, f"cells with fewer than {values.shape[1]} seeds (kept)", cells))
    return Accuracies(
        name=label,
        cells=wide.index.to_numpy(dtype=np.int64),
        seeds=tuple(int(seed) for seed in wide.columns),
        values=values,
        epochs=epochs,
        notes=tuple(notes),
    )


def pair(before: Accuracies, after: Accuracies) -> Pairing:
    """Bring two tables onto the cells that both have; say how many stand in one alone."""
    cells = common_cells(before.cells, after.cells)
    if cells.size == 0:
        raise InputError(
            f"{before.name} ({len(before.cells)} cells) and {after.name} ({len(after.cells)} "
            "cells) have no cell in common"
        )
    notes = [*before.notes, *after.notes]
    for mine, other in ((before, after), (after, before)):
        alone = np.setdiff1d(mine.cells, cells)
        if alone.size:
            notes.append(_note(mine.name, f"cells that {other.name} lacks", pd.Series(alone)))
    if before.epochs != after.epochs:
        notes.append(
            f"{before.name} trained for {before.epochs} epochs, {after.name} for {after.epochs}"
        )
    return Pairing(
        before_name=before.name,
        after_name=after.name,
        cells=cells,
        before=before.take(cells),
        after=after.take(cells),
        notes=tuple(notes),
    )


def _only(table: pd.DataFrame, column: str, value: str | int) -> pd.DataFrame:
    rows = table[table[column] == value]
    if rows.empty:
        known = [str(name) for name in table[column].unique()]
        raise UnknownNameError(f"{column} in this table", str(value), known)
    only: pd.DataFrame = rows
    return only


def _single(table: pd.DataFrame, column: str) -> str:
    values = table[column].unique()
    if len(values) != 1:
        listed = ", ".join(sorted(str(value) for value in values))
        raise InputError(f"the table has several values of {column}: {listed}; name one")
    return str(values[0])


def _note(name: str, what: str, cells: pd.Series[int]) -> str:
    distinct: Sequence[int] = sorted(cells.unique())
    shown = ", ".join(str(cell) for cell in distinct[:_SHOWN])
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return f"{name}: {len(cells)} {what}: cells {shown}{more}"
