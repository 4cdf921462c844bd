"""A dict of many cells written as one pickle without holding it: the package's files are large."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

__all__ = ["stream_dict"]

# Its memo opcodes name their places, so that each cell can use them anew; torch writes it too.
_PROTOCOL: Final = 2


def stream_dict(
    write: Callable[[bytes], object],
    start: dict[str, Any],
    name: str,
    items: Iterable[tuple[int, Any]],
    shared: Sequence[str],
) -> None:
    """Write the pickle of ``{**start, name: dict(items)}``, one item in memory at a time.

    Args:
        write: takes the bytes.
        start: what comes first.
        name: the key under which the items come.
        items: the keys and values of the large dict.
        shared: texts that many items use; they are written once, under the key `metric_names`.
    """
    kept = list(shared)
    names = io.BytesIO()
    pickler = pickle.Pickler(names, _PROTOCOL)
    pickler.dump(kept)
    memo = pickler.memo.copy()
    write(b"\x80%c}" % _PROTOCOL)
    write(_pickled("metric_names", {}) + names.getvalue()[2:-1] + b"s")
    for key, value in start.items():
        write(_pickled(key, memo) + _pickled(value, memo) + b"s")
    write(_pickled(name, memo) + b"}")
    for number, value in items:
        write(_pickled(number, memo) + _pickled(value, memo) + b"s")
    write(b"s.")


def _pickled(value: Any, memo: dict[int, tuple[int, Any]]) -> bytes:
    """Return what pushes `value`, without a pickle's beginning and end."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, _PROTOCOL)
    pickler.memo = memo
    pickler.dump(value)
    return buffer.getvalue()[2:-1]
