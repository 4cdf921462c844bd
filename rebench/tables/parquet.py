"""Parquet files that notice damage: every byte that is read is held against a digest.

The footer holds, under one key of its metadata, a digest of every column chunk and, last, one of
the footer itself with its own digest as zeros. The footer is verified when a file is opened, a
chunk when it is first read. Pages carry Parquet's own checksums too, for other readers. A file
without digests (by others, or by version 0.1.0) is read as it is.
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

# What mends a damaged file of the benchmark's.
INGEST_AGAIN: Final = "`rebench table ingest` writes it again, or fetch it again"

_log = logging.getLogger("rebench.tables")

_KEY: Final = b"rebench.digests"
_DIGITS: Final = 32
_TAIL_BYTES: Final = 8  # the footer's length and Parquet's mark
_GROUP_ROWS: Final = 1 << 20
# Readers take time with the square of it.
_MOST_COLUMNS: Final = 50_000


@functools.cache  # once a file is enough
def say_unverified(path: Path) -> None:
    """Say that nothing tells whether a file is what was written."""
    _log.warning(
        "%s is not verified: it carries no digest, as `rebench export table` writes one",
        path,
    )


def collect_again(run: Path) -> str:
    """Return what mends a damaged file of a run, for messages."""
    return f"`rebench collect {run}` writes it again"


def check_names(names: Sequence[str], file: str) -> None:
    """Raise InputError for a file with more columns than a table may have, or two of a name."""
    if len(names) > _MOST_COLUMNS:
        raise InputError(
            f"{file} has {len(names)} columns, and a table may have {_MOST_COLUMNS}: leave out"
            " those that say nothing of a run"
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
    """Write tables with their digests, each as a row group (or as several if it is very long).

    Columns that are ours get their meaning and unit as metadata.

    Args:
        path: the file, which appears whole or not at all.
        tables: in order; an empty one is passed over.
        schema: of all of them, with the metadata to write.
        options: of `pyarrow.parquet.ParquetWriter`.
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
    """Put digests where the writer left zeros."""
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
    """A Parquet file that is read a row group and a column at a time, and verified.

    `remedy` is what to do if it is damaged, for messages.
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
        """How many row groups the file has."""
        return self._file.num_row_groups

    @property
    def digest(self) -> str:
        """The digest of the footer, and so of all that it has digests of; empty without any."""
        return (self._digests or b"")[-_DIGITS:].decode()

    def verify(self) -> None:
        """Raise StoreError unless every column is what was written."""
        if self._digests is not None:
            self._verify(self._digests, range(self.groups), self.schema.names)

    def largest(self, column: str) -> np.ndarray:
        """Return the largest value of a column in every row group, as the footer tells it."""
        place = self.schema.get_field_index(column)
        largest = []
        for group in range(self.groups):
            chunk = self._file.metadata.row_group(group).column(place)
            if chunk.statistics is None:
                raise self._damaged(f"its footer does not tell the largest {column}")
            largest.append(chunk.statistics.max)
        return np.array(largest)

    def read(
        self, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return row groups, or all, with some of their columns, or all."""
        groups = range(self.groups) if groups is None else groups
        columns = self.schema.names if columns is None else columns
        if self._digests is not None:
            self._verify(self._digests, groups, columns)
        try:
            return self._file.read_row_groups(
                list(groups), columns=list(columns), use_threads=False
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(_line(error)) from error

    def frame(self) -> pd.DataFrame:
        """The whole file as a frame."""
        return self.read().to_pandas()

    def _verify_footer(self, digests: bytes) -> None:
        start, end = _footer(self._content)
        footer = self._content[start:end]
        place = footer.find(digests) + len(digests) - _DIGITS
        told = footer[place : place + _DIGITS]
        blank = footer[:place] + b"0" * _DIGITS + footer[place + _DIGITS :]
        if _digest(blank) != told:
            raise self._damaged("its footer is not what was written")

    def _verify(self, digests: bytes, groups: Sequence[int], columns: Sequence[str]) -> None:
        for group, name in itertools.product(groups, columns):
            chunk = group * len(self.schema) + self.schema.get_field_index(name)
            if chunk in self._verified:
                continue
            start, stop = _span(self._file.metadata, chunk)
            told = digests[chunk * _DIGITS : (chunk + 1) * _DIGITS]
            if _digest(self._content[start:stop]) != told:
                raise self._damaged(f"column {name} is not what was written")
            self._verified.add(chunk)

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} is damaged ({what}): {self._remedy}")


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
