"""The 15,625 cells of NAS-Bench-201; `cells` compiles their graphs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from cells import EDGES, OP_NAMES, SPACE_SIZE, Cell, CostModel
from cells.classes import functional_classes, trainable_networks
from cells.drawing import svg_pieces
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3
from cells.paths import depth_array
from cells.table import compile_space, space_ops
from rebench.spaces.base import Bools, Floats, Ints, Space

if TYPE_CHECKING:
    from rebench.data import DataSpec

__all__ = ["SPACE", "NasBench201", "cost_model"]

# The four routes from vertex 0 to vertex 3, as positions in EDGES.
_ROUTES = (
    (EDGES.index((3, 0)),),
    (EDGES.index((1, 0)), EDGES.index((3, 1))),
    (EDGES.index((2, 0)), EDGES.index((3, 2))),
    (EDGES.index((1, 0)), EDGES.index((2, 1)), EDGES.index((3, 2))),
)


class NasBench201(Space):
    """Cells with one of five operations on each of six edges."""

    name = "nb201"
    item = "cell"
    levels = (len(OP_NAMES),) * len(EDGES)

    @property
    def size(self) -> int:
        """Number of cells."""
        return SPACE_SIZE

    def label(self, index: int) -> str:
        """Return the index as a text."""
        return str(index)

    def arch(self, index: int) -> str:
        """Return the architecture string of a cell."""
        return str(Cell.from_index(index))

    def item_of(self, name: Any) -> Cell:
        """Return the cell."""
        return Cell.find(name)

    def graph(self, index: int) -> Cell:
        """Return the cell."""
        return Cell.from_index(index)

    def find(self, name: Any) -> int:
        """Return the index of a cell, given as a Cell, an index, an architecture or a code."""
        try:
            return _index(name)
        except TypeError:  # a value that cannot be cached, such as a list
            return Cell.find(name).index

    def equal_networks(self, indices: Ints) -> Ints:
        """Return a number for each cell; equal numbers are the same trainable network."""
        if len(indices) == self.size:
            return functional_classes("strict")[indices]
        return trainable_networks(indices)

    def learns(self, indices: Ints) -> Bools:
        """Return whether each cell has a path from input to output."""
        return depth_array(space_ops()[indices]).sum(axis=1) > 0

    def published_classes(self) -> Ints:
        """Return the smallest index of each cell's published class."""
        return functional_classes()

    def rate_factors(self) -> Floats:
        """Return the factor of each cell's learning rate under the recipe `topology`."""
        return compile_space().lr_multiplier

    def statistics(self, indices: Ints, data: DataSpec) -> dict[str, Floats]:
        """Return costs and path statistics of cells, as scores that need no training."""
        model, space = cost_model(data), compile_space()
        convolutions = np.arange(space.depths.shape[1])  # depths are [cells, convolutions]
        scores = {
            "params": model.params(space.ops),
            "flops": model.flops(space.ops),
            "paths": space.n_paths,
            "deepest": ((space.depths > 0) * convolutions).max(axis=1),
            "mean-depth": space.depths @ convolutions / np.maximum(space.n_paths, 1),
            "cubed-depths": space.sum_cubed_depths,
            "live-edges": space.live_edges.sum(axis=1),
        }
        return {name: values[indices].astype(float) for name, values in scores.items()}

    def picture(self, index: int) -> list[str]:
        """Return the parts of the drawing of a cell's graph."""
        return svg_pieces(Cell.from_index(index))

    def choices(self, indices: Ints) -> Ints:
        """Return the operations of cells, [cells, 6]."""
        return space_ops()[indices].astype(np.int64)

    def features(self, indices: Ints) -> Floats:
        """Return the operations as indicators, then the path encoding, [cells, 114]."""
        return np.hstack([super().features(indices), self._paths(self.choices(indices))])

    def _paths(self, ops: Ints) -> Floats:
        """Return indicators of the operation sequences on the paths, [cells, 4 + 16 + 64].

        This is the path encoding of BANANAS (White et al., AAAI 2021): one indicator for each
        sequence of one, two or three operations. A sequence that contains `none` is not a path. The
        two routes with two edges share their indicators, because a path is only a sequence of
        operations.
        """
        kinds = len(OP_NAMES) - 1
        columns = [np.zeros((len(ops), kinds**length)) for length in (1, 2, 3)]
        for route in _ROUTES:
            taken = ops[:, route] - 1
            alive = np.flatnonzero((taken >= 0).all(1))
            code = taken[alive] @ kinds ** np.arange(len(route) - 1, -1, -1)
            columns[len(route) - 1][alive, code] = 1.0
        return np.hstack(columns)

    def work(self, index: int, data: DataSpec, skeleton: tuple[int, int]) -> tuple[float, int]:
        """Return millions of multiply-adds for an image, and the number of layers."""
        cell = Cell.from_index(index)
        layers = sum(cell.ops.count(op) for op in (CONV_3X3, CONV_1X1, AVG_POOL))
        return cost_model(data, *skeleton).of(cell).mflops, 3 * skeleton[1] * layers + 8

    def cost(
        self, indices: Ints, data: DataSpec, skeleton: tuple[int, int] = (16, 5)
    ) -> tuple[Floats, Floats]:
        """Return millions of parameters and of multiply-adds, counted as in the benchmark."""
        model = cost_model(data, *skeleton)
        ops = space_ops()[indices]
        return model.params(ops) / 1e6, model.flops(ops) / 1e6


def cost_model(data: DataSpec, channels: int = 16, cells_per_stage: int = 5) -> CostModel:
    """Return the cost of networks for a data set, by default of the benchmark's networks."""
    return CostModel(
        image_side=data.size,
        classes=data.classes,
        channels=channels,
        cells_per_stage=cells_per_stage,
    )


@functools.lru_cache(maxsize=2**16)
def _index(name: Any) -> int:
    return Cell.find(name).index


SPACE = NasBench201()
