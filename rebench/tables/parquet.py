"""Parquet files whose pages have checksums, which are verified when a page is read.

Files by others may have no checksums. They are read without this check.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rebench.errors import InputError, StoreError
from rebench.runs import atomic_file
from rebench.runs.files import status_of
from rebench.tables.columns import described

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "INGEST_AGAIN",
    "ParquetFile",
    "check_names",
    "collect_again",
    "file_state",
    "write_parquet",
]

# The remedy for a damaged file of the benchmark.
INGEST_AGAIN: Final = "`rebench table ingest` writes it again, or fetch it again"

_GROUP_ROWS: Final = 1 << 20
# The time to read a file grows with the square of this number.
_MOST_COLUMNS: Final = 50_000
# All cells on three data sets with three seeds and three splits have 421,875 rows a recipe.
_MOST_ROWS: Final = 20_000_000
_MOST_VALUES: Final = 30 * _MOST_ROWS


def collect_again(run: Path) -> str:
    """Return the remedy for a damaged file of a run, for messages."""
    return f"`rebench collect {run}` writes it again"


def check_names(names: Sequence[str], file: str) -> None:
    """Raise InputError for a file with too many columns, or with two columns of one name."""
    if len(names) > _MOST_COLUMNS:
        raise InputError(
            f"{file} has {len(names)} columns; at most {_MOST_COLUMNS} are accepted: remove the"
            " columns that do not describe a run"
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{file}: two columns are called {', '.join(twice)}")


def write_parquet(
    path: Path,
    tables: Iterable[pa.Table],
    schema: pa.Schema,
    **options: Any,
) -> str:
    """Write tables, each as a row group (several if the table is very long).

    Known columns get their meaning and unit as metadata. Return the state of the written file.

    Args:
        path: the file; it is written completely or not at all.
        tables: the tables in order; empty tables are skipped.
        schema: the schema of all tables, with the metadata to write.
        options: arguments of `pyarrow.parquet.ParquetWriter`.
    """
    schema = described(schema)
    with atomic_file(path) as unfinished:
        with pq.ParquetWriter(
            unfinished, schema, compression="zstd", write_page_checksum=True, **options
        ) as writer:
            for table in tables:
                if len(table):
                    writer.write_table(table, row_group_size=_GROUP_ROWS)
        return file_state(unfinished.stat())


def file_state(status: os.stat_result) -> str:
    """Return what identifies a written file, and stays the same when it gets its final name."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


class ParquetFile:
    """Parquet file that is read a row group and a column at a time.

    `remedy` is the remedy for a damaged file, for messages.
    """

    def __init__(self, path: Path, remedy: str = INGEST_AGAIN) -> None:
        self.path, self._remedy = path, remedy
        try:
            status_of(path)
            self._file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
            self.schema: pa.Schema = self._file.schema_arrow
            self.metadata: Mapping[bytes, bytes] = self._file.metadata.metadata or {}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{path} is not a Parquet file, or damaged ({_line(error)}): {remedy}"
            ) from error
        check_names(self.schema.names, str(path))

    def __reduce__(self) -> tuple[type[ParquetFile], tuple[Path, str]]:
        return ParquetFile, (self.path, self._remedy)

    @property
    def groups(self) -> int:
        """The number of row groups in the file."""
        return self._file.num_row_groups

    def verify(self) -> None:
        """Raise StoreError if any page is damaged."""
        for group in range(self.groups):
            self.read([group])

    def largest(self, column: str) -> np.ndarray:
        """Return the largest value of a column in every row group, from the footer."""
        place = self.schema.get_field_index(column)
        largest = []
        for group in range(self.groups):
            chunk = self._file.metadata.row_group(group).column(place)
            if chunk.statistics is None:
                raise self._damaged(f"its footer lacks the largest value of {column}")
            largest.append(chunk.statistics.max)
        return np.array(largest)

    def read(
        self, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the given row groups and columns, without metadata; None means all of them.

        Pandas would obey its metadata, which may name columns that do not exist.
        """
        groups = range(self.groups) if groups is None else groups
        columns = self.schema.names if columns is None else columns
        try:
            table = self._file.read_row_groups(
                list(groups), columns=list(columns), use_threads=False
            )
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(_line(error)) from error
        return table.replace_schema_metadata()

    def check_size(self) -> None:
        """Raise InputError if the footer tells of more rows or values than any table has."""
        rows, columns = self._file.metadata.num_rows, len(self.schema)
        if rows > _MOST_ROWS or rows * columns > _MOST_VALUES:
            raise InputError(
                f"{self.path} has {rows:,} rows and {columns:,} columns; at most {_MOST_ROWS:,}"
                f" rows and {_MOST_VALUES:,} values are accepted: split the file, or remove rows"
                " and columns"
            )

    def frame(self) -> pd.DataFrame:
        """Return the whole file as a frame, without an index that pandas numbered."""
        self.check_size()
        own = [name for name in self.schema.names if not name.startswith("__index_level_")]
        return self.read(columns=own).to_pandas()

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} is damaged ({what}): {self._remedy}")


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
