"""Layout of a table on disk: one Parquet file, one row group per (data set, split, epochs).

Any Parquet reader can read this file. Because it is sorted, a query reads only two or three columns
of one row group. Other long tables (a run's ``results.parquet``, a frame in memory) are not sorted
and are grouped when they are read.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import InputError, StoreError, UnknownNameError
from rebench.tables.checks import check_once, check_values
from rebench.tables.columns import BENCHMARK_COLUMNS, COLUMNS, MEAN_SEED
from rebench.tables.meaning import Meaning
from rebench.tables.parquet import INGEST_AGAIN, ParquetFile, write_parquet

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CurveArrays",
    "CurveSource",
    "Floats",
    "FrameSource",
    "Ints",
    "Key",
    "ParquetSource",
    "Source",
    "curves_path",
    "is_indexed",
    "missing_group",
    "write_rows",
    "write_table",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_METADATA: Final = b"rebench.benchmark"


class Key(NamedTuple):
    """Group of a table: the training data set, the measured split, the number of epochs."""

    dataset: str
    split: str
    epochs: int

    def __str__(self) -> str:
        """Name the group in messages; 0 epochs are unknown."""
        epochs = f", {self.epochs} epochs" if self.epochs else ""
        return f"{self.dataset}, {self.split}{epochs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveArrays:
    """Metrics after every epoch, NaN where it was not evaluated; seconds of each epoch.

    If all epochs took the same time, `seconds` is None; the table contains that time.
    """

    accuracy: Floats
    loss: Floats
    seconds: Floats | None


class CurveSource(Protocol):
    """Source of a table's curves."""

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""

    def accuracies_after(self, key: Key, epochs: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""

    def of_rows(self, rows: pd.DataFrame) -> CurveSource | None:
        """Return the curves for rows of the same trials under other names, if trials are known."""


class FrameSource:
    """Long table in memory, with checked values."""

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        name: str,
        origin: str,
        meaning: Meaning = Meaning(),  # noqa: B008 - it cannot change
    ) -> None:
        self.name, self.origin, self.meaning = name, origin, meaning
        self._frame = frame.reset_index(drop=True)
        self.columns = tuple(self._frame.columns)
        groups = self._frame.groupby(list(Key._fields), observed=True).indices
        self._rows = {_key(*told): rows for told, rows in groups.items()}
        self.keys = tuple(self._rows)

    @functools.cached_property
    def means(self) -> frozenset[Key]:
        """The groups that hold means over unknown seeds only."""
        seeds = self._frame["seed"].to_numpy()
        return frozenset(k for k, rows in self._rows.items() if (seeds[rows] == MEAN_SEED).all())

    def read(self, key: Key, columns: Iterable[str]) -> dict[str, np.ndarray]:
        """Return columns of one group as arrays."""
        rows = self._rows[key]
        return {name: self._frame[name].to_numpy()[rows] for name in columns}

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """Return whole groups as a long frame."""
        parts = [self._rows[key] for key in keys]
        rows = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        return self._frame.iloc[rows].reset_index(drop=True)


def is_indexed(file: ParquetFile) -> bool:
    """Return whether `write_table` wrote a Parquet file, so that it can be read in groups."""
    return _METADATA in file.metadata


class ParquetSource:
    """Table written by `write_table`: the footer is read at once, columns when needed."""

    def __init__(self, file: ParquetFile) -> None:
        file.check_size()
        self._file = file
        try:
            described = json.loads(file.metadata[_METADATA])
            self.name, self.origin = described["name"], described["origin"]
            self.keys = tuple(Key(*key) for key in described["groups"])
            self._group = {key: number for number, key in enumerate(self.keys)}
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{file.path} is damaged ({error}): {INGEST_AGAIN}") from error
        self.columns = tuple(self._file.schema.names)
        self.meaning = Meaning.of_file(file.metadata, file.path)
        if self._file.groups != len(self.keys):
            raise StoreError(
                f"{file.path} is damaged (it names {len(self.keys)} groups and has "
                f"{self._file.groups}): {INGEST_AGAIN}"
            )

    @functools.cached_property
    def means(self) -> frozenset[Key]:
        """The groups that hold means over unknown seeds only."""
        largest = self._file.largest("seed").tolist()
        return frozenset(k for k, number in self._group.items() if largest[number] == MEAN_SEED)

    def __reduce__(self) -> tuple[type[ParquetSource], tuple[ParquetFile]]:
        return ParquetSource, (self._file,)

    def read(self, key: Key, columns: Iterable[str]) -> dict[str, np.ndarray]:
        """Return columns of one group as arrays."""
        table = self._file.read([self._group[key]], list(columns))
        return {name: table.column(name).to_numpy() for name in table.column_names}

    def frame(self, keys: Iterable[Key]) -> pd.DataFrame:
        """Return whole groups as a long frame."""
        numbers = [self._group[key] for key in keys]
        table = self._file.read(numbers)
        for name in ("dataset", "split"):
            place = table.column_names.index(name)
            table = table.set_column(place, name, table.column(name).cast(pa.string()))
        return table.to_pandas()


