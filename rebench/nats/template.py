"""Pickles that differ in their numbers alone: made once, then filled for every cell.

A number lies in a pickle as eight bytes, so that of the next cell can take its place. One that
stands in many places is written once, and what is used most has the shortest names: that halves
the pickle, and most of what an export costs is to compress it.
"""

from __future__ import annotations

import collections
import io
import itertools
import pickle
import pickletools
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells import Cell
from rebench.nats.choice import Choice
from rebench.nats.packaged import Measured, measured

__all__ = ["START", "MakeCell", "Memo", "cell_pickles", "empty_memo", "pickled"]

Memo: TypeAlias = dict[int, tuple[int, Any]]
MakeCell: TypeAlias = Callable[[int, str, list[Measured]], Any]
_Step: TypeAlias = tuple[str, Any, bytes]  # an opcode, its argument, its bytes
_Used: TypeAlias = tuple[str, Any]  # ("place", of the memo) or ("number", to fill in)

# Its memo opcodes name their places, so that each cell can use them anew; torch writes it too.
_PROTOCOL: Final = 2
START: Final = b"\x80%c" % _PROTOCOL
_KEPT: Final = tuple(object() for _ in range(256))

# What stands for a cell where a template is made: among no cell's values, and of four bytes.
_INDEX: Final = -(2**31)
_ARCH: Final = "|architecture|"

_PUT: Final = ("BINPUT", "LONG_BINPUT")
_GET: Final = ("BINGET", "LONG_BINGET")


def empty_memo() -> Memo:
    """Return a memo whose places of one byte are kept for what each cell uses most."""
    return {id(kept): (place, kept) for place, kept in enumerate(_KEPT)}


def pickled(value: Any, memo: Memo) -> tuple[bytes, Memo]:
    """Return what pushes `value`, without a pickle's beginning and end, and the memo after it."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, _PROTOCOL)
    pickler.memo = memo
    pickler.dump(value)
    return buffer.getvalue()[len(START) : -1], pickler.memo.copy()


def cell_pickles(choice: Choice, make: MakeCell, memo: Memo) -> Iterator[tuple[int, bytes]]:
    """Yield every cell and what pushes its results.

    Args:
        choice: which tables answer.
        make: gives what is to be pickled of an index, its architecture and what is measured of it;
            of the numbers it may ask which are NaN, and nothing else.
        memo: what is written before any cell.
    """
    templates: dict[object, _Template] = {}
    for index in choice.cells.tolist():
        found = measured(index, choice)
        arrays = [row.arrays for row in found]
        numbers = np.concatenate(list(itertools.chain.from_iterable(arrays)))
        shapes = [
            (row.key, row.seed, row.skeleton, *map(len, its))
            for row, its in zip(found, arrays, strict=True)
        ]
        structure = (*shapes, np.isnan(numbers).tobytes())
        if structure not in templates:
            value, _ = pickled(make(_INDEX, _ARCH, _numbered(found, numbers)), memo)
            templates[structure] = _Template(value, first=len(memo))
        yield index, templates[structure].filled(index, numbers)


def _numbered(found: list[Measured], numbers: NDArray[np.float64]) -> list[Measured]:
    """Return what is measured with its numbers counted from 0, and what is NaN left so."""
    places = np.where(np.isnan(numbers), np.nan, np.arange(len(numbers)))
    ends = np.cumsum([len(array) for row in found for array in row.arrays])
    arrays = iter(np.split(places, ends))
    return [row.replaced([next(arrays) for _ in row.arrays]) for row in found]


class _Template:
    """A pickle in pieces; between them belong a cell's numbers, index and architecture.

    Args:
        pushed: what pushes an object in which float n stands for number n.
        first: where the memo's places of four bytes are free.
    """

    def __init__(self, pushed: bytes, first: int) -> None:
        steps = _steps(pushed)
        places = _places(steps, first)
        self._pieces = [b""]
        self._numbers: list[int] = []  # which follows each piece; -1 where it is no number
        self._index_after: list[int] = []
        self._arch_after: list[int] = []
        written = set()
        for name, arg, raw in steps:
            used = _used(name, arg)
            place = places.get(used)
            if name in _PUT:
                self._pieces[-1] += _memo_step(b"qr", place)
            elif used == ("number", arg) and used not in written:
                if arg % 1:
                    raise ValueError(f"{arg} is no number of a cell: it cannot be filled in")
                written.add(used)
                self._cut(b"G", int(arg), _memo_step(b"qr", place))
            elif place is not None:
                self._pieces[-1] += _memo_step(b"hj", place)
            elif (name, arg) == ("BININT", _INDEX):
                self._index_after.append(len(self._numbers))
                self._cut(raw[:1])
            elif (name, arg) == ("BINUNICODE", _ARCH):
                self._arch_after.append(len(self._numbers))
                self._cut(raw[:1])
            else:
                self._pieces[-1] += raw

    def _cut(self, before: bytes, number: int = -1, after: bytes = b"") -> None:
        self._pieces[-1] += before
        self._numbers.append(number)
        self._pieces.append(after)

    def filled(self, index: int, numbers: NDArray[np.float64]) -> bytes:
        """Return what pushes a cell's object."""
        values = numbers[self._numbers].astype(">f8").tobytes()
        between = [values[start : start + 8] for start in range(0, len(values), 8)]
        arch = str(Cell.from_index(index)).encode()
        for place in self._index_after:
            between[place] = struct.pack("<i", index)
        for place in self._arch_after:
            between[place] = struct.pack("<I", len(arch)) + arch
        parts = itertools.zip_longest(self._pieces, between, fillvalue=b"")
        return b"".join(itertools.chain.from_iterable(parts))


def _steps(pushed: bytes) -> list[_Step]:
    data = START + pushed + pickle.STOP
    listed = [(op.name, arg, at or 0) for op, arg, at in pickletools.genops(data)]
    pairs = itertools.pairwise(listed)
    return [(name, arg, data[at:end]) for (name, arg, at), (_, _, end) in pairs][1:]


def _places(steps: list[_Step], first: int) -> dict[_Used | None, int]:
    """Return where in the memo lies what is used again: the shortest places for the most used."""
    own = {_used(name, arg) for name, arg, _ in steps if name in _PUT}
    uses = collections.Counter(_used(name, arg) for name, arg, _ in steps)
    again = [
        used
        for used, count in uses.most_common()
        if used is not None and count > 1 and (used in own or used[0] == "number")
    ]
    free = itertools.chain(range(len(_KEPT)), itertools.count(first))
    return dict(zip(again, free, strict=False))


def _used(name: str, arg: Any) -> _Used | None:
    if name in _PUT or name in _GET:
        return "place", arg
    return ("number", arg) if name == "BINFLOAT" and arg >= 0 else None


def _memo_step(opcodes: bytes, place: int | None) -> bytes:
    """Return a memo opcode in its short or its long form, and none without a place."""
    if place is None:
        return b""
    short = place < len(_KEPT)
    return struct.pack("<BB" if short else "<BI", opcodes[not short], place)
