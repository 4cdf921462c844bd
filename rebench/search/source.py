"""Which table a name on the command line means."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rebench.errors import InputError, MissingDataError
from rebench.tables import Table
from rebench.tables.longfile import read_long_file
from rebench.tables.synthetic import synthetic_table

__all__ = ["open_table", "table_label"]

_GENERATED = re.compile(r"generated(?::(\d+))?")


def open_table(name: str, *, recipe: str | None = None) -> Table:
    """Return the table that `name` means.

    Args:
        name: a Parquet or CSV file, a run's folder (its ``results.parquet``), either of them
            followed by ``@RECIPE``, or ``generated`` (``generated:SEED``) for a generated table to
            try things out on.
        recipe: whose trials to take from a re-trained table that holds several recipes.
    """
    path = Path(name)
    if not path.exists():
        if match := _GENERATED.fullmatch(name):
            return synthetic_table(int(match[1] or 0))
        if "@" in name:
            name, recipe = name.rsplit("@", 1)
            path = Path(name)
    file = path / "results.parquet" if path.is_dir() else path
    if not file.is_file():
        raise MissingDataError(
            f"no table at {file}; give a Parquet or CSV file, a run's folder after `rebench "
            "collect`, or `generated` for a generated table"
        )
    if file.suffix == ".csv":
        return Table.from_frame(read_long_file(file), name=path.stem)
    return Table.open(file, recipe=recipe if _holds_recipes(file) else None)


def _holds_recipes(path: Path) -> bool:
    try:
        return "recipe" in pq.read_schema(path).names
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is not a Parquet file: {error}") from error


def table_label(name: str, others: Collection[str] = ()) -> str:
    """Return what tables and figures call the table `name`, unlike the labels of the others."""
    label = Path(name).name.removesuffix(".parquet").removesuffix(".csv")
    number = 2
    unique = label
    while unique in others:
        unique, number = f"{label} ({number})", number + 1
    return unique
