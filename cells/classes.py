"""Functional classes: cells that compute the same function because of `none`, skips and sums.

Three partitions of the 15,625 cells, each named by the smallest index of every class:

``benchmark`` (6,466 classes)
    The published count. A vertex is the sorted, ``+``-joined text of its terms; `none`, and any
    operation on a zero vertex 1, is ``#``; a skip stands for its source's text. It is a refinement
    of `exact` and not more: zeros stay as terms (so vertex 2 is never seen to be zero), and the
    text that a skip brings in is not sorted again among its neighbours. The number therefore
    depends on how terms are spelt (writing the operation before its argument gives 6,350).
``exact`` (4,930 classes)
    Every consequence of three identities: `none` is zero and zero added changes nothing; a
    convolution or pool of zero is zero; a skip is its source, sums commute and associate. Edges
    that compute the same term count as equal even where they have weights of their own: members
    agree when the weights of equal terms are equal, as two convolutions of one input do not stay
    in training.
``strict`` (5,485 classes)
    The same identities without those two liberties: a convolution of zero is the learnable bias
    of its batch normalisation, and terms count as equal only if the very same edges compute them
    (up to renaming edges). Members are the same trainable network.

That average pooling is linear is used by none of the three.
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
    """Return for every index the smallest index of its class."""
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
    """Return for each of some cells a number from 0, the same for those that are one network.

    These are the classes of the `strict` partition, found for these cells alone: quick for few.
    """
    try:
        asked = np.asarray(indices, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        asked = np.array(-1)
    if not asked.ndim or not ((asked >= 0) & (asked < SPACE_SIZE)).all():
        raise CellError(
            f"indices must be a list of whole numbers in 0..{SPACE_SIZE - 1}, got {shown(indices)}"
        )
    ranks = index_order()[asked]
    all_ops = np.stack(np.unravel_index(ranks, (len(OP_NAMES),) * 6), axis=1).tolist()
    return _numbered(_canonical(tuple(ops), strict=True) for ops in all_ops)


_ZERO, _INPUT = "#", "0"


def _term(op: int, value: str) -> str:
    if op == NONE or value == _ZERO:
        return _ZERO
    return value if op == SKIP else f"({value})@{OP_NAMES[op]}"


def _sum(*values: str) -> str:
    return "+".join(sorted(values))


def _benchmark_texts() -> Iterator[str]:
    """Yield the text of vertex 3 of every cell, in the order of the product of operations."""
    for op10, op20, op21 in itertools.product(_OPS, repeat=3):
        vertex1 = _term(op10, _INPUT)
        vertex2 = _sum(_term(op20, _INPUT), _term(op21, vertex1))
        arriving = ([_term(op, value) for op in _OPS] for value in (_INPUT, vertex1, vertex2))
        for values in itertools.product(*arriving):
            yield _sum(*values)


def _numbered(forms: Iterable[object]) -> NDArray[np.int64]:
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(form, len(seen)) for form in forms])


# A value is a tuple of atoms to be added up. An atom is (name, edge, argument): the edge that
# computes it, or -1 where it has no weights, and the value it is computed from.
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
    vertex3 = through(op30, source, 3) + through(op31, vertex1, 4) + through(op32, vertex2, 5)
    if not strict:
        return _renamed(vertex3, dict.fromkeys(range(6), -1))
    edges = sorted(_edges_in(vertex3))
    orders = itertools.permutations(range(len(edges)))
    return min(_renamed(vertex3, dict(zip(edges, order, strict=True))) for order in orders)


def _edges_in(value: Value) -> set[int]:
    return {edge for _, own, argument in value for edge in (own, *_edges_in(argument)) if edge >= 0}


def _renamed(value: Value, edges: dict[int, int]) -> Value:
    return tuple(
        sorted(
            (name, edges.get(edge, -1), _renamed(argument, edges)) for name, edge, argument in value
        )
    )
