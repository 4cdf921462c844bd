"""How a table lies on disk: one Parquet file, one row group per (data set, split, epochs).

A long table of accuracies sorted that way is an ordinary Parquet file to everyone else, and lets
one question read one row group's two or three columns. Other long tables (a run's
``results.parquet``, a frame in memory) have no such order and are grouped when they are read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cells import SPACE_SIZE
from rebench.datasets import BENCHMARK
from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.store import atomic_file
from rebench.tables.columns import BENCHMARK_COLUMNS, REQUIRED, SPLITS

__all__ = [
    "FrameSource",
    "Key",
    "ParquetSource",
    "Source",
    "check_frame",
    "curves_path",
    "is_indexed",
    "missing_group",
    "write_table",
]

_METADATA: Final = b"rebench.benchmark"


class Key(NamedTuple):
    """One group of a table: what was trained on, what was measured, after how many epochs."""

    dataset: str
    split: str
    epochs: int

    def __str__(self) -> str:
        """Name the group in messages."""
        return f"{self.dataset}, {self.split}, {self.epochs} epochs"


class Source(Protocol):
    """Where a table's columns come from."""

    name: str
    origin: str
    keys: tuple[Key, ...]
    columns: tuple[str, ...]

    def read(self, key: Key, columns: Iterable[str]) -> dict[str, np.ndarray]:
        """Return columns of one group as arrays, rows in the source's order."""

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """Return whole groups as a long frame."""


class FrameSource:
    """A long table in memory."""

    def __init__(self, frame: pd.DataFrame, *, name: str, origin: str) -> None:
        self.name, self.origin = name, origin
        self._frame = check_frame(frame, name).reset_index(drop=True)
        self.columns = tuple(self._frame.columns)
        ordered = self._frame.sort_values(list(Key._fields), kind="stable")
        rows = ordered.index.to_numpy()
        self._rows = {key: rows[start:stop] for key, start, stop in _runs(ordered)}
        self.keys = tuple(self._rows)

    def read(self, key: Key, columns: Iterable[str]) -> dict[str, np.ndarray]:
        """Return columns of one group as arrays."""
        rows = self._frame.iloc[self._rows[key]]
        return {name: rows[name].to_numpy() for name in columns}

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """Return whole groups as a long frame."""
        parts = [self._rows[key] for key in keys]
        rows = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        chosen: pd.DataFrame = self._frame.iloc[rows].reset_index(drop=True)
        return chosen


def is_indexed(path: Path) -> bool:
    """Return whether `write_table` wrote a Parquet file: it can then be read in groups."""
    try:
        return _METADATA in (pq.read_schema(path, memory_map=True).metadata or {})
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is not a Parquet file: {error}") from error


