"""The cell of NAS-Bench-201, read from its architecture string, its code or its index."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cells.classes import Partition, functional_classes
from cells.drawing import svg
from cells.errors import CellError, shown
from cells.graph import Edge, Fact, Graph, joined
from cells.ops import CONV_1X1, CONV_3X3, EDGES, NONE, OP_NAMES, SPACE_SIZE, index_order
from cells.paths import Polynomial, moment, network_polynomial

__all__ = ["Cell", "all_cells"]

_FORM = "|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|"
_ARCH = re.compile(re.escape(_FORM).replace(r"\{\}", "([^|~]{0,40})"))
_EXAMPLE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_1x1~2|"
_LONGEST = 200
_CODE = re.compile(r"([0-4])_([0-4])([0-4])_([0-4])([0-4])([0-4])")


@functools.cache
def _index_of_rank() -> NDArray[np.int64]:
    return np.argsort(index_order())


@dataclass(frozen=True, slots=True)
class Cell(Graph):
    """A cell: the operation (0 to 4, as in `OP_NAMES`) of each edge, in the order of `EDGES`."""

    LAYERS: ClassVar[frozenset[int]] = frozenset((CONV_1X1, CONV_3X3))
    n_vertices: ClassVar[int] = 4

    ops: tuple[int, int, int, int, int, int]

    def __post_init__(self) -> None:
        ops: object = self.ops
        known = isinstance(ops, Sequence) and all(op in range(len(OP_NAMES)) for op in ops)
        if not known or len(self.ops) != len(EDGES):
            raise CellError(f"ops must be six operations, each from 0 to 4, got {shown(ops)}")

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Read an architecture string (``|op~0|+|op~0|op~1|+...``) or a code (``3_34_131``)."""
        if not isinstance(text, str):
            raise CellError(f"an architecture or a code must be a text, got {shown(text)}")
        if match := _CODE.fullmatch(text):
            return cls(tuple(int(digit) for digit in match.groups()))  # type: ignore[arg-type]  # six groups
        if text[:1].isdigit():
            raise CellError(
                "not a code: expected one, two and three digits from 0 to 4, as in 3_34_131, "
                f"got {shown(text)}"
            )
        match = _ARCH.fullmatch(text)
        if match is None:
            raise CellError(f"not an architecture: got {shown(text)}, expected as in {_EXAMPLE}")
        for name in match.groups():
            if name not in OP_NAMES:
                near = difflib.get_close_matches(name, OP_NAMES, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise CellError(
                    f"unknown operation {shown(name)}{hint}; valid: {', '.join(OP_NAMES)}, "
                    f"in an architecture such as {_EXAMPLE}"
                )
        return cls(tuple(map(OP_NAMES.index, match.groups())))  # type: ignore[arg-type]  # one per edge

    @classmethod
    def from_index(cls, index: int) -> Cell:
        """Return the cell with this index in the benchmark."""
        whole = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if not whole or not 0 <= index < SPACE_SIZE:
            told = shown(index)
            raise CellError(f"a cell's index is a whole number in 0..{SPACE_SIZE - 1}, got {told}")
        ops = np.unravel_index(index_order()[index], (len(OP_NAMES),) * len(EDGES))
        return cls(tuple(map(int, ops)))  # type: ignore[arg-type]  # one per edge

    @classmethod
    def find(cls, name: Cell | int | str) -> Cell:
        """Return the cell named by an index (also as text), a code, an architecture or a Cell."""
        if isinstance(name, Cell):
            return name
        if isinstance(name, str):
            digits = name.strip()
            if digits.isascii() and digits.lstrip("-").isdigit() and len(digits) < _LONGEST:
                return cls.from_index(int(digits))
            if digits[:1] != "|" and not digits[:1].isdigit():
                raise CellError(
                    f"not a cell: got {shown(name)}, expected an index (0 to {SPACE_SIZE - 1}), a "
                    f"code (3_34_131) or an architecture ({_EXAMPLE})"
                )
            return cls.parse(digits)
        try:
            index = int(name)
        except (TypeError, ValueError, OverflowError):
            index = -1
        if index != name or isinstance(name, bool | np.bool_):
            raise CellError(
                "a cell must be named by its index, its architecture or its code, or be a Cell, "
                f"got {shown(name)}"
            )
        return cls.from_index(index)

    @property
    def index(self) -> int:
        """Number of this cell in the benchmark."""
        rank = np.ravel_multi_index(self.ops, (len(OP_NAMES),) * len(EDGES))
        return int(_index_of_rank()[rank])

    @property
    def code(self) -> str:
        """Digit code, such as ``3_34_131``."""
        return "{}_{}{}_{}{}{}".format(*self.ops)

    def op(self, target: int, source: int) -> int:
        """Return the operation on the edge from `source` to `target`."""
        if (target, source) not in EDGES:
            raise CellError(f"(target, source) must be one of {EDGES}, got {(target, source)}")
        return self.ops[EDGES.index((target, source))]

    @property
    def title(self) -> str:
        """Name in messages: ``cell INDEX``."""
        return f"cell {self.index}"

    def _edges(self) -> tuple[Edge, ...]:
        edges = []
        for (target, source), op in zip(EDGES, self.ops, strict=True):
            if op != NONE:
                edges.append((target, source, op))
        return tuple(edges)

    def path_depths(self) -> tuple[int, ...]:
        """Return the depth of each path, ascending; none if no path exists.

        The depth of a path is the number of its convolutions plus one.
        """
        depths: list[int] = []
        for depth, count in enumerate(self.depth_polynomial(), start=1):
            depths += [depth] * count
        return tuple(depths)

    def network_polynomial(self, cells_per_stage: int = 5) -> Polynomial:
        """Return the depth polynomial of the network that is built from this cell."""
        if not isinstance(cells_per_stage, int | np.integer) or cells_per_stage < 1:
            told = shown(cells_per_stage)
            raise CellError(f"cells_per_stage must be a whole number of at least 1, got {told}")
        return network_polynomial(self.depth_polynomial(), cells_per_stage)

    def functional_class(self, partition: Partition = "benchmark") -> int:
        """Return the smallest index among the cells that compute the same function."""
        return int(functional_classes(partition)[self.index])

    def class_members(self, partition: Partition = "benchmark") -> tuple[int, ...]:
        """Return the indices of all cells that compute the same function, ascending."""
        classes = functional_classes(partition)
        return tuple(np.flatnonzero(classes == classes[self.index]).tolist())

    def describe(self) -> dict[str, Fact]:
        """Return facts of the cell and its network: name to number or text."""
        network = self.network_polynomial()
        cubed = moment(network, 3)
        graph, members = Graph.describe(self), self.class_members()
        return {
            "index": self.index,
            "arch": str(self),
            "code": self.code,
            "n_paths": graph["n_paths"],
            "path_depths": joined(self.path_depths()),
            **graph,
            "network_paths": str(sum(network)),
            "network_sum_cubed_depths": str(cubed),
            "network_lr_multiplier": cubed**-0.5 if cubed else None,
            "functional_class": members[0],
            "class_size": len(members),
        }

    def _repr_svg_(self) -> str:
        """Return the drawing of the graph, for notebooks."""
        return svg(self)

    def __str__(self) -> str:
        """Return the architecture string."""
        return _FORM.format(*(OP_NAMES[op] for op in self.ops))


def all_cells() -> Iterator[Cell]:
    """Yield the 15,625 cells in index order."""
    return (Cell.from_index(index) for index in range(SPACE_SIZE))
