"""List of all columns: name, type, rule, place in a record, tables that have the column.

A benchmark's table, a run's ``results.parquet`` and a learning-rate surface by others are long
tables: a row per cell, data set, split, number of epochs and seed. Each has columns that the other
tables lack. The list is read from `columns.toml`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from rebench.extensions import entries

__all__ = [
    "BENCHMARK_COLUMNS",
    "BENCHMARK_CURVES",
    "COLUMNS",
    "LONGEST_NAME",
    "MEAN_SEED",
    "REQUIRED",
    "RULES",
    "RUN_COLUMNS",
    "RUN_CURVES",
    "SPLITS",
    "Column",
    "described",
    "in_words",
    "seed_name",
    "unknown_seed",
    "usual_split",
]

# Columns that every table has, with a value in every row.
REQUIRED: Final = ("index", "dataset", "split", "epochs", "seed", "accuracy")

_KINDS: Final[dict[str, pa.DataType]] = {
    "whole": pa.int32(),
    "real": pa.float64(),
    "text": pa.string(),
    "name": pa.dictionary(pa.int32(), pa.string()),  # a text that repeats in many rows
}


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a long table, and the rule for its values.

    Attributes:
        name: the name of the column.
        kind: the type of the values.
        meaning: the meaning of the values, in a line of Markdown.
        unit: the unit of the numbers, if they have a unit.
        place: the path in a record, with dots; None if the value is made of several values.
        held_by: the kinds of tables that have the column: every, or some of benchmark, run and
            surface (a surface is a table by others in which the settings of the training vary).
        least: the smallest valid number.
        most: the largest valid number.
        names: the valid texts, if only some texts are valid.
    """

    name: str
    kind: pa.DataType
    meaning: str
    place: str | None = None
    held_by: str = "run"
    least: float = 0
    most: float = 2**31 - 1
    names: tuple[str, ...] = ()
    unit: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the column contains whole numbers."""
        return self.kind == _KINDS["whole"]

    @property
    def is_number(self) -> bool:
        """Whether the column contains numbers."""
        return self.is_whole or self.kind == _KINDS["real"]

    @property
    def rule(self) -> str:
        """The rule for a value, for messages."""
        if self.names:
            return f"one of {', '.join(self.names)}"
        if not self.is_number:
            return (
                f"a text of up to {LONGEST_NAME} characters, without control characters and without"
                " spaces at its start or end"
            )
        kind = "a whole number" if self.is_whole else "a number"
        if math.isinf(self.least):
            return f"a finite {kind[2:]}"
        if math.isinf(self.most):
            return f"{kind} of at least {self.least:g}"
        unit = " percent" if self.name == "accuracy" else ""
        return f"{kind} from {self.least:.10g} to {self.most:.10g}{unit}"


def _column(name: str, *, kind: str, names: Iterable[str] = (), **entry: Any) -> Column:
    return Column(name, _KINDS[kind], names=tuple(names), **entry)


COLUMNS: Final = tuple(
    _column(name, **entry) for name, entry in entries(__file__, "columns.toml").items()
)
RULES: Final = {column.name: column for column in COLUMNS}
SPLITS: Final = RULES["split"].names

LONGEST_NAME: Final = 500
"""Maximum number of characters in the name of a recipe or a data set."""

# The seed of a mean over unknown seeds.
MEAN_SEED: Final = -1


def unknown_seed(run: int) -> int:
    """Return the `seed` of run 1, 2 or 3 of a cell with unknown seeds.

    It is negative, so it cannot be the seed of a training. Run 1 of two cells may have different
    seeds.
    """
    return MEAN_SEED - run


def seed_name(seed: int) -> str:
    """Return the name of a `seed`, for people: ``777``, ``run 1`` or ``mean``."""
    if seed == MEAN_SEED:
        return "mean"
    return str(seed) if seed > MEAN_SEED else f"run {MEAN_SEED - seed}"


def in_words(name: object) -> str:
    """Return a column's name in small letters, with its words joined by `_`."""
    return str(name).strip().lower().replace("-", "_").replace(" ", "_")


def usual_split(held: Iterable[str]) -> str:
    """Return the default split: the largest part of the test set in the table."""
    known = set(map(str, held))
    ours = [split for split in SPLITS if split in known]
    return ours[-1] if ours else min(known, default=SPLITS[-1])


def _held(table: str) -> dict[str, pa.DataType]:
    own = {"every", table}
    return {each.name: each.kind for each in COLUMNS if own & set(each.held_by.split(", "))}


BENCHMARK_COLUMNS: Final = _held("benchmark")
RUN_COLUMNS: Final = _held("run")

# Per-epoch curves. The benchmark's file has one row per curve, sorted by cell. The file of a run
# has one row per epoch.
BENCHMARK_CURVES: Final = {
    **{name: BENCHMARK_COLUMNS[name] for name in REQUIRED[:-1]},
    **dict.fromkeys(("accuracy", "loss", "seconds"), pa.list_(pa.float64())),
}
_CURVE_MEANINGS: Final = {
    "epoch": "number of the epoch, from 1",
    "accuracy": "top-1 accuracy after each epoch, in percent; empty without an evaluation",
    "loss": "mean cross-entropy loss after each epoch; empty without an evaluation",
    "seconds": "time of each epoch on this split",
}
RUN_CURVES: Final = {
    "trial_id": _KINDS["name"],
    "split": _KINDS["name"],
    "epoch": _KINDS["whole"],
    "accuracy": _KINDS["real"],
    "loss": _KINDS["real"],
}


def described(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which known columns have their meaning and unit as metadata."""
    curves = any(field.name == "epoch" or pa.types.is_list(field.type) for field in schema)
    meanings = {column.name: column.meaning for column in COLUMNS}
    meanings |= _CURVE_MEANINGS if curves else {}
    fields = []
    for field in schema:
        told = {"meaning": meanings.get(field.name, "")}
        told["unit"] = RULES[field.name].unit if field.name in RULES else ""
        known = {name: text for name, text in told.items() if text}
        fields.append(field.with_metadata({**(field.metadata or {}), **known}) if known else field)
    return pa.schema(fields, metadata=schema.metadata)
