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

__all__ = ["Accuracies", "listed", "read_accuracies"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accuracies:
    """One data set's accuracies under one recipe, as cells by seeds."""

    name: str
    cells: Ints
    """[cells] benchmark indices, ascending."""
    seeds: tuple[int, ...]
    runs: Floats
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
    rows = table
    wanted = {"dataset": dataset, "split": split, "recipe": recipe, "epochs": epochs}
    for column, value in wanted.items():
        if column in rows or value is not None:
            wanted[column] = _known(rows, column, value)
            rows = rows[rows[column] == wanted[column]]

    label = name or str(wanted["recipe"] or "benchmark")
    place = f"{dataset} {split} after {wanted['epochs']} epochs"
    notes = []
    diverged = rows.loc[rows["status"] == "diverged", "index"] if "status" in rows else ()
    if len(diverged):
        what = "runs that diverged and count with the accuracy they ended with"
        notes.append(listed(label, what, diverged))
    compared = np.isfinite(rows["accuracy"].to_numpy(dtype=np.float64))
    if not compared.all():
        notes.append(listed(label, "accuracies that are not finite", rows.loc[~compared, "index"]))
        rows = rows[compared]
    rows = rows.drop_duplicates(["index", "seed", "accuracy"])
    duplicates = int(compared.sum()) - len(rows)
    unequal = rows.loc[rows.duplicated(["index", "seed"]), "index"].unique()
    if len(unequal):
        raise InputError(
            f"{label}: {len(unequal)} cells have two different accuracies for one seed of "
            f"{place} (first: cell {unequal[0]}); keep one of each"
        )
    if rows.empty:
        raise InputError(f"{label}: no finite accuracy on {place}")
    if duplicates:
        notes.append(f"{label}: {duplicates} records appear more than once and count once")
    wide = rows.set_index(["index", "seed"])["accuracy"].unstack().sort_index()  # noqa: PD010 - pivot_table averages
    values = wide.to_numpy(dtype=np.float64)
    partial = np.isnan(values).any(axis=1)
    if partial.any():
        fewer = f"cells with fewer than {values.shape[1]} seeds (kept)"
        notes.append(listed(label, fewer, wide.index[partial].to_numpy()))
    return Accuracies(
        name=label,
        cells=wide.index.to_numpy(dtype=np.int64),
        seeds=tuple(int(seed) for seed in wide.columns),
        runs=values,
        epochs=int(rows["epochs"].iloc[0]),
        notes=tuple(notes),
    )


def _known(table: pd.DataFrame, column: str, value: str | int | None) -> str | int:
    """Return the value to take of a column: the one that is asked for, or the only one."""
    if column not in table:
        raise InputError(f"the table has no column {column!r} to find {value!r} in")
    known = table[column].unique().tolist()
    if value is None and len(known) != 1:
        several = ", ".join(sorted(map(str, known)))
        raise InputError(f"the table has several values of {column}: {several}; name one")
    if value is not None and value not in known:
        raise UnknownNameError(f"{column} in this table", str(value), map(str, known))
    return known[0] if value is None else value


def listed(name: str, what: str, cells: Sequence[int] | Ints | pd.Series[int]) -> str:
    """Return a note that names a table, what is the matter with cells of it, and the first."""
    distinct = np.unique(cells)
    shown = ", ".join(str(cell) for cell in distinct[:_SHOWN])
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return f"{name}: {len(cells)} {what}: cells {shown}{more}"
