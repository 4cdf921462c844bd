"""The opcodes of a long dict of floats by shared keys, read by the thousand, not one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

__all__ = ["FLOAT", "LONG_GET", "are_pairs", "read_pairs"]

FLOAT, LONG_GET = b"Gj"

_PAIR: Final = np.dtype([("get", "u1"), ("key", "<u4"), ("float", "u1"), ("value", ">f8")])
_MOST: Final = 1000
_FEWEST: Final = 16
_ALIKE: Final = b"j" * _FEWEST


def are_pairs(data: bytes, position: int) -> bool:
    """Return whether a few pairs of a memo place and a float may follow one another here."""
    step = _PAIR.itemsize
    return data[position : position + step * _FEWEST : step] == _ALIKE


def read_pairs(data: bytes, memo: Sequence[Any], position: int) -> tuple[list[Any], int]:
    """Return the keys and floats that follow one another here, and the position after them.

    Raises:
        IndexError: the data ends, or a place of the memo is empty.
    """
    most = min(_MOST, (len(data) - position) // _PAIR.itemsize)
    if not most:
        raise IndexError
    rows = np.frombuffer(data, _PAIR, most, position)
    other = (rows["get"] != LONG_GET) | (rows["float"] != FLOAT)
    count = int(other.argmax()) if other.any() else most
    if not count:
        return [memo[int.from_bytes(data[position + 1 : position + 5], "little")]], position + 5
    found: list[Any] = [None] * (2 * count)
    found[::2] = [memo[place] for place in rows["key"][:count].tolist()]
    found[1::2] = rows["value"][:count].tolist()
    return found, position + _PAIR.itemsize * count
