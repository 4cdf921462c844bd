"""One cell of NAS-Bench-201: its string, its code and its index name the same thing."""

from __future__ import annotations

import difflib
import functools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cells.errors import CellError
from cells.ops import EDGES, OP_NAMES, SPACE_SIZE

__all__ = ["Cell", "all_cells", "index_order"]

_EXAMPLE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_1x1~2|"
_LONGEST = 200
_CODE = re.compile(r"([0-4])_([0-4])([0-4])_([0-4])([0-4])([0-4])")


@functools.cache
def index_order() -> NDArray[np.int64]:
    """Return, for every benchmark index, the rank of its cell in the product of operations.

    The benchmark lists the product of the operations over the six edges, last edge fastest, and
    shuffles it with Python's ``random.Random(88)``.
    """
    order = list(range(SPACE_SIZE))
    random.Random(88).shuffle(order)  # noqa: S311 - the benchmark's own shuffle
    ranks = np.array(order, dtype=np.int64)
    ranks.setflags(write=False)
    return ranks


@functools.cache
def _index_of_rank() -> NDArray[np.int64]:
    return np.argsort(index_order())


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: the operation (0 to 4, as in `OP_NAMES`) of each edge, in the order of `EDGES`."""

    ops: tuple[int, int, int, int, int, int]

    def __post_init__(self) -> None:
        if len(self.ops) != len(EDGES) or not all(op in range(len(OP_NAMES)) for op in self.ops):
            raise CellError(f"a cell has six operations from 0 to 4, got {self.ops!r}")

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Read an architecture string (``|op~0|+|op~0|op~1|+...``) or a code (``3_34_131``)."""
        if match := _CODE.fullmatch(text):
            return cls(tuple(int(digit) for digit in match.groups()))  # type: ignore[arg-type]  # six groups
        if text[:1].isdigit():
            raise CellError(
                "not a code: expected one, two and three digits from 0 to 4, as in 3_34_131, "
                f"found {_piece(text, 0)}"
            )
        ops = []
        position = 0
        for (target, source), separator in zip(EDGES, _SEPARATORS, strict=True):
            position = _expect(text, position, separator)
            end = text.find("~", position, position + _LONGEST)
            name = text[position:end] if end >= 0 else text[position : position + 20]
            if name not in OP_NAMES:
                _reject_op(text, position, name, target, source)
            ops.append(OP_NAMES.index(name))
            position = _expect(text, end, f"~{source}")
        end = _expect(text, position, "|")
        if end != len(text):
            _reject(text, end, "the end")
        return cls(tuple(ops))  # type: ignore[arg-type]  # one per edge

    @classmethod
    def from_index(cls, index: int) -> Cell:
        """Return the cell that the benchmark numbers `index`."""
        if not 0 <= index < SPACE_SIZE:
            raise CellError(f"a cell's index must be in 0..{SPACE_SIZE - 1}, got {index}")
        rank = int(index_order()[index])
        return cls(tuple(rank // 5**power % 5 for power in range(5, -1, -1)))

    @classmethod
    def find(cls, name: Cell | int | str) -> Cell:
        """Return the cell that a cell, an index, a decimal string, a code or a string names."""
        if isinstance(name, Cell):
            return name
        if isinstance(name, str):
            digits = name.strip()
            if digits.isascii() and digits.lstrip("-").isdigit() and len(digits) < _LONGEST:
                return cls.from_index(int(digits))
            return cls.parse(digits)
        return cls.from_index(int(name))

    @property
    def index(self) -> int:
        """The benchmark's number of this cell."""
        return int(_index_of_rank()[self.rank])

    @property
    def rank(self) -> int:
        """The place of this cell in the product of operations, before the benchmark's shuffle."""
        return functools.reduce(lambda rank, op: 5 * rank + op, self.ops, 0)

    @property
    def code(self) -> str:
        """The digit code, such as ``3_34_131``."""
        return "{}_{}{}_{}{}{}".format(*self.ops)

    def op(self, target: int, source: int) -> int:
        """Return the operation on the edge into `target` from `source`."""
        return self.ops[EDGES.index((target, source))]

    def __str__(self) -> str:
        """Return the architecture string."""
        pieces = [
            f"{separator}{OP_NAMES[op]}~{source}"
            for separator, op, (_, source) in zip(_SEPARATORS, self.ops, EDGES, strict=True)
        ]
        return "".join(pieces) + "|"


# What stands before each edge's operation.
_SEPARATORS = ("|", "|+|", "|", "|+|", "|", "|")


def all_cells() -> Iterator[Cell]:
    """Yield the 15,625 cells in index order."""
    return (Cell.from_index(index) for index in range(SPACE_SIZE))


def _expect(text: str, position: int, piece: str) -> int:
    if not text.startswith(piece, position):
        _reject(text, position, repr(piece))
    return position + len(piece)


def _reject(text: str, position: int, expected: str) -> NoReturn:
    raise CellError(
        f"not an architecture: expected {expected} at position {position}, "
        f"found {_piece(text, position)}; example: {_EXAMPLE}"
    )


def _reject_op(text: str, position: int, name: str, target: int, source: int) -> NoReturn:
    near = difflib.get_close_matches(name, OP_NAMES, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise CellError(
        f"not an architecture: expected an operation ({', '.join(OP_NAMES)}) for the edge "
        f"{target}<-{source} at position {position}, found {_piece(text, position)}{hint}"
    )


def _piece(text: str, position: int) -> str:
    piece = text[position : position + 20]
    return ascii(piece) if piece else "the end"
