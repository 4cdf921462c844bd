"""Functional classes: cells that compute the same function because of `none`, skips and sums.

The 15,625 cells are partitioned in three ways. The smallest index of a class names the class.

``benchmark`` (6,466 classes)
    The published count. A vertex is written as its terms, sorted and joined by ``+``. `none`, and
    any operation on a zero vertex 1, is written ``#``. A skip is replaced by the text of its
    source. Zeros stay as terms, so vertex 2 is never zero, and inserted text is not sorted again.
    The partition is therefore finer than `exact`, and its size depends on how terms are written:
    with the operation before its argument, the size is 6,350.
``exact`` (4,930 classes)
    All consequences of three identities. `none` is zero, and adding zero changes nothing. A
    convolution or pool of zero is zero. A skip is its source; sums commute and associate.
    Edges that compute the same term count as equal, although each has separate weights. Members
    agree only while these weights are equal; training makes them differ.
``strict`` (5,485 classes)
    The same identities, with two restrictions. A convolution of zero is the learnable bias of its
    batch normalisation. Terms are equal only if the same edges compute them (up to renaming
    edges). Members are the same trainable network.

No partition uses the linearity of average pooling.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cells.errors import CellError, shown
from cells.ops import AVG_POOL, NONE, OP_NAMES, SKIP, SPACE_SIZE, index_order

__all__ = ["Partition", "functional_classes", "trainable_networks"]

Partition: TypeAlias = Literal["benchmark", "exact", "strict"]

_OPS = range(len(OP_NAMES))


@functools.cache
def functional_classes(partition: Partition = "benchmark") -> NDArray[np.int64]:
    """Return, for every index, the smallest index of its class."""
    if partition == "benchmark":
        by_rank = _numbered(_benchmark_texts())
    elif partition in ("exact", "strict"):
        ranked = itertools.product(_OPS, repeat=6)
        by_rank = _numbered(_canonical(ops, strict=partition == "strict") for ops in ranked)
    else:
        raise CellError(f"partition must be benchmark, exact or strict, got {partition!r}")
    _, smallest, which = np.unique(by_rank[index_order()], return_index=True, return_inverse=True)
    classes: NDArray[np.int64] = smallest[which]
    classes.setflags(write=False)
    return classes


def trainable_networks(indices: ArrayLike) -> NDArray[np.int64]:
    """Return a number from 0 for each cell; cells with the same trainable network share it.

    The classes are those of the `strict` partition, computed only for the given cells.
    """
    try:
        asked = np.asarray(indices, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        asked = np.array(-1)
    whole = asked.ndim and np.array_equal(asked, indices)  # false if 1.5 was cut to 1
    if not whole or not ((asked >= 0) & (asked < SPACE_SIZE)).all():
        raise CellError(
            f"indices must be a list of whole numbers in 0..{SPACE_SIZE - 1}, got {shown(indices)}"
        )
    ranks = index_order()[asked]
    all_ops = np.transpose(np.unravel_index(ranks, (len(OP_NAMES),) * 6)).tolist()
    return _numbered(_canonical(tuple(ops), strict=True) for ops in all_ops)


_ZERO, _INPUT = "#", "0"


def _term(op: int, value: str) -> str:
    if op == NONE or value == _ZERO:
        return _ZERO
    if op == SKIP:
        return value
    return f"({value})@{OP_NAMES[op]}"


def _sum(*values: str) -> str:
    return "+".join(sorted(values))


def _benchmark_texts() -> Iterator[str]:
    """Yield the expression for vertex 3 of every cell, by the rules of `benchmark`.

    Cells are in the order of `itertools.product` over the operations of the six edges.
    """
    for op10, op20, op21 in itertools.product(_OPS, repeat=3):
        vertex1 = _term(op10, _INPUT)
        vertex2 = _sum(_term(op20, _INPUT), _term(op21, vertex1))
        for op30, op31, op32 in itertools.product(_OPS, repeat=3):
            yield _sum(_term(op30, _INPUT), _term(op31, vertex1), _term(op32, vertex2))


def _numbered(forms: Iterable[object]) -> NDArray[np.int64]:
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(form, len(seen)) for form in forms])


# A value is a tuple of atoms that are added. An atom is (name, edge, argument): the edge computes
# the atom from the argument, a value. The edge is -1 if it has no weights.
Atom: TypeAlias = "tuple[str, int, Value]"
Value: TypeAlias = tuple[Atom, ...]


@functools.cache
def _canonical(ops: tuple[int, ...], *, strict: bool) -> Value:
    op10, op20, op21, op30, op31, op32 = ops
    source: Value = (("input", -1, ()),)

    def through(op: int, value: Value, edge: int) -> Value:
        if op == NONE or (not value and not strict):
            return ()
        if op == SKIP or (op == AVG_POOL and not value):
            return value
        if op == AVG_POOL:
            return (("pool", -1, value),)
        if not value:
            return (("bias", edge, ()),)
        return ((OP_NAMES[op], edge, value),)

    vertex1 = through(op10, source, 0)
    vertex2 = through(op20, source, 1) + through(op21, vertex1, 2)
    vertex3 = through(op30, source, 3)
    vertex3 += through(op31, vertex1, 4)
    vertex3 += through(op32, vertex2, 5)
    if not strict:
        return _renamed(vertex3, {})
    # Edges of different terms have a fixed order. Edges of equal terms are tried in every order.
    alike: dict[Value, list[int]] = {}
    for edge, atom in _weighted(vertex3).items():
        alike.setdefault(_renamed((atom,), {}), []).append(edge)
    groups = [itertools.permutations(alike[term]) for term in sorted(alike)]
    forms = []
    for order in itertools.product(*groups):
        edges = itertools.chain(*order)
        forms.append(_renamed(vertex3, dict(zip(edges, range(6), strict=False))))
    return min(forms)


def _weighted(value: Value) -> dict[int, Atom]:
    """Return the edges with weights in a value, and the atom that each computes."""
    found: dict[int, Atom] = {}
    for atom in value:
        _, edge, argument = atom
        if edge >= 0:
            found[edge] = atom
        found |= _weighted(argument)
    return found


def _renamed(value: Value, edges: dict[int, int]) -> Value:
    atoms = []
    for name, edge, argument in value:
        atoms.append((name, edges.get(edge, -1), _renamed(argument, edges)))
    return tuple(sorted(atoms))
