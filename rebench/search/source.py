"""Which table a name on the command line means."""

from __future__ import annotations

import re
from pathlib import Path

from rebench.benchmark import BenchmarkTable
from rebench.benchmark.longfile import read_long_file
from rebench.benchmark.synthetic import synthetic_table
from rebench.errors import MissingDataError

__all__ = ["open_table"]

_GENERATED = re.compile(r"generated(?::(\d+))?")


def open_table(name: str, *, recipe: str | None = None) -> BenchmarkTable:
    """Return the table that `name` means.

    Args:
        name: a Parquet or CSV file, a run's folder (its ``results.parquet``), or ``generated``
            (``generated:SEED``) for a generated table to try things out on.
        recipe: whose trials to take from a re-trained table that holds several recipes.
    """
    path = Path(name)
    if (match := _GENERATED.fullmatch(name)) and not path.exists():
        return synthetic_table(int(match[1] or 0))
    if path.is_dir():
        path /= "results.parquet"
    if not path.is_file():
        raise MissingDataError(
            f"no table at {path}; give a Parquet or CSV file, a run's folder after `rebench "
            "collect`, or `generated` for a generated table"
        )
    if path.suffix == ".csv":
        return BenchmarkTable.from_frame(read_long_file(path), name=path.stem)
    return BenchmarkTable.open(path, recipe=recipe)