# Source of a table's columns.
Source: TypeAlias = FrameSource | ParquetSource


def missing_group(name: str, keys: Sequence[Key], key: Key) -> InputError:
    """Return an error that names the part of `key` that is not in the table `name`.

    A part that is None is any.
    """
    held = [k for k in keys if key.dataset in (None, k.dataset)]
    if not held:
        return UnknownNameError(f"data set of {name}", key.dataset, {k.dataset for k in keys})
    splits = {k.split for k in held}
    if key.split not in (None, *splits):
        return UnknownNameError(f"split of {name}", key.split, splits)
    epochs = sorted({k.epochs for k in held if key.split in (None, k.split)})
    rows = ", ".join(part for part in (key.dataset, key.split) if part) or "results"
    return InputError(
        f"{name} has {rows} after {' or '.join(map(str, epochs))} epochs, got {key.epochs}"
    )


@checked
def write_table(
    path: Path,
    frame: pd.DataFrame,
    *,
    name: str,
    origin: str,
    metadata: Mapping[bytes, bytes] | None = None,
    **options: Any,
) -> None:
    """Write a long table in our order; the file appears whole or not at all.

    Args:
        path: the file.
        frame: the rows.
        name: the name of the table.
        origin: ``published``, ``retrained`` or ``generated``.
        metadata: further entries of the file's metadata.
        options: arguments of `pyarrow.parquet.ParquetWriter`, such as encodings for a smaller file.
    """
    typed = check_once(check_values(frame, name), name)
    for dataset in typed["dataset"].unique():
        if dataset not in BENCHMARK:
            raise UnknownNameError(f"dataset in {name}", str(dataset), BENCHMARK)
    typed = typed.reindex(columns=list(BENCHMARK_COLUMNS))
    typed = typed.sort_values(["dataset", "split", "epochs", "index", "seed"], kind="stable")
    groups = {_key(*told): part for told, part in typed.groupby(list(Key._fields), observed=True)}
    described = {"schema": 1, "name": name, "origin": origin, "groups": list(groups)}
    made = {_METADATA: json.dumps(described).encode(), **(metadata or {})}
    schema = pa.schema(BENCHMARK_COLUMNS, metadata=made)
    usual: dict[str, Any] = {
        "compression_level": 6,
        "use_dictionary": ["dataset", "split", "epochs", "seed", "params_m", "mflops"],
        "write_statistics": ["index", "dataset", "split", "epochs", "seed"],
    }
    write_parquet(
        path,
        (pa.Table.from_pandas(part, schema, preserve_index=False) for part in groups.values()),
        schema,
        **usual | options,
    )


def write_rows(
    path: Path, rows: pd.DataFrame, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Write rows in long format, already checked, of any recipes; do not sort or group them."""
    columns = {column.name: column.kind for column in COLUMNS if column.name in rows.columns}
    schema = pa.schema(columns, metadata=metadata)
    table = pa.Table.from_pandas(rows[list(columns)], schema, preserve_index=False)
    write_parquet(path, [table], schema, compression_level=9)


def _key(dataset: object, split: object, epochs: int) -> Key:
    return Key(str(dataset), str(split), int(epochs))


def curves_path(path: Path) -> Path:
    """Return where the per-epoch curves of the table at `path` are.

    The curves are in the same folder. For a table in a folder ``tables`` they are in the folder
    ``curves`` next to ``tables``, if it exists: each folder then contains files with equal columns.
    """
    curves = path.parent.parent / "curves"
    if path.parent.name == "tables" and curves.is_dir():
        return curves / path.name
    return path.with_name(f"{path.stem}.curves.parquet")
