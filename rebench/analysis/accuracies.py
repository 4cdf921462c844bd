"""From a long table to accuracies by cell and seed; what cannot be used is counted and named.

A long table has the columns `index`, `dataset`, `split`, `epochs`, `seed`, `accuracy` (and
`recipe` and `status`, where it was re-trained). A run that diverged is a result: it counts with the
accuracy that it ended with, which is that of guessing. An accuracy that is not finite is left out.
Nothing is dropped in silence: every drop is one of the notes of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rebench.analysis.concordance import Floats, Ints
from rebench.errors import InputError, UnknownNameError
from rebench.tables.columns import REQUIRED
from rebench.tables.group import finite

__all__ = ["Accuracies", "listed", "read_accuracies", "read_recipes"]

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
    notes = _diverged(rows, label)
    compared = finite(rows["accuracy"].to_numpy(dtype=np.float64))
    if not compared.all():
        notes.append(listed(label, "accuracies that are not finite", rows.loc[~compared, "index"]))
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
        notes.append(listed(label, f"cells with fewer than {values.shape[1]} seeds (kept)", cells))
    return Accuracies(
        name=label,
        cells=wide.index.to_numpy(dtype=np.int64),
        seeds=tuple(int(seed) for seed in wide.columns),
        values=values,
        epochs=epochs,
        notes=tuple(notes),
    )


def read_recipes(
    table: pd.DataFrame, *, dataset: str, split: str, epochs: int | None, first: str
) -> tuple[dict[str, Accuracies], list[str]]:
    """Return the accuracies of every recipe of a long table, and what was chosen or left out.

    Where a recipe was trained for several numbers of epochs and none is given, the longest count.
    The recipe called `first` stands first, the others by name.
    """
    rows = table[table["dataset"] == dataset]
    found, notes = {}, []
    for name in sorted(rows["recipe"].unique(), key=lambda name: (name != first, name)):
        trained = sorted(rows.loc[rows["recipe"] == name, "epochs"].unique())
        if epochs is None and len(trained) > 1:
            notes.append(
                f"{name} on {dataset} was trained for {', '.join(map(str, trained))} epochs: "
                f"the longest is shown (--epochs shows another)"
            )
        chosen = epochs if epochs is not None else int(trained[-1])
        if chosen not in trained:
            notes.append(f"{name} on {dataset} was not trained for {chosen} epochs: left out")
            continue
        found[name] = read_accuracies(
            rows, dataset=dataset, split=split, epochs=chosen, recipe=name
        )
    if not found:
        raise InputError(f"no recipe was trained on {dataset} for {epochs} epochs")
    return found, notes


def _diverged(rows: pd.DataFrame, label: str) -> list[str]:
    if "status" not in rows:
        return []
    cells = rows.loc[rows["status"] == "diverged", "index"]
    what = "runs that diverged and count with the accuracy they ended with"
    return [listed(label, what, cells)] if len(cells) else []


def _only(table: pd.DataFrame, column: str, value: str | int) -> pd.DataFrame:
    rows = table[table[column] == value]
    if rows.empty:
        known = [str(name) for name in table[column].unique()]
        raise UnknownNameError(f"{column} in this table", str(value), known)
    return rows


def _single(table: pd.DataFrame, column: str) -> str:
    values = table[column].unique()
    if len(values) != 1:
        listed = ", ".join(sorted(str(value) for value in values))
        raise InputError(f"the table has several values of {column}: {listed}; name one")
    return str(values[0])


def listed(name: str, what: str, cells: pd.Series[int]) -> str:
    """Return a note that names a table, what is the matter with cells of it, and the first."""
    distinct: Sequence[int] = sorted(cells.unique())
    shown = ", ".join(str(cell) for cell in distinct[:_SHOWN])
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return f"{name}: {len(cells)} {what}: cells {shown}{more}"
