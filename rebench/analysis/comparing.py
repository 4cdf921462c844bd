"""Comparison of two rankings of the same cells, given as tables, rows or arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rebench.analysis.choices import MOST_DRAWS, TOP_PERCENT
from rebench.analysis.paired import (
    Accuracies,
    Paired,
    labelled,
    read_accuracies,
    usual_split_of,
)
from rebench.analysis.result import Reranking, rerank
from rebench.arguments import Between, checked
from rebench.errors import InputError, UnknownNameError
from rebench.spaces import NamedItems
from rebench.tables import Table, open_table
from rebench.tables.columns import REQUIRED, usual_split
from rebench.tables.opening import with_settings

__all__ = ["compare", "third_table"]

Ranked: TypeAlias = str | Path | Table | pd.DataFrame | ArrayLike
"""A ranking to compare, in one of the forms that `compare` takes."""


@checked
def compare(
    baseline: Ranked,
    other: Ranked,
    *,
    dataset: str | None = None,
    against_dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Ranked | None = None,
    groups: str | None = None,
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000,
    seed: Annotated[int, Between(0)] = 0,
) -> Reranking:
    """Compare two rankings of the same cells, and their difference with the effect of seeds.

    Print the result for the verdict. Its method `frame` returns the numbers at each K.

    Args:
        baseline: the benchmark or the baseline recipe: the name of a table (NAME@RECIPE selects a
            recipe), a table, its long rows, or accuracies [cells] or [cells, seeds]. Accuracies
            are compared with a table by their index of cell numbers. They count as accuracies of
            the table's data set, split and number of epochs.
        other: the re-trained table, in one of these forms.
        dataset: data set of `baseline`, and of `other` if `against_dataset` is None; if None, the
            only data set that both tables contain.
        against_dataset: data set of `other`, to compare different data sets on purpose.
        split: images of the accuracies: `ori-test` (the whole test set), `x-test`, `x-valid` or
            `train`; if None, the first of these that both tables have, preferably with runs.
        epochs: number of epochs; if None, the longest training of each table.
        top_percent: the values of K, each above 0 and at most 100.
        by: third table that selects the top K %, with noise that is independent of both. If None,
            one seed of `baseline` selects them and the other seeds are measured, averaged over the
            selecting seeds. With fewer than three seeds, its measured runs select them.
        groups: column with the group of each cell, such as its family. The cells of a group are
            then one observation. If None, only equal networks are.
        draws: bootstrap draws, and permutations for the p-values: 19 to 100,000, or 0 for no
            bootstrap. Large tables get fewer bootstrap draws: at least 100, or 40 below K = 100.
        seed: seed of all random draws: equal seeds give equal results.

    Returns:
        tau, seed tau and their difference at each K, with intervals, p-values and notes.

    Raises:
        InputError: the tables cannot be compared; the message says why.
    """
    chosen: list[str] = []
    rows: list[pd.DataFrame] = []
    if not (_is_table(baseline) or _is_table(other)):
        paired = Paired.of_values(baseline, other)  # type: ignore[arg-type]  # no tables
    else:
        names = _names(baseline, other)
        rows = [_long_rows(ranked) for ranked in (baseline, other) if _is_table(ranked)]  # type: ignore[arg-type]  # tables
        if len(rows) < 2:
            values, place = (other, 1) if _is_table(baseline) else (baseline, 0)
            rows.insert(place, _rows_like(rows[0], values, dataset, split, epochs))  # type: ignore[arg-type]  # no table
        chosen = _data_sets(rows, names, dataset, against_dataset)
        if chosen[0] != chosen[1]:
            names = [f"{name} on {on}" for name, on in zip(names, chosen, strict=True)]
        rows = [own[own["dataset"] == name] for own, name in zip(rows, chosen, strict=True)]
        measured = _splits(rows, names, split, shared=chosen[0] == chosen[1])
        first, second = (
            read_accuracies(
                own,
                dataset=on,
                split=part,
                epochs=epochs or _longest(own, part),
                name=name,
            )
            for own, on, part, name in zip(rows, chosen, measured, names, strict=True)
        )
        dataset, split = (" against ".join(dict.fromkeys(own[::-1])) for own in (chosen, measured))
        paired = Paired.of(first, second)
    if _equal(paired):
        raise InputError(
            f"{paired.baseline.name} and {paired.other.name} contain the same runs ({len(paired)} "
            "cells): give two tables of different runs, or NAME@RECIPE for two recipes of a table"
        )
    if groups is not None:
        paired = _in_groups(paired, rows, groups)
    paired = replace(paired, notes=(*paired.notes, *_units(paired)))
    chooser = None
    if by is not None:
        third = third_table(by, chosen[0] if chosen else dataset or "")
        paired = paired.chosen_by(third)
        chooser = third.name
    return rerank(
        paired,
        dataset=dataset or "",
        split=split or "",
        top_percent=top_percent,
        by=chooser,
        draws=draws,
        rng=seed,
    )


def _data_sets(
    rows: Sequence[pd.DataFrame],
    names: Sequence[str],
    dataset: str | None,
    against_dataset: str | None,
) -> list[str]:
    """Return the data sets of both tables: the same data set, unless the user names two."""
    own = [sorted(map(str, table["dataset"].unique())) for table in rows]
    shared = sorted({*own[0]} & {*own[1]})
    contents = _listed(names, own)
    two = "to compare different ones, name the second with against_dataset (--against-dataset)"
    if against_dataset is None:
        if dataset is None and len(shared) != 1:
            what = f"{len(shared)} data sets" if shared else "no data set"
            name = "name one with dataset (--dataset); " if shared else ""
            raise InputError(f"the tables share {what} ({contents}): {name}{two}")
        if dataset is not None and dataset not in shared:
            raise InputError(f"dataset must be in both tables, got {dataset} ({contents}); {two}")
        return [dataset or shared[0]] * 2
    wanted = [dataset or own[0][0], against_dataset]
    if dataset is None and len(own[0]) > 1:
        raise InputError(f"name the data set of {names[0]} with dataset ({contents})")
    for name, known, one in zip(names, own, wanted, strict=True):
        if one not in known:
            raise UnknownNameError(f"data set of {name}", one, known)
    return wanted


def _splits(
    rows: Sequence[pd.DataFrame], names: Sequence[str], split: str | None, *, shared: bool
) -> list[str]:
    """Return the splits of both tables: the same split, unless the data sets differ."""
    known = [sorted(map(str, own["split"].unique())) for own in rows]
    if split is None and shared and not {*known[0]} & {*known[1]}:
        raise InputError(
            f"the tables share no split ({_listed(names, known)}), so their accuracies are not of "
            "the same images: give a table with the split of the other"
        )
    for name, own in zip(names, known, strict=True):
        if split is not None and split not in own:
            raise UnknownNameError(f"split of {name}", split, own)
    return [split or usual_split_of(*(rows if shared else [own])) for own in rows]


def _listed(names: Sequence[str], contents: Sequence[Sequence[str]]) -> str:
    """Return the contents of both tables as text."""
    return "; ".join(f"{name}: {', '.join(own)}" for name, own in zip(names, contents, strict=True))


def _longest(rows: pd.DataFrame, split: str) -> int:
    """Return the number of epochs of the longest training with this split."""
    return int(rows.loc[rows["split"] == split, "epochs"].max())


def _rows_like(
    table: pd.DataFrame,
    values: ArrayLike,
    dataset: str | None,
    split: str | None,
    epochs: int | None,
) -> pd.DataFrame:
    """Return accuracies [cells, seeds], labelled by cell, as long rows like those of `table`.

    They get the data set, the split and the number of epochs with which `table` is compared.
    """
    if not isinstance(values, pd.Series | pd.DataFrame):
        raise InputError(
            "compare takes two tables, or two arrays of accuracies, got a table and an array: "
            "give the array as a pandas Series or DataFrame with the numbers of the cells as index"
        )
    known = sorted(map(str, table["dataset"].unique()))
    if dataset is None and len(known) != 1:
        raise InputError(f"name the data set with dataset: the table has {', '.join(known)}")
    own = table[table["dataset"] == (dataset or known[0])]
    if own.empty:
        raise UnknownNameError("data set of the table", str(dataset), known)
    part = split or usual_split_of(own)
    frame = labelled(values).rename_axis(index="index")
    if not pd.api.types.is_integer_dtype(frame.index):
        raise InputError("the index of the accuracies must contain the numbers of the cells")
    long = frame.reset_index().melt("index", var_name="seed", value_name="accuracy").dropna()
    return long.assign(
        dataset=dataset or known[0],
        split=part,
        epochs=epochs or _longest(own, part),
    )


def _units(paired: Paired) -> list[str]:
    """Return notes on accuracies that are probably not in percent."""
    said = []
    for table in (paired.baseline, paired.other):
        if not table.measure.is_percent:
            continue
        least, most = table.means.min(), table.means.max()
        if 0 <= least <= most <= 1:
            said.append(
                f"{table.name}: no accuracy is above 1; if these are fractions, multiply them by "
                "100, because the difference of accuracies is printed in percentage points"
            )
        elif least < 0 or most > 100:
            wrong = least if least < 0 else most
            said.append(
                f"{table.name}: an accuracy is {wrong:g}; accuracies are percentages, from 0 to 100"
            )
    return said


def third_table(by: Ranked, dataset: str) -> Accuracies:
    """Return the accuracies that select the top K %, of all runs of the longest training.

    The data set is `dataset`. If the table lacks it, the table must have one data set with a longer
    or shorter form of this name, such as `cifar10-valid` for `cifar10`.
    """
    name = "the third table"
    if not _is_table(by):
        return replace(Paired.of_values(by, by).baseline, name=name)  # type: ignore[arg-type]  # no table
    try:
        if isinstance(by, str | Path | Table):
            name = _names(by, "")[0]
        rows = _long_rows(by)  # type: ignore[arg-type]  # a table
    except UnknownNameError as error:
        raise InputError(f"by takes a table: {error}") from error
    known = sorted(map(str, rows["dataset"].unique()))
    alike = [own for own in known if own == dataset] or [
        own for own in known if dataset.startswith(own) or own.startswith(dataset)
    ]
    if len(alike) > 1:
        raise InputError(f"{name} has the data sets {', '.join(alike)}: name one with dataset")
    if not alike:
        raise UnknownNameError(f"data set of {name}, which selects the top K %", dataset, known)
    rows = rows[rows["dataset"] == alike[0]]
    split = usual_split(rows["split"].unique())
    longest = _longest(rows, split)
    return read_accuracies(rows, dataset=alike[0], split=split, epochs=longest, name=name)


def _in_groups(paired: Paired, rows: Sequence[pd.DataFrame], column: str) -> Paired:
    """Return the pair with groups of cells, from the first table that has this column."""
    if not (paired.baseline.has_seeds and paired.other.has_seeds):
        raise InputError(
            f"groups={column} (--groups) needs two seeds in both tables: leave it out, or give "
            "tables with more seeds"
        )
    held = [own for own in rows if column in own.columns]
    if not held:
        known = sorted({str(name) for own in rows for name in own.columns})
        raise UnknownNameError("column of groups (--groups)", column, known)
    label = "item" if isinstance(paired.baseline.space, NamedItems) else "index"
    told = held[0][[label, column]].dropna().drop_duplicates()
    double = told.loc[told[label].duplicated(), label]
    if len(double):
        raise InputError(f"{double.iloc[0]} is in two groups of {column}: give it one group")
    group_of = told.set_index(label)[column].reindex(paired.baseline.cells)
    if group_of.isna().any():
        lacking = group_of.index[group_of.isna()][0]
        raise InputError(f"{lacking} has no group in the column {column}: give every cell a group")
    classes = np.unique(group_of.to_numpy(dtype=str), return_inverse=True)[1]
    note = f"the cells of a group ({column}) are one observation: {classes.max() + 1} groups"
    return replace(paired, classes=classes, notes=(*paired.notes, note))


def _equal(paired: Paired) -> bool:
    """Return whether both tables contain the same runs."""
    runs = (paired.baseline.runs, paired.other.runs)
    return paired.shared_seeds and np.array_equal(*runs, equal_nan=True)


def _is_table(ranked: Ranked) -> bool:
    return isinstance(ranked, str | Path | Table) or (
        isinstance(ranked, pd.DataFrame) and "accuracy" in ranked
    )


def _long_rows(ranked: str | Path | Table | pd.DataFrame) -> pd.DataFrame:
    if isinstance(ranked, pd.DataFrame) and "item" in ranked and "index" not in ranked:
        return Table.from_frame(ranked).frame()
    if isinstance(ranked, pd.DataFrame):
        if lacking := [name for name in REQUIRED if name not in ranked]:
            raise InputError(
                f"a frame to compare needs the columns {', '.join(REQUIRED)}; "
                f"{', '.join(lacking)} missing: rename or add them"
            )
        return ranked
    return (ranked if isinstance(ranked, Table) else open_table(ranked)).frame()


def _names(*tables: Ranked) -> list[str]:
    """Return the names of two sides of a comparison: the names of their tables.

    If both sides come from the same table, the names of the recipes are added.
    """
    names = []
    for table, plain in zip(tables, ("baseline", "other"), strict=True):
        if isinstance(table, Table):
            names.append(table.name)
        elif isinstance(table, Path):
            named = with_settings(str(table))
            names.append(table.stem if named == str(table) else named)
        elif isinstance(table, str):
            asked = not table or ":" in table  # the empty name of the third table, or settings
            names.append(table if asked else with_settings(table))
        else:
            names.append(plain)
    if names[0] == names[1]:  # two recipes of one table
        recipes = [table.recipe if isinstance(table, Table) else None for table in tables]
        names = [
            f"{name}@{recipe}" if recipe else name
            for name, recipe in zip(names, recipes, strict=True)
        ]
    return names
