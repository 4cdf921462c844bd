"""Per-epoch curves of a table, in a second file beside it, read a few cells at a time."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rebench.tables.layout import Key
from rebench.tables.table import CurveArrays

__all__ = ["CurveFile", "RunCurves"]


class CurveFile:
    """A benchmark's curves: a Parquet file sorted by cell; one row group holds a run of cells."""

    def __init__(self, path: Path) -> None:
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

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        group = int(np.searchsorted(self._last, index))
        if group == len(self._last):
            return {}
        table = self._read(group)
        start, stop = np.searchsorted(table.column("index").to_numpy(), (index, index + 1))
        return {
            (Key(row["dataset"], row["split"], row["epochs"]), row["seed"]): CurveArrays(
                accuracy=np.array(row["accuracy"], dtype=float),
                loss=np.array(row["loss"], dtype=float),
                seconds=None if row["seconds"] is None else np.array(row["seconds"], dtype=float),
            )
            for row in table.slice(start, stop - start).to_pylist()
        }

    def _read_group(self, group: int) -> pa.Table:
        return self._file.read_row_group(group, use_threads=False)


class RunCurves:
    """Curves of a run's trials, from the ``curves.parquet`` beside its results."""

    def __init__(self, path: Path, rows: pd.DataFrame) -> None:
        self._path = path
        self._trials = rows[["index", *Key._fields, "seed", "trial_id"]]

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        trials = self._trials[self._trials["index"] == index]
        wanted = [("trial_id", "in", trials["trial_id"].unique().tolist())]
        epochs = pq.read_table(self._path, filters=wanted).to_pandas().sort_values("epoch")
        found = {
            (str(trial), str(split)): rows
            for (trial, split), rows in epochs.groupby(["trial_id", "split"], observed=True)
        }
        return {
            (Key(str(row.dataset), str(row.split), int(row.epochs)), int(row.seed)): CurveArrays(
                accuracy=found[row.trial_id, row.split]["accuracy"].to_numpy(dtype=np.float64),
                loss=found[row.trial_id, row.split]["loss"].to_numpy(dtype=np.float64),
                seconds=None,
            )
            for row in trials.itertuples()
            if (row.trial_id, row.split) in found
        }
