"""Per-epoch curves of a table, in a second file beside it, read a few cells at a time."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rebench.tables.layout import COLUMNS, Key

__all__ = ["CURVE_COLUMNS", "Curve", "CurveFile", "Curves"]

CURVE_COLUMNS: Final[dict[str, pa.DataType]] = {
    **{name: COLUMNS[name] for name in ("index", "dataset", "split", "epochs", "seed")},
    "accuracy": pa.list_(pa.float64()),
    "loss": pa.list_(pa.float64()),
    "seconds": pa.list_(pa.float64()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Metrics after every epoch, NaN where it was not evaluated; seconds of each epoch.

    `seconds` is None where every epoch took the same time, which the table itself says.
    """

    accuracy: NDArray[np.float64]
    loss: NDArray[np.float64]
    seconds: NDArray[np.float64] | None


class Curves(Protocol):
    """Where a table's curves come from."""

    def of(self, index: int) -> dict[tuple[Key, int], Curve]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""


class CurveFile:
    """A Parquet file of curves sorted by cell; one row group holds a run of cells."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pq.ParquetFile(path, memory_map=True)
        place = self._file.schema_arrow.get_field_index("index")
        footer = self._file.metadata
        self._last = np.array(
            [
                footer.row_group(group).column(place).statistics.max
                for group in range(footer.num_row_groups)
            ]
        )
        self._read = functools.lru_cache(maxsize=2)(self._read_group)

    def __reduce__(self) -> tuple[type[CurveFile], tuple[Path]]:
        return CurveFile, (self._path,)

    def of(self, index: int) -> dict[tuple[Key, int], Curve]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        group = int(np.searchsorted(self._last, index))
        if group == len(self._last):
            return {}
        table = self._read(group)
        start, stop = np.searchsorted(table.column("index").to_numpy(), (index, index + 1))
        return {
            (Key(row["dataset"], row["split"], row["epochs"]), row["seed"]): Curve(
                accuracy=np.array(row["accuracy"], dtype=float),
                loss=np.array(row["loss"], dtype=float),
                seconds=None if row["seconds"] is None else np.array(row["seconds"], dtype=float),
            )
            for row in table.slice(start, stop - start).to_pylist()
        }

    def _read_group(self, group: int) -> pa.Table:
        return self._file.read_row_group(group, use_threads=False)
