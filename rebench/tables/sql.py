"""SQL over tables, by DuckDB where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rebench.errors import InputError, MissingDependencyError

__all__ = ["query_sql"]


def query_sql(text: str, tables: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Return the rows of a query in which every table is known by its name."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "SQL needs DuckDB: pip install 'nas-rebench[sql]' (or pip install duckdb)"
        ) from error
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        try:
            answer = connection.execute(text)
            names = [column[0] for column in answer.description or []]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        except duckdb.Error as error:
            first = str(error).partition("\n")[0]
            raise InputError(f"{first} (tables: {', '.join(tables)})") from error
