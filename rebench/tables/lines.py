"""Lines of JSON to Arrow columns without a Python object per value: what makes collecting fast.

pyarrow turns to pandas, which takes half a second to import, for ``pa.array`` and ``to_numpy``:
buffers are handed over instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

__all__ = [
    "Curves",
    "DamagedError",
    "from_numpy",
    "from_texts",
    "labelled",
    "one_chunk",
    "order_of",
    "parse_lines",
]

_BLOCK_BYTES: Final = 8 << 20


class DamagedError(Exception):
    """Some line is no record that columns can hold."""


_TRIAL: Final = pa.struct(
    {
        **{name: pa.string() for name in ("cell", "dataset", "split", "network")},
        **{name: pa.int32() for name in ("seed", "epochs")},
        "skeleton": pa.struct({"channels": pa.int32(), "cells_per_stage": pa.int32()}),
    }
)
_COST: Final = pa.struct(
    {
        **{name: pa.float64() for name in ("seconds", "images_per_s", "params_m", "mflops")},
        "stack": pa.int32(),
    }
)
_ORIGIN: Final = pa.struct(
    {
        **{name: pa.string() for name in ("rebench", "commit", "torch", "cuda", "device", "host")},
        **{name: pa.string() for name in ("slurm_job", "spec_hash", "started", "ended")},
        "dirty": pa.bool_(),
    }
)
_CURVE: Final = pa.struct({"accuracy": pa.list_(pa.float64()), "loss": pa.list_(pa.float64())})


def parse_lines(text: bytes, splits: Iterable[str], *, longest: int = 0) -> pa.Table:
    """Return records as columns, one row a line; of each split that is named, its curves.

    Args:
        text: the lines.
        splits: names of splits.
        longest: bytes of the longest line, if it may have more than a few millions.

    Raises:
        DamagedError: a line is not a record, or lacks a part of one.
    """
    outcome = pa.struct(
        {
            "status": pa.string(),
            "learning_rate": pa.float64(),
            "diverged_epoch": pa.int32(),
            "curves": pa.struct(dict.fromkeys(splits, _CURVE)),
        }
    )
    schema = pa.schema(
        {
            "trial_id": pa.string(),
            "trial": _TRIAL,
            "outcome": outcome,
            "cost": _COST,
            "provenance": _ORIGIN,
        }
    )
    # A block must hold a whole line; the cores share the blocks.
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=max(_BLOCK_BYTES, 2 * longest)),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise DamagedError(str(error)) from error
    if table.num_rows != text.count(b"\n") or any(column.null_count for column in table.columns):
        raise DamagedError("a line is not one record")
    return table


class Curves:
    """The curves of trials as flat columns: for each split of each trial, a stretch of epochs."""

    def __init__(
        self, curves: pa.StructArray, splits: Sequence[str], ranks: NDArray[np.int64]
    ) -> None:
        """Take the curves of trials; `ranks` says where each trial stands in the tables."""
        if curves.null_count:
            raise DamagedError("a record has no curves")
        rows, places, lengths = [], [], []
        values: dict[str, list[pa.Array]] = {"accuracy": [], "loss": []}
        starts: dict[str, list[NDArray[np.int64]]] = {"accuracy": [], "loss": []}
        for place, _ in enumerate(splits):
            split = curves.field(place)
            there = _as_numpy(pc.indices_nonzero(split.is_valid()), np.uint64).astype(np.int64)
            rows.append(there)
            places.append(np.full(len(there), place))
            counts: list[NDArray[np.int64]] = []
            for name in ("accuracy", "loss"):
                column = split.field(name)
                offsets = _as_numpy(column.offsets, np.int32).astype(np.int64)
                before = sum(map(len, values[name]))
                starts[name].append(offsets[there] + before)
                counts.append(offsets[there + 1] - offsets[there])
                values[name].append(column.values)
            if not np.array_equal(counts[0], counts[1]) or not counts[0].all():
                raise DamagedError("a curve has no epoch, or more losses than accuracies")
            lengths.append(counts[0])
        # By trial, and within a trial by split.
        order = np.lexsort((np.concatenate(places), ranks[np.concatenate(rows)]))
        self._rows = np.concatenate(rows)[order]
        self._ranks = ranks[self._rows]
        self._places = np.concatenate(places)[order]
        self._lengths = np.concatenate(lengths)[order]
        self._starts = {name: np.concatenate(starts[name])[order] for name in starts}
        self._values = {name: pa.concat_arrays(values[name]) for name in values}
        self._splits = from_texts(splits)

    @property
    def rows(self) -> pa.Array:
        """Which trial each stretch belongs to."""
        return from_numpy(self._rows, pa.int64())

    @property
    def split_names(self) -> pa.Array:
        """Which split each stretch was evaluated on."""
        places = from_numpy(self._places.astype(np.int32), pa.int32())
        return pa.DictionaryArray.from_arrays(places, self._splits)

    @property
    def last(self) -> tuple[pa.Array, pa.Array]:
        """Accuracy and loss of the last epoch of each stretch."""
        ends = {name: starts + self._lengths - 1 for name, starts in self._starts.items()}
        accuracy, loss = (
            values.take(from_numpy(ends[name], pa.int64())) for name, values in self._values.items()
        )
        return accuracy, loss

    def table(self, trial_ids: pa.Array) -> pa.Table:
        """Return one row an epoch; the ids stand in the order of the tables."""
        counts = self._lengths
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = from_numpy(np.repeat(self._ranks, counts).astype(np.int32), pa.int32())
        places = from_numpy(np.repeat(self._places, counts).astype(np.int32), pa.int32())
        columns = {
            "trial_id": pa.DictionaryArray.from_arrays(rows, trial_ids),
            "split": pa.DictionaryArray.from_arrays(places, self._splits),
            "epoch": from_numpy((within + 1).astype(np.int32), pa.int32()),
        }
        for name, values in self._values.items():
            at = np.repeat(self._starts[name], counts) + within
            columns[name] = values.take(from_numpy(at, pa.int64()))
        return pa.table(columns)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def order_of(keys: pa.Array) -> NDArray[np.int64]:
    """Return the places of an array's values in ascending order."""
    return _as_numpy(pc.sort_indices(keys), np.uint64).astype(np.int64)


def from_numpy(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return an array of numbers, none of them null, over the memory of `values`."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def from_texts(texts: Iterable[str]) -> pa.Array:
    """Return an array of texts."""
    builder = pa.lib.StringBuilder()
    for text in texts:
        builder.append(text)
    return builder.finish()


def labelled(keys: pa.Array, label: Callable[[str], str | int]) -> pa.Array:
    """Return the label of each key, asked once for every key that occurs."""
    encoded = keys.dictionary_encode()
    labels = [label(key) for key in encoded.dictionary.to_pylist()]
    if all(isinstance(one, int) for one in labels):
        made = from_numpy(np.array(labels, dtype=np.int32), pa.int32())
    else:
        made = from_texts(map(str, labels))
    return made.take(encoded.indices)


def _as_numpy(array: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    """Return the values of an array of numbers without nulls, as they lie in memory."""
    return np.frombuffer(array.buffers()[1], dtype=kind)[array.offset : array.offset + len(array)]
