"""SQL over tables, by DuckDB where it is installed: a question of the rows that it is handed.

A query sees these tables and nothing else: no file, no network, no extension, no settings.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rebench.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["query_sql"]

_LIMITS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "2GB",
    "threads": 2,
}
_TIME_LIMIT_S: Final = 60.0
_MOST_ROWS: Final = 1_000_000


def query_sql(
    text: str, tables: Mapping[str, pd.DataFrame], *, time_limit_s: float = _TIME_LIMIT_S
) -> list[dict[str, Any]]:
    """Return the rows of a query in which every table is known by its name."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "SQL needs DuckDB: pip install 'nas-rebench[sql]' (or pip install duckdb)"
        ) from error
    known = ", ".join(f"{name} ({', '.join(rows.columns)})" for name, rows in tables.items())
    with duckdb.connect(config=_LIMITS) as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        connection.execute("SET lock_configuration = true")
        clock = threading.Timer(time_limit_s, connection.interrupt)
        clock.start()
        try:
            answer = connection.execute(text)
            names = [column[0] for column in (answer and answer.description) or []]
            found = answer.fetchmany(_MOST_ROWS + 1) if names else []
        except duckdb.InterruptException as error:
            raise InputError(
                f"the query took more than {time_limit_s:g} s: ask for less of {known}"
            ) from error
        except (duckdb.Error, RuntimeError, MemoryError) as error:
            first = str(error).partition("\n")[0]
            raise InputError(f"{first} (tables and columns: {known})") from error
        finally:
            clock.cancel()
    if not names:
        raise InputError(f"the query asks for nothing; write a SELECT over {known}")
    if len(found) > _MOST_ROWS:
        raise InputError(f"the query has more than {_MOST_ROWS} rows: add a LIMIT or a WHERE")
    return [dict(zip(names, row, strict=True)) for row in found]
