"""Statistics of all 15,625 cells as arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cells.classes import functional_classes
from cells.graph import live_edge_mask
from cells.ops import index_order
from cells.paths import depth_array

__all__ = ["Space", "compile_space", "space_ops"]


@functools.cache
def space_ops() -> NDArray[np.int8]:
    """Return the operations of all cells as [15625, 6], in index order."""
    by_rank = np.indices((5,) * 6, dtype=np.int8).reshape(6, -1)
    ops: NDArray[np.int8] = by_rank[:, index_order()].T
    ops.setflags(write=False)
    return ops


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Statistics of all cells; row i of every array belongs to the cell with index i.

    `depths[i, k]` is the number of paths of cell i of depth k + 1, with k convolutions.
    `sum_cubed_depths` is the sum of the cubed depths of all paths; `lr_multiplier` is its power
    -1/2 (NaN without a path).
    """

    ops: NDArray[np.int8]
    depths: NDArray[np.int64]
    n_paths: NDArray[np.int64]
    sum_cubed_depths: NDArray[np.int64]
    lr_multiplier: NDArray[np.float64]
    live_edges: NDArray[np.bool_]
    functional_class: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ops)


def compile_space() -> Space:
    """Compute the statistics of all cells."""
    ops = space_ops()
    depths = depth_array(ops)
    sum_cubed = depths @ (1 + np.arange(4)) ** 3
    return Space(
        ops=ops,
        depths=depths,
        n_paths=depths.sum(axis=1),
        sum_cubed_depths=sum_cubed,
        lr_multiplier=_inverse_root(sum_cubed),
        live_edges=live_edge_mask(ops),
        functional_class=functional_classes(),
    )


def _inverse_root(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sums to the power -1/2 by Python (`np.power` may differ in the last bit); 0 is NaN."""
    distinct, places = np.unique(sums, return_inverse=True)
    roots = [n**-0.5 if n else np.nan for n in distinct.tolist()]
    return np.array(roots)[places]