class ParquetSource:
    """A table written by `write_table`: the footer is read at once, columns when asked for."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, memory_map=True)
        described = json.loads(self._file.schema_arrow.metadata[_METADATA])
        self.name, self.origin = described["name"], described["origin"]
        self.keys = tuple(Key(*key) for key in described["groups"])
        self.columns = tuple(self._file.schema_arrow.names)
        if self._file.num_row_groups != len(self.keys):
            raise MissingDataError(
                f"{path} names {len(self.keys)} groups and holds {self._file.num_row_groups}; "
                f"ingest the benchmark again"
            )
        self._group = {key: number for number, key in enumerate(self.keys)}

    def read(self, key: Key, columns: Iterable[str]) -> dict[str, np.ndarray]:
        """Return columns of one group as arrays."""
        table = self._file.read_row_group(
            self._group[key], columns=list(columns), use_threads=False
        )
        return {name: table.column(name).to_numpy() for name in table.column_names}

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """Return whole groups as a long frame."""
        numbers = [self._group[key] for key in keys]
        table = self._file.read_row_groups(numbers, use_threads=False)
        for name in ("dataset", "split"):
            place = table.column_names.index(name)
            table = table.set_column(place, name, table.column(name).cast(pa.string()))
        frame: pd.DataFrame = table.to_pandas()
        return frame


def check_frame(frame: pd.DataFrame, name: str, *, datasets: Sequence[str] = ()) -> pd.DataFrame:
    """Return a long table with the columns' types checked, or say what is wrong with it.

    Args:
        frame: the table.
        name: what messages call it.
        datasets: the data sets there may be; any, where this is empty.
    """
    missing = [column for column in REQUIRED if column not in frame.columns]
    if missing:
        raise InputError(
            f"{name}: a long table needs the columns {', '.join(REQUIRED)}; "
            f"missing: {', '.join(missing)}"
        )
    try:
        typed: pd.DataFrame = frame.astype(
            {"index": "int64", "epochs": "int64", "seed": "int64", "accuracy": "float64"}
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error
    outside = typed.loc[~typed["index"].between(0, SPACE_SIZE - 1), "index"]
    if len(outside):
        raise InputError(f"{name}: index must be in 0..{SPACE_SIZE - 1}, got {outside.iloc[0]}")
    for column, valid in (("dataset", datasets), ("split", SPLITS)):
        for value in typed[column].unique():
            if valid and value not in valid:
                raise UnknownNameError(f"{column} in {name}", str(value), valid)
    identity = list(REQUIRED[:5])
    double = typed.duplicated(identity)
    if double.any():
        row = typed.loc[double, identity].iloc[0].to_dict()
        raise InputError(f"{name}: {int(double.sum())} rows are there twice, the first: {row}")
    return typed


def missing_group(name: str, keys: Sequence[Key], key: Key) -> InputError:
    """Return an error that says which part of `key` the table called `name` does not hold."""
    options = (
        ("data set", key.dataset, {k.dataset for k in keys}),
        ("split", key.split, {k.split for k in keys if k.dataset == key.dataset}),
    )
    for kind, value, valid in options:
        if value not in valid:
            return UnknownNameError(f"{kind} of {name}", value, valid)
    epochs = sorted({k.epochs for k in keys if k[:2] == key[:2]})
    return InputError(
        f"{name} holds {key.dataset}, {key.split} after "
        f"{' or '.join(map(str, epochs))} epochs, got {key.epochs}"
    )


def write_table(path: Path, frame: pd.DataFrame, *, name: str, origin: str) -> None:
    """Write a long table in our order; the file appears whole or not at all."""
    typed = check_frame(frame, name, datasets=tuple(BENCHMARK))
    typed = typed.reindex(columns=list(BENCHMARK_COLUMNS))
    typed = typed.sort_values(["dataset", "split", "epochs", "index", "seed"], kind="stable")
    groups = list(_runs(typed))
    described = {
        "schema": 1, "name": name, "origin": origin, "groups": [list(key) for key, _, _ in groups]
    }  # fmt: skip
    schema = pa.schema(BENCHMARK_COLUMNS, metadata={_METADATA: json.dumps(described).encode()})
    with (
        atomic_file(path) as unfinished,
        pq.ParquetWriter(
            unfinished,
            schema,
            compression="zstd",
            compression_level=6,
            use_dictionary=["dataset", "split", "epochs", "seed", "params_m", "mflops"],
            write_statistics=["index", "dataset", "split", "epochs", "seed"],
        ) as writer,
    ):
        for _, start, stop in groups:
            table = pa.Table.from_pandas(typed.iloc[start:stop], schema, preserve_index=False)
            writer.write_table(table, row_group_size=max(1, stop - start))


def _runs(frame: pd.DataFrame) -> Iterator[tuple[Key, int, int]]:
    if frame.empty:
        return
    columns = [frame[name].to_numpy() for name in Key._fields]
    change = np.zeros(len(frame), dtype=bool)
    change[0] = True
    for column in columns:
        change[1:] |= column[1:] != column[:-1]
    starts = [*np.flatnonzero(change).tolist(), len(frame)]
    for start, stop in itertools.pairwise(starts):
        dataset, split, epochs = (column[start] for column in columns)
        yield Key(str(dataset), str(split), int(epochs)), start, stop


def curves_path(path: Path) -> Path:
    """Return where the per-epoch curves of the table at `path` lie."""
    return path.with_name(f"{path.stem}.curves.parquet")
