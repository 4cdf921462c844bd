"""SQL queries of tables with DuckDB, if it is installed.

A query can read only the given tables: no file, no network, no extension, no settings. The size of
the answer is limited in DuckDB, before it is converted to Python objects.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rebench.errors import InputError, MissingDependencyError, UnsafeFileError
from rebench.machine import bounded_memory

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["query_sql"]

_LIMITS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # DuckDB allows queries to read and write its temporary folder (by default `.tmp`, here).
    "temp_directory": "",
    "memory_limit": "2GB",
    "threads": 2,
}
_TIME_LIMIT_S: Final = 60.0
# The time that an interrupted query gets to stop.
_GRACE_S: Final = 2.0
_MOST_ROWS: Final = 1_000_000
_MOST_CHARACTERS: Final = 1 << 28
# DuckDB limits the memory of its tables, not of the values that its functions make.
_MOST_BYTES: Final = 3 << 30
# Types with short values; the values of other types are measured.
_SHORT: Final = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN|DATE|TIME.*)")


def query_sql(
    text: str, tables: Mapping[str, pd.DataFrame], *, time_limit_s: float = _TIME_LIMIT_S
) -> list[dict[str, Any]]:
    """Return the rows of a query; `tables` gives the tables by name."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "SQL needs DuckDB: pip install 'nas-rebench[sql]' (or pip install duckdb)"
        ) from error
    known = ", ".join(f"{name} ({', '.join(rows.columns)})" for name, rows in tables.items())
    less = f"Reduce the query with a LIMIT, a WHERE or fewer columns of {known}"
    connection = duckdb.connect(config=_LIMITS)
    for name, rows in tables.items():
        connection.register(name, rows)
    connection.execute("SET lock_configuration = true")
    asked = _Asked(connection, text, known, less)
    try:
        with bounded_memory("the query", most_bytes=_MOST_BYTES):
            return asked.within(time_limit_s)
    except (duckdb.InterruptException, TimeoutError) as error:
        raise InputError(f"the query exceeded the limit of {time_limit_s:g} s. {less}") from error
    except (duckdb.OutOfMemoryException, UnsafeFileError) as error:
        raise InputError(
            f"the query exceeded the limit of {_MOST_BYTES >> 30} GB of memory. {less}"
        ) from error
    except (duckdb.Error, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{first} (tables and columns: {known})") from error


class _Asked(threading.Thread):
    """Thread that runs a query; the process does not wait for it.

    DuckDB checks for an interruption only between steps of its work, and never in some functions.
    """

    def __init__(self, connection: Any, *question: str) -> None:
        super().__init__(daemon=True)
        self._connection, self._question = connection, question
        self._rows: list[dict[str, Any]] = []
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            with self._connection:
                self._rows = _answer(self._connection, *self._question)
        except Exception as error:  # noqa: BLE001 - raised in `within`
            self._error = error

    def within(self, seconds: float) -> list[dict[str, Any]]:
        """Return the rows or raise the error of the query; raise TimeoutError after `seconds`."""
        self.start()
        self.join(seconds)
        if self.is_alive():
            self._connection.interrupt()
            self.join(_GRACE_S)
        if self.is_alive():
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._rows


def _answer(connection: Any, text: str, known: str, less: str) -> list[dict[str, Any]]:
    """Return the rows of a query, after DuckDB has checked their number and size."""
    # A CALL can end the process: `enable_logging` aborts in DuckDB 1.4 and 1.5.
    if any(one.type.name == "CALL" for one in connection.extract_statements(text)):
        raise InputError(f"CALL is disabled; write a SELECT over {known}")
    query = connection.sql(text)
    if query is None:
        raise InputError(f"the query has no result; write a SELECT over {known}")
    names, types = query.columns, list(map(str, query.types))
    values = [f"#{at} AS v{at}" for at in range(1, len(names) + 1)]
    sizes = [
        f"strlen(CAST(#{at} AS VARCHAR))"
        for at, kind in enumerate(types, 1)
        if not _SHORT.fullmatch(kind)
    ]
    size = " + ".join(f"coalesce({one}, 0)" for one in sizes) or "0"
    held = query.limit(_MOST_ROWS + 1).project(", ".join([*values, f"{size} AS size"]))
    # A separate schema, so that the name of a user's table cannot collide.
    connection.execute("CREATE SCHEMA held")
    held.create("held.answer")
    told = "SELECT count(*), coalesce(sum(size), 0) FROM held.answer"
    rows, characters = connection.execute(told).fetchone()
    if rows > _MOST_ROWS:
        raise InputError(f"the query exceeded the limit of {_MOST_ROWS} rows. {less}")
    if characters > _MOST_CHARACTERS:
        raise InputError(
            f"the answer has {characters} characters; the limit is {_MOST_CHARACTERS}. {less}"
        )
    found = connection.execute("SELECT * EXCLUDE (size) FROM held.answer").fetchall()
    return [dict(zip(names, row, strict=True)) for row in found]
