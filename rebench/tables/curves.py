"""Per-epoch curves of a table, in a second file, read a few cells at a time."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebench.tables.layout import CurveArrays, Floats, Ints, Key
from rebench.tables.parquet import ParquetFile, collect_again

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CurveFile", "RunCurves"]


class CurveFile:
    """Curves of a benchmark: a Parquet file sorted by cell; a row group contains adjacent cells."""

    def __init__(self, path: Path) -> None:
        self._file = ParquetFile(path)
        self._last = self._file.largest("index")
        self._read = functools.lru_cache(maxsize=2)(lambda group: self._file.read([group]))

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

    def accuracies_after(self, key: Key, epochs: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""
        names = ["index", *Key._fields, "seed", "accuracy"]
        asked = [pc.field(name) == value for name, value in zip(Key._fields, key, strict=True)]
        its = functools.reduce(operator.and_, asked)
        parts = [self._file.read([group], names).filter(its) for group in range(self._file.groups)]
        rows = pa.concat_tables(parts)
        after = [pc.list_element(rows["accuracy"], epoch - 1).to_numpy() for epoch in epochs]
        return rows["index"].to_numpy(), rows["seed"].to_numpy(), np.stack(after, axis=1)

    def of_rows(self, rows: pd.DataFrame) -> None:
        """Return None: the benchmark's rows have no trial ids."""


class RunCurves:
    """Curves of a run's trials, from the ``curves.parquet`` next to the results."""

    def __init__(self, path: Path, rows: pd.DataFrame) -> None:
        self._file = ParquetFile(path, collect_again(path.parent))
        self._rows = rows

    def of_rows(self, rows: pd.DataFrame) -> RunCurves:
        """Return the curves for rows of the same trials under other names."""
        return RunCurves(self._file.path, rows)

    @functools.cached_property
    def _epochs(self) -> pa.Table:
        # Combined into one chunk, because rows are taken from this table for every trial.
        return self._file.read().unify_dictionaries().combine_chunks()

    @functools.cached_property
    def _values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns of the file: epoch, accuracy and loss."""
        epoch, accuracy, loss = (
            self._epochs[name].to_numpy() for name in ("epoch", "accuracy", "loss")
        )
        return epoch, accuracy, loss

    @functools.cached_property
    def _of_cell(self) -> Mapping[int, list[tuple[str, str, Key, int]]]:
        """Trial, split in the file, key and seed of the rows of each cell."""
        of_cell: dict[int, list[tuple[str, str, Key, int]]] = {}
        splits = self._rows["split"].astype(object)
        if "measured_on" in self._rows:  # rows that replace those of another split
            splits = self._rows["measured_on"].fillna(splits)
        rows = self._rows.assign(in_file=splits)
        names = ["index", "trial_id", "in_file", *Key._fields, "seed"]
        columns = (rows[name].tolist() for name in names)
        for index, trial_id, in_file, *key, seed in zip(*columns, strict=True):
            of_cell.setdefault(index, []).append((trial_id, in_file, Key(*key), seed))
        return of_cell

    @functools.cached_property
    def _places(self) -> Mapping[tuple[str, str], Ints]:
        """The rows of the epochs of each trial and split."""
        names = ["trial_id", "split"]
        return self._epochs.select(names).to_pandas().groupby(names, observed=True).indices

    def of(self, index: int) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of one cell by ((data set, split, epochs), seed)."""
        found = {}
        epoch, accuracy, loss = self._values
        for trial_id, in_file, key, seed in self._of_cell.get(index, ()):
            at = self._places.get((trial_id, in_file))
            if at is not None:
                at = at[np.argsort(epoch[at], kind="stable")]
                found[key, seed] = CurveArrays(accuracy=accuracy[at], loss=loss[at], seconds=None)
        return found

    def pieces(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of the file, a row an epoch, one row group at a time."""
        for group in range(self._file.groups):
            yield self._file.read([group]).to_pandas()

    def accuracies_after(self, key: Key, epochs: Sequence[int]) -> tuple[Ints, Ints, Floats]:
        """Return cells, seeds and accuracies [runs, epochs] of all runs of one group."""
        trials = self._rows[(self._rows[list(Key._fields)] == list(key)).all(axis=1)]
        wanted = pc.and_(
            pc.is_in(self._epochs["epoch"], pa.array(epochs, self._epochs["epoch"].type)),
            pc.equal(self._epochs["split"], key.split),
        )
        values = self._epochs.filter(wanted).to_pandas().set_index(["trial_id", "epoch"])
        pairs = itertools.product(trials["trial_id"], epochs)
        after = values["accuracy"].reindex(list(pairs)).to_numpy(dtype=np.float64)
        return trials["index"].to_numpy(), trials["seed"].to_numpy(), after.reshape(-1, len(epochs))
