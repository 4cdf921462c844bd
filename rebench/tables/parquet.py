"""Parquet files with digests: every byte that is read is verified.

One key of the footer's metadata contains a digest of every column chunk and a digest of the footer
itself. The latter is computed with zeros in its place. The footer is verified when a file is
opened, a chunk when it is first read. Pages also have Parquet's checksums, for other readers. A
file without digests (by others, or by version 0.1.0) is read without verification.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import mmap
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
    "say_unverified",
    "write_parquet",
]

# The remedy for a damaged file of the benchmark.
INGEST_AGAIN: Final = "`rebench table ingest` writes it again, or fetch it again"

_log = logging.getLogger("rebench.tables")

_KEY: Final = b"rebench.digests"
_DIGITS: Final = 32
_TAIL_BYTES: Final = 8  # the footer's length and Parquet's mark
_GROUP_ROWS: Final = 1 << 20
# The time to read a file grows with the square of this number.
_MOST_COLUMNS: Final = 50_000
# All cells on three data sets with three seeds and three splits have 421,875 rows a recipe.
_MOST_ROWS: Final = 20_000_000
_MOST_VALUES: Final = 30 * _MOST_ROWS


@functools.cache  # one warning per file
def say_unverified(path: Path) -> None:
    """Warn that a file has no digest, so damage cannot be detected."""
    _log.warning(
        "%s is not verified: it has no digest; `rebench export table` writes a file with a digest",
        path,
    )


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
) -> None:
    """Write tables with their digests, each as a row group (several if the table is very long).

    Known columns get their meaning and unit as metadata.

    Args:
        path: the file; it is written completely or not at all.
        tables: the tables in order; empty tables are skipped.
        schema: the schema of all tables, with the metadata to write.
        options: arguments of `pyarrow.parquet.ParquetWriter`.
    """
    schema = described(schema)
    with atomic_file(path) as unfinished:
        chunks = 0
        with pq.ParquetWriter(
            unfinished, schema, compression="zstd", write_page_checksum=True, **options
        ) as writer:
            for table in tables:
                for start in range(0, len(table), _GROUP_ROWS):
                    part = table.slice(start, _GROUP_ROWS)
                    writer.write_table(part, row_group_size=len(part))
                    chunks += len(schema)
            writer.add_key_value_metadata({_KEY: b"0" * _DIGITS * (chunks + 1)})
        _seal(unfinished)


def _seal(path: Path) -> None:
    """Replace the zeros in the footer by digests."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        metadata = pq.read_metadata(path)
        start, end = _footer(content)
        zeros = metadata.metadata[_KEY]
        at = content.find(zeros, start, end)
        for chunk in range(len(zeros) // _DIGITS - 1):
            first, stop = _span(metadata, chunk)
            content[at : at + _DIGITS] = _digest(content[first:stop])
            at += _DIGITS
        content[at : at + _DIGITS] = _digest(content[start:end])


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:_DIGITS].encode()


def _footer(content: mmap.mmap) -> tuple[int, int]:
    """Return where the footer starts and ends."""
    end = len(content) - _TAIL_BYTES
    return end - int.from_bytes(content[end : end + 4], "little"), end


def _span(metadata: pq.FileMetaData, chunk: int) -> tuple[int, int]:
    """Return where a column chunk starts and ends; chunks are counted by row group."""
    group, place = divmod(chunk, metadata.num_columns)
    column = metadata.row_group(group).column(place)
    start = column.dictionary_page_offset or column.data_page_offset
    return start, start + column.total_compressed_size


class ParquetFile:
    """Parquet file that is read a row group and a column at a time, and verified.

    `remedy` is the remedy for a damaged file, for messages.
    """

    def __init__(self, path: Path, remedy: str = INGEST_AGAIN) -> None:
        self.path, self._remedy = path, remedy
        try:
            status_of(path)
            self._file = pq.ParquetFile(path, memory_map=True)
            self.schema: pa.Schema = self._file.schema_arrow
            self.metadata: Mapping[bytes, bytes] = self._file.metadata.metadata or {}
            with path.open("rb") as file:
                self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{path} is not a Parquet file, or damaged ({_line(error)}): {remedy}"
            ) from error
        self._verified: set[int] = set()
        self._digests = self.metadata.get(_KEY)
        if self._digests is not None:
            self._verify_footer(self._digests)
        else:
            say_unverified(path)
        check_names(self.schema.names, str(path))

    def __reduce__(self) -> tuple[type[ParquetFile], tuple[Path, str]]:
        return ParquetFile, (self.path, self._remedy)

    @property
    def groups(self) -> int:
        """The number of row groups in the file."""
        return self._file.num_row_groups

    @property
    def digest(self) -> str:
        """The digest of the footer, which contains all other digests; empty without digests."""
        return (self._digests or b"")[-_DIGITS:].decode()

    def verify(self) -> None:
        """Raise StoreError if any column is damaged."""
        if self._digests is not None:
            self._verify(self._digests, range(self.groups), self.schema.names)

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
        if self._digests is not None:
            self._verify(self._digests, groups, columns)
        try:
            table = self._file.read_row_groups(
                list(groups), columns=list(columns), use_threads=False
            )
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

    def _verify_footer(self, digests: bytes) -> None:
        start, end = _footer(self._content)
        footer = self._content[start:end]
        place = footer.find(digests) + len(digests) - _DIGITS
        told = footer[place : place + _DIGITS]
        blank = footer[:place] + b"0" * _DIGITS + footer[place + _DIGITS :]
        if _digest(blank) != told:
            raise self._damaged("its footer does not match its digest")

    def _verify(self, digests: bytes, groups: Sequence[int], columns: Sequence[str]) -> None:
        for group, name in itertools.product(groups, columns):
            chunk = group * len(self.schema) + self.schema.get_field_index(name)
            if chunk in self._verified:
                continue
            start, stop = _span(self._file.metadata, chunk)
            told = digests[chunk * _DIGITS : (chunk + 1) * _DIGITS]
            if _digest(self._content[start:stop]) != told:
                raise self._damaged(f"column {name} does not match its digest")
            self._verified.add(chunk)

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} is damaged ({what}): {self._remedy}")


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
