"""The whole space as columns: every statistic of all 15,625 cells, compiled at once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cells.cell import all_cells
from cells.classes import functional_classes
from cells.graph import in_degree_array, joined, live_edge_mask
from cells.ops import index_order
from cells.paths import Polynomial, depth_array, moment, network_polynomial

__all__ = ["Network", "Space", "compile_network", "compile_space", "space_ops"]


@functools.cache
def space_ops() -> NDArray[np.int8]:
    """Return the operations of all cells as [15625, 6], in index order."""
    by_rank = np.indices((5,) * 6, dtype=np.int8).reshape(6, -1)
    ops: NDArray[np.int8] = by_rank[:, index_order()].T
    ops.setflags(write=False)
    return ops


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Cell-level statistics of all cells; row i of every array is the cell with index i.

    `depths[i, k]` counts the paths of cell i with k convolutions. `sum_cubed_depths` is of 1 + the
    convolutions of each path and `lr_multiplier` that to the -1/2 (NaN without a path).
    """

    ops: NDArray[np.int8]
    depths: NDArray[np.int64]
    n_paths: NDArray[np.int64]
    sum_cubed_depths: NDArray[np.int64]
    lr_multiplier: NDArray[np.float64]
    live_edges: NDArray[np.bool_]
    in_degree: NDArray[np.int64]
    in_degree_live: NDArray[np.int64]
    functional_class: NDArray[np.int64]
    class_size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ops)

    def polynomials(self) -> tuple[list[Polynomial], NDArray[np.int64]]:
        """Return the distinct depth polynomials, and for each cell which one is its own."""
        rows, inverse = np.unique(self.depths, axis=0, return_inverse=True)
        trimmed = [tuple(np.trim_zeros(row, "b").tolist()) for row in rows]
        return trimmed, inverse.reshape(-1)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The facts of `Cell.describe` of all cells: a column for each."""
        network = compile_network(self)
        cells = list(all_cells())
        polynomials, which = self.polynomials()
        depths = [
            joined(depth for depth, count in enumerate(polynomial) for _ in range(count))
            for polynomial in polynomials
        ]
        return {
            "index": np.arange(len(self)),
            "arch": _texts(map(str, cells)),
            "code": _texts(cell.code for cell in cells),
            "n_paths": self.n_paths,
            "path_depths": _texts(depths)[which],
            "sum_cubed_depths": self.sum_cubed_depths,
            "lr_multiplier": self.lr_multiplier,
            "in_degree_source": _texts(joined((1, *row, 1)) for row in self.in_degree.tolist()),
            "in_degree_target": _texts(map(joined, self.in_degree.tolist())),
            "in_degree_target_live": _texts(map(joined, self.in_degree_live.tolist())),
            "network_paths": network.paths.astype(str).astype(object),
            "network_sum_cubed_depths": network.sum_cubed_depths.astype(str).astype(object),
            "network_lr_multiplier": network.lr_multiplier,
            "functional_class": self.functional_class,
            "class_size": self.class_size,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network-level statistics of all cells, exact: arrays of Python integers.

    `sum_cubed_depths` is of the convolutions on each path through the whole network, stem and
    reduction blocks included; `lr_multiplier` is that to the -1/2 (NaN without a path).
    """

    paths: NDArray[np.object_]
    sum_cubed_depths: NDArray[np.object_]
    lr_multiplier: NDArray[np.float64]


def compile_space() -> Space:
    """Compute all cell-level statistics of the whole space."""
    ops = space_ops()
    depths = depth_array(ops)
    sum_cubed = depths @ (1 + np.arange(4)) ** 3
    classes = functional_classes()
    return Space(
        ops=ops,
        depths=depths,
        n_paths=depths.sum(axis=1),
        sum_cubed_depths=sum_cubed,
        lr_multiplier=_inverse_root(sum_cubed.astype(np.float64)),
        live_edges=live_edge_mask(ops),
        in_degree=in_degree_array(ops),
        in_degree_live=in_degree_array(ops, live=True),
        functional_class=classes,
        class_size=np.bincount(classes, minlength=len(classes))[classes],
    )


def compile_network(space: Space, cells_per_stage: int = 5) -> Network:
    """Compute the network-level statistics of all cells: one exact product per polynomial."""
    polynomials, which = space.polynomials()
    networks = [network_polynomial(polynomial, cells_per_stage) for polynomial in polynomials]
    paths = np.array([sum(network) for network in networks], dtype=object)
    cubed = np.array([moment(network, 3) for network in networks], dtype=object)
    return Network(
        paths=paths[which],
        sum_cubed_depths=cubed[which],
        lr_multiplier=_inverse_root(cubed.astype(np.float64))[which],
    )


def _texts(texts: Iterable[str]) -> NDArray[np.object_]:
    return np.array(list(texts), dtype=object)


def _inverse_root(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    roots: NDArray[np.float64] = np.full(sums.shape, np.nan)
    np.power(sums, -0.5, out=roots, where=sums > 0)
    return roots
