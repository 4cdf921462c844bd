"""Lines of JSON to Arrow columns without a Python object per value: what makes collecting fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from rebench.tables.columns import RUN_CURVES, record_schema

__all__ = ["Curves", "DamagedError", "labelled", "parse_lines"]

_BLOCK_BYTES: Final = 8 << 20


class DamagedError(Exception):
    """Some line is no record that columns can hold."""


def parse_lines(text: bytes, splits: Sequence[str], *, longest: int = 0) -> pa.Table:
    """Return records as columns, one row a line; of each split that is named, its curves.

    Args:
        text: the lines.
        splits: names of splits.
        longest: bytes of the longest line, if it may have more than a few millions.

    Raises:
        DamagedError: a line is not a record, or lacks a part of one.
    """
    # A block must hold a whole line; the cores share the blocks.
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=max(_BLOCK_BYTES, 2 * longest)),
            parse_options=pj.ParseOptions(
                explicit_schema=record_schema(tuple(splits)), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise DamagedError(str(error)) from error
    if table.num_rows != text.count(b"\n") or any(column.null_count for column in table.columns):
        raise DamagedError("a line is not one record")
    return table


class Curves:
    """The curves of trials, one of each trial and split, by trial and then by split."""

    def __init__(
        self, curves: pa.StructArray, splits: Sequence[str], ranks: NDArray[np.int64]
    ) -> None:
        """Take the curves of trials; `ranks` says where each trial stands in the tables."""
        if curves.null_count:
            raise DamagedError("a record has no curves")
        parts = [curves.field(place) for place in range(len(splits))]
        there = [part.is_valid() for part in parts]
        rows = [pc.indices_nonzero(mask).to_numpy().astype(np.int64) for mask in there]
        places = np.repeat(np.arange(len(splits), dtype=np.int32), [len(each) for each in rows])
        order = np.lexsort((places, ranks[np.concatenate(rows)]))
        self._rows = np.concatenate(rows)[order]
        self._ranks = ranks[self._rows].astype(np.int32)
        self._places = places[order]
        self._splits = pa.array(splits)
        self._values: dict[str, pa.Array] = {}
        lengths = []
        for name in ("accuracy", "loss"):
            lists = pa.concat_arrays(
                [part.field(name).filter(mask) for part, mask in zip(parts, there, strict=True)]
            ).take(pa.array(order))
            lengths.append(pc.fill_null(lists.value_lengths(), 0).to_numpy())
            self._values[name] = lists.flatten()
        if not np.array_equal(*lengths) or not lengths[0].all():
            raise DamagedError("a curve has no epoch, or more losses than accuracies")
        self._lengths = lengths[0]

    @property
    def rows(self) -> pa.Array:
        """Which trial each curve belongs to."""
        return pa.array(self._rows)

    @property
    def last(self) -> dict[str, pa.Array]:
        """The split of each curve, and accuracy and loss of its last epoch."""
        ends = pa.array(np.cumsum(self._lengths) - 1)
        last = {name: values.take(ends) for name, values in self._values.items()}
        return {"split": self._names(self._places), **last}

    def table(self, trial_ids: pa.Array) -> pa.Table:
        """Return one row an epoch; the ids stand in the order of the tables."""
        counts = self._lengths
        epoch = np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        ranks = pa.array(np.repeat(self._ranks, counts))
        columns = {
            "trial_id": pa.DictionaryArray.from_arrays(ranks, trial_ids),
            "split": self._names(np.repeat(self._places, counts)),
            "epoch": pa.array(epoch.astype(np.int32)),
            **self._values,
        }
        return pa.table(columns, pa.schema(RUN_CURVES))

    def _names(self, places: NDArray[np.int32]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(places), self._splits)


def labelled(keys: pa.Array, label: Callable[[str], str | int]) -> pa.Array:
    """Return the label of each key, asked once for every key that occurs."""
    encoded = keys.dictionary_encode()
    return pa.array([label(key) for key in encoded.dictionary.to_pylist()]).take(encoded.indices)
