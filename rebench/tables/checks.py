"""Whether a long table holds what its columns promise; the first wrong value is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cells import SPACE_SIZE
from rebench.errors import InputError, UnknownNameError
from rebench.tables.answers import cell_index
from rebench.tables.columns import MEAN_SEED, REQUIRED, SPLITS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_frame", "check_values", "refuse"]

_LARGEST: Final = 2**31 - 1  # of the columns' type


def check_frame(frame: pd.DataFrame, name: str, *, datasets: Sequence[str] = ()) -> pd.DataFrame:
    """Return a long table of one recipe with its values checked, or say what is wrong with it.

    Messages call it `name`; it may be of any data set where `datasets` is empty.
    """
    typed = check_values(frame, name)
    for column, valid in (("dataset", datasets), ("split", SPLITS)):
        for value in typed[column].unique():
            if valid and value not in valid:
                raise UnknownNameError(f"{column} in {name}", str(value), valid)
    identity = list(REQUIRED[:5])
    double = typed.duplicated(identity)
    if double.any():
        row = typed.loc[double, identity].iloc[0].to_dict()
        raise InputError(f"{name}: {int(double.sum())} rows are there twice, the first: {row}")
    return typed


def check_values(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a long table, of any recipes and settings, with its required columns checked."""
    missing = [column for column in REQUIRED if column not in frame.columns]
    if missing:
        raise InputError(
            f"{name}: a long table needs the columns {', '.join(REQUIRED)}; "
            f"missing: {', '.join(missing)}"
        )
    typed: pd.DataFrame = frame.assign(
        index=_whole_numbers(frame["index"], name, 0, SPACE_SIZE - 1),
        epochs=_whole_numbers(frame["epochs"], name, 1),
        seed=_whole_numbers(frame["seed"], name, MEAN_SEED),
        accuracy=_percent(frame["accuracy"], name),
    )
    if "arch" in typed.columns:
        _check_architectures(typed, name)
    return typed


def _whole_numbers(
    column: pd.Series[Any], name: str, least: int, most: int = _LARGEST
) -> pd.Series[int]:
    """Return a column as whole numbers within bounds, or name the first row that holds none."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if pd.api.types.is_bool_dtype(column):
        numbers = numbers.astype(float) * np.nan
    wrong = ~(numbers.between(least, most) & (numbers % 1 == 0))
    rule = f"must be a whole number from {least} to {most}"
    refuse(column, wrong, f"{name}: {{place}}: {rule}, got {{value!r}}")
    return numbers.astype("int64")


def _percent(column: pd.Series[Any], name: str) -> pd.Series[float]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").astype("float64")
    # A run that tells nothing has no accuracy: NaN, and never a text or an infinite number.
    wrong = ~(numbers.between(0.0, 100.0) | column.isna())
    refuse(column, wrong, f"{name}: {{place}}: must be from 0 to 100 percent, got {{value!r}}")
    return numbers


def _check_architectures(typed: pd.DataFrame, name: str) -> None:
    index_of = {text: cell_index(str(text)) for text in typed["arch"].unique()}
    own = typed["arch"].astype(object).map(index_of)
    other = f"{name}: {{place}}: {{value!r}} is another cell than `index` says"
    refuse(typed["arch"], own != typed["index"], other)


def refuse(column: pd.Series[Any], wrong: pd.Series[bool], message: str) -> None:
    """Raise if any row is wrong; rows are counted from 1, below the names of the columns."""
    rows = np.flatnonzero(wrong.to_numpy(dtype=bool))
    if len(rows):
        row = int(rows[0])
        value = column.iloc[row]
        value = value.item() if isinstance(value, np.generic) else value
        raise InputError(message.format(place=f"row {row + 1}, column {column.name}", value=value))
