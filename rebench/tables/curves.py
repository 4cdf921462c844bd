"""Per-epoch curves of a table, in a second file beside it, read a few cells at a time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebench.errors import StoreError
from rebench.tables.layout import CurveArrays, Floats, Ints, Key
from rebench.tables.parquet import ParquetFile, collect_again

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CurveFile", "RunCurves"]


class CurveFile:
    """A benchmark's curves: a Parquet file sorted by cell; one row group holds a run of cells."""

    def __init__(self, path: Path) -> None:
        self._file = ParquetFile(path)
        self._last = self._file.largest("index")
        self._read = functools.lru_cache(maxsize=2)(self._read_group)

    def __reduce__(self) -> tuple[type[CurveFile], tuple[Path]]:
        return CurveFile, (self._file.path,)

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

    def along(self, key: Key, epochs: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""
        names = ["index", *Key._fields, "seed", "accuracy"]
        parts = [
            part.filter(functools.reduce(pc.and_, _is_key(part, key)))
            for part in (self._file.read([group], names) for group in range(self._file.groups))
        ]
        rows = pa.concat_tables(parts)
        lengths = pc.list_value_length(rows["accuracy"])
        if len(rows) and pc.min(lengths).as_py() < max(epochs):
            raise StoreError(f"{self._file.path} has a curve of fewer epochs than {key.epochs}")
        after = [pc.list_element(rows["accuracy"], epoch - 1).to_numpy() for epoch in epochs]
        return rows["index"].to_numpy(), rows["seed"].to_numpy(), np.stack(after, axis=1)

    def _read_group(self, group: int) -> pa.Table:
        return self._file.read([group])


class RunCurves:
    """Curves of a run's trials, from the ``curves.parquet`` beside its results."""

    def __init__(self, path: Path, rows: pd.DataFrame) -> None:
        self._file = ParquetFile(path, collect_again(path.parent))
        self._rows = rows

    @functools.cached_property
    def _trials(self) -> pd.DataFrame:
        return self._rows[["index", *Key._fields, "seed", "trial_id"]]

    @functools.cached_property
    def _epochs(self) -> pa.Table:
        return self._file.read()

    @functools.cached_property
    def _places(self) -> Mapping[str, Ints]:
        """Where each trial's epochs stand."""
        trials = self._epochs["trial_id"].to_pandas()
        return trials.groupby(trials, observed=True).indices

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        trials = self._trials[self._trials["index"] == index]
        none = np.empty(0, dtype=np.int64)
        held = [self._places.get(trial, none) for trial in trials["trial_id"].unique()]
        rows = np.concatenate([none, *held])
        epochs = self._epochs.take(rows).to_pandas().sort_values("epoch")
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

    def pieces(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of the file, a row an epoch, as many at a time as lie together."""
        for group in range(self._file.groups):
            yield self._file.read([group]).to_pandas()

    def along(self, key: Key, epochs: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""
        its = (self._trials[list(Key._fields)] == list(key)).all(axis=1)
        trials = self._trials[its]
        wanted = pc.and_(
            pc.is_in(self._epochs["epoch"], pa.array(epochs, self._epochs["epoch"].type)),
            pc.equal(self._epochs["split"], key.split),
        )
        values = self._epochs.filter(wanted).to_pandas().set_index(["trial_id", "epoch"])
        pairs = itertools.product(trials["trial_id"], epochs)
        after = values["accuracy"].reindex(list(pairs)).to_numpy(dtype=np.float64)
        return trials["index"].to_numpy(), trials["seed"].to_numpy(), after.reshape(-1, len(epochs))


def _is_key(rows: pa.Table, key: Key) -> list[pa.ChunkedArray]:
    return [pc.equal(rows[name], value) for name, value in zip(Key._fields, key, strict=True)]
