"""Tables by others with other column names, or with a column for each seed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rebench.errors import InputError, UnknownNameError
from rebench.spaces import NB201, Space
from rebench.tables.checks import item_indices
from rebench.tables.columns import REQUIRED, RULES, unknown_seed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Naming"]

_USUAL_SPLIT: Final = "ori-test"
# The data set of a table of names, unless the table or the user names another.
_SCORES: Final = "scores"
_NUMBER: Final = re.compile(r"(\d{1,9})\D*$", re.ASCII)
_MOST_UNKNOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Column names in a table by others, and constant values for all rows.

    Attributes:
        columns: our name -> name of the column; for `accuracy` also several columns, one per seed.
            `*` in a name matches any text.
        constants: one value for all rows, by our name.
    """

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Mapping[str, Any], constants: Mapping[str, Any]) -> Naming:
        """Return a naming: a column is one or several texts; a constant that is None is ignored."""
        return cls(
            columns={k: [v] if isinstance(v, str) else list(v) for k, v in columns.items()},
            constants={k: v for k, v in constants.items() if v is not None},
        )

    @classmethod
    def parse(cls, text: str | None, **constants: Any) -> Naming:
        """Return the naming in a text such as ``index=arch_id,seed=run,accuracy=test_acc``.

        Args:
            text: pairs of our name and their name; `accuracy` may occur several times.
            constants: one value for all rows, by our name; None is ignored.
        """
        columns: dict[str, list[str]] = {}
        for pair in (text or "").split(",") if text else ():
            ours, equals, theirs = pair.partition("=")
            if not equals or not theirs.strip():
                raise InputError(
                    f"--columns takes pairs OURS=THEIRS, such as index=arch_id,accuracy=test_acc; "
                    f"got {pair!r}"
                )
            columns.setdefault(ours.strip(), []).append(theirs.strip())
        return cls.of(columns, constants)

    def __bool__(self) -> bool:
        """Return whether any column or constant is named."""
        return bool(self.columns or self.constants)

    def rows(self, frame: pd.DataFrame, name: str, space: Space = NB201) -> pd.DataFrame:
        """Return the rows of a table called `name` under our names.

        An item is named by its index or its label in `space`. Without a column of seeds the runs of
        an item are run 1, 2, 3. The default split is ``ori-test``.
        """
        theirs = self._found(frame, name)
        taken = {column for columns in theirs.values() for column in columns}
        rows = frame[[c for c in frame.columns if c in RULES and c not in {*theirs, *taken}]]
        rows = rows.assign(
            **{ours: frame[found[0]] for ours, found in theirs.items() if len(found) == 1}
        )
        for ours, value in self.constants.items():
            if ours in rows.columns:
                raise InputError(f"{name} already has a column {ours}: remove {ours}={value!r}")
            rows = rows.assign(**{ours: value})
        if "index" not in rows.columns and "arch" in rows.columns:
            rows = rows.rename(columns={"arch": "index"})
        if "index" in rows.columns and rows["index"].dtype.kind not in "iuf":
            called = rows["index"].rename(theirs.get("index", ["index"])[0])
            rows = rows.assign(index=item_indices(called, name, space))
        if "item" in rows.columns:
            usual = {"dataset": _SCORES, "epochs": 0}
            rows = rows.assign(**{k: v for k, v in usual.items() if k not in rows.columns})
        if len(theirs.get("accuracy", ())) > 1:
            rows = _long(rows, frame, theirs["accuracy"], name)
        if "split" not in rows.columns:
            rows = rows.assign(split=_USUAL_SPLIT)
        return rows if "seed" in rows.columns else _numbered(rows, name)

    def _found(self, frame: pd.DataFrame, name: str) -> dict[str, list[str]]:
        """Return the columns that match, by our name."""
        known = [str(column) for column in frame.columns]
        theirs = {}
        for ours, asked in self.columns.items():
            if ours not in RULES:
                raise UnknownNameError("column of a table", ours, RULES)
            found = [column for pattern in asked for column in fnmatch.filter(known, pattern)]
            lacking = [pattern for pattern in asked if not fnmatch.filter(known, pattern)]
            if lacking:
                raise InputError(
                    f"{name} has no column {lacking[0]}; its columns are {', '.join(known)}"
                )
            if len(found) > 1 and ours != "accuracy":
                raise InputError(
                    f"{name}: {ours} is one column, got {', '.join(found)}; only accuracy may be "
                    f"several columns, one a seed"
                )
            theirs[ours] = found
        return theirs


def _long(
    rows: pd.DataFrame, frame: pd.DataFrame, columns: Sequence[str], name: str
) -> pd.DataFrame:
    """Return a row a run from a table with a column for each seed; skip empty values."""
    import pandas as pd

    if "seed" in rows.columns:
        raise InputError(
            f"{name} has a column of seeds and {len(columns)} columns of accuracies: name one "
            f"column as accuracy, or no column as seed"
        )
    seeds = _seeds(columns, name)
    parts = [
        rows.assign(seed=seed, accuracy=frame[column])[frame[column].notna()]
        for seed, column in zip(seeds, columns, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def _seeds(columns: Sequence[str], name: str) -> list[int]:
    """Return the seeds at the end of the column names, or else numbers of runs."""
    numbers = [_NUMBER.search(column) for column in columns]
    seeds = [int(number[1]) for number in numbers if number]
    if len(set(seeds)) == len(columns):
        return seeds
    if len(columns) > _MOST_UNKNOWN:
        raise InputError(
            f"{name}: the seeds of {len(columns)} columns ({', '.join(columns)}) are not known: "
            f"put the seed at the end of each name, such as acc_777"
        )
    return [unknown_seed(run) for run in range(1, len(columns) + 1)]


def _numbered(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return rows with numbers of runs as seeds, in the order of the rows."""
    own = [c for c in (*REQUIRED, "item", "recipe") if c in rows.columns and c != "accuracy"]
    runs = rows.groupby(own, observed=True, dropna=False).cumcount() + 1 if own else rows.index + 1
    if len(runs) and max(runs) > _MOST_UNKNOWN:
        raise InputError(
            f"{name}: a cell has {max(runs)} rows without a column of seeds: name that column, "
            f"such as seed=run"
        )
    return rows.assign(seed=[unknown_seed(int(run)) for run in runs])
