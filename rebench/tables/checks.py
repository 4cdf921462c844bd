"""Checks of the values of a long table; an error names the first wrong value.

Every table is checked here: files by others, runs, the benchmark's files, frames in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rebench.data import BENCHMARK
from rebench.errors import InputError
from rebench.printable import CONTROL
from rebench.spaces import NB201, NamedItems, Space
from rebench.tables.columns import COLUMNS, LONGEST_NAME, REQUIRED, RULES, Column
from rebench.tables.meaning import Meaning

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "check_column",
    "check_once",
    "check_values",
    "item_indices",
    "one_a_run",
    "scaled",
]


_LONGEST_TOLD: Final = 200
_SHOWN_NAMES: Final = 10


def check_once(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a checked table of one recipe if no row is duplicated; `name` is for messages."""
    identity = list(REQUIRED[:5])
    double = frame.duplicated(identity)
    if double.any():
        row = frame.loc[double, identity].iloc[0].to_dict()
        raise InputError(
            f"{name}: {int(double.sum())} rows are duplicates, the first: {row}; keep one row of "
            "each cell, data set, split, number of epochs and seed"
        )
    return frame


def one_a_run(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return rows of one recipe without equal duplicates; refuse two accuracies for one run.

    Args:
        rows: a long table with finite accuracies.
        name: the name of the recipe or table in messages.
    """
    identity = list(REQUIRED[:5])
    distinct = rows.drop_duplicates([*identity, "accuracy"])
    unequal = distinct[distinct.duplicated(identity)]
    if len(unequal):
        groups = unequal.groupby(list(REQUIRED[1:4]), observed=True, sort=False)
        (dataset, split, epochs), group = next(iter(groups))
        cells = group["index"].unique()
        raise InputError(
            f"{name}: {len(cells)} cells have two different accuracies for one seed of "
            f"{dataset} {split} after {epochs} epochs (first: cell {cells[0]}); keep one of each"
        )
    return distinct


def check_values(
    frame: pd.DataFrame,
    name: str,
    meaning: Meaning = Meaning(),  # noqa: B008 - it cannot change
) -> pd.DataFrame:
    """Return a long table, of any recipes and settings, with all its columns checked."""
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"{name}: two columns are called {twice[0]}")
    missing = [column for column in REQUIRED if column not in frame.columns]
    if missing:
        raise InputError(
            f"{name}: a long table needs the columns {', '.join(REQUIRED)}; "
            f"missing: {', '.join(missing)}{_remedy(frame, missing)}"
        )
    if frame.empty:
        raise InputError(f"{name}: no rows below the header; add a row per run")
    needed = {*REQUIRED, "recipe"} - {"accuracy"}
    checked = {}
    for column in COLUMNS:
        if column.name in frame.columns:
            rule = _rule_for(column, meaning)
            complete = column.name in needed
            checked[column.name] = check_column(frame[column.name], rule, name, complete=complete)
    typed: pd.DataFrame = frame.assign(**checked)
    # A failed run has no accuracy (only tables of recipes contain failed runs). A row of `train`
    # may contain costs only.
    if "recipe" not in frame.columns:
        lacking = typed["accuracy"].isna() & (typed["split"] != "train")
        _refuse_rule(frame["accuracy"], lacking, RULES["accuracy"], name)
    if "arch" in typed.columns:
        space = meaning.space
        other = f"{name}: {{place}}: {{value}} is not the {space.item} of the column index"
        _refuse(typed["arch"], item_indices(typed["arch"], name, space) != typed["index"], other)
    return typed


def _rule_for(column: Column, meaning: Meaning) -> Column:
    """Return the rule for a column in a table with this space and this measure."""
    if column.name == "index":
        return dataclasses.replace(column, most=meaning.space.size - 1)
    if column.name == "epochs" and isinstance(meaning.space, NamedItems):
        return dataclasses.replace(column, least=0)  # 0 is unknown
    if column.name == "accuracy" and not meaning.measure.is_percent:
        return dataclasses.replace(column, least=-math.inf, most=math.inf)
    return column


def _remedy(frame: pd.DataFrame, missing: list[str]) -> str:
    """Return how to give the missing columns, for messages."""
    theirs = [str(column) for column in frame.columns if column not in RULES]
    example = {}
    if theirs and "index" in missing:
        example["index"] = theirs[0]
    if theirs and "accuracy" in missing:
        example["accuracy"] = theirs[-1]
    if not example and {"index", "accuracy"} & set(missing):
        return ""
    values = [f" --{name} {_VALUES[name]}" for name in missing if name in _VALUES]
    pairs = ",".join(f"{ours}={column}" for ours, column in example.items())
    columns = f" --columns {pairs}" if pairs else ""
    command = f"`rebench table ingest FILE{columns}{''.join(values)} --out OUT.parquet`"
    if not example:
        return (
            f". {command} adds them. In Python, add the columns to the frame, or give "
            "rebench.Table.from_frame these values"
        )
    shown = ", ".join(theirs[:_SHOWN_NAMES]) + (", …" if len(theirs) > _SHOWN_NAMES else "")
    meant = " and ".join(f"{column} is the {ours}" for ours, column in example.items())
    arguments = ", ".join(f"{ours}={column!r}" for ours, column in example.items())
    return (
        f". Columns with other names: {shown}. Say with --columns OURS=THEIRS,... what they are. "
        f"For example, if {meant}: {command}. In Python: rebench.Table.from_frame(frame, "
        f"{arguments}, ...)"
    )


# Examples of a value for all rows.
_VALUES: Final = {"dataset": "cifar10", "epochs": "200"}


def scaled(frame: pd.DataFrame, name: str, *, fractions: bool) -> pd.DataFrame:
    """Return a table by others in percent; raise InputError if its unit is in doubt."""
    import pandas as pd

    accuracy = pd.to_numeric(frame["accuracy"], errors="coerce")
    looks = bool(accuracy.notna().any() and accuracy.max() <= 1)
    if fractions and not looks:
        raise InputError(
            f"{name}: accuracies up to {accuracy.max():g} are not fractions: leave --fractions out "
            "(in Python fractions=True)"
        )
    if looks and not fractions:
        raise InputError(
            f"{name}: no accuracy is above 1, but percent is expected. If they are fractions, "
            f"convert them with `rebench table ingest {name} --fractions --out OUT.parquet`, or in "
            "Python with rebench.Table.from_frame(frame, fractions=True)"
        )
    return frame.assign(accuracy=100 * accuracy) if fractions else frame


def check_column(
    values: pd.Series[Any], column: Column, name: str, *, complete: bool = False
) -> pd.Series[Any]:
    """Return the values of one column, or raise InputError for the first invalid row.

    Args:
        values: the values as read from the file; messages use the name of this series.
        column: the rule for the values.
        name: the name of the table in messages.
        complete: whether every row needs a value.
    """
    if column.is_number:
        return _numbers(values, column, name, complete=complete)
    _check_texts(values, column, name, complete=complete)
    return values


def _numbers(
    values: pd.Series[Any], column: Column, name: str, *, complete: bool
) -> pd.Series[Any]:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    if values.dtype == bool:
        numbers = numbers.astype(float) * np.nan
    elif values.dtype == object:
        numbers = numbers.mask(values.map(type).isin((bool, np.bool_)))
    wrong = ~(numbers.between(column.least, column.most) & (numbers < np.inf))
    if column.is_whole:
        wrong |= numbers % 1 != 0
    if not complete:
        wrong &= ~values.isna()
    _refuse_rule(values, wrong, column, name)
    whole = column.is_whole and not numbers.isna().any()
    return numbers.astype("int64" if whole else "float64")


def _check_texts(values: pd.Series[Any], column: Column, name: str, *, complete: bool) -> None:
    unfit = [
        value
        for value in values.unique()
        if not (_fits(value, column) or (_is_missing(value) and not complete))
    ]
    if unfit:
        _refuse_rule(values, values.isin(unfit) | (values.isna() & complete), column, name)
    if column.name == "dataset":
        known = {_plain(dataset): dataset for dataset in BENCHMARK}
        usual = values.astype(object).map(lambda value: known.get(_plain(value), value))
        other = values != usual
        meant = next(iter(usual[other]), "")
        _refuse(values, other, f"{name}: {{place}}: {{value}} must be spelt {meant}")


def _fits(value: Any, column: Column) -> bool:
    if column.names:
        return value in column.names
    if column.name not in (*REQUIRED, "recipe"):
        return True
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_NAME
        and value == value.strip()
        and not CONTROL.search(value)
    )


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _plain(dataset: str) -> str:
    return dataset.lower().replace("_", "-").replace(" ", "")


def item_indices(labels: pd.Series[Any], name: str, space: Space = NB201) -> pd.Series[int]:
    """Return the indices of items, or raise InputError for the first invalid row."""
    found: dict[Any, int | None] = {}
    for label in labels.unique():
        found[label] = None
        with contextlib.suppress(InputError, ValueError):  # the second: a CellError
            found[label] = space.find(str(label))
    own = labels.astype(object).map(found)
    wrong = f"{name}: {{place}}: {{value}} is not a {space.item}"
    if labels.name not in (None, "index", "arch"):
        wrong += f"; if these are names of other networks, write item={labels.name}"
    _refuse(labels, own.isna(), wrong)
    return own.astype("int64")


def _refuse_rule(values: pd.Series[Any], wrong: pd.Series[bool], column: Column, name: str) -> None:
    _refuse(values, wrong, f"{name}: {{place}}: must be {column.rule}, got {{value}}")


def _refuse(column: pd.Series[Any], wrong: pd.Series[bool], message: str) -> None:
    """Raise InputError for the first wrong row; rows are counted from 1, below the header."""
    rows = np.flatnonzero(wrong.to_numpy(dtype=bool))
    if len(rows):
        row = int(rows[0])
        value = column.iloc[row]
        value = value.item() if isinstance(value, np.generic) else value
        told = "no value" if _is_missing(value) else repr(value)
        short = told if len(told) <= _LONGEST_TOLD else f"{told[:_LONGEST_TOLD]}…"
        place = f"row {row + 1}, column {column.name}"
        # A name in the message may contain braces.
        raise InputError(message.replace("{place}", place).replace("{value}", short))
