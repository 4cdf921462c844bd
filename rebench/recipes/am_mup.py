"""The arithmetic-mean rule (AM-muP): keep the network's mean squared one-step update constant.

The learning rate is ``base_lr (L / L_base)^(-3/2)``. The minimal depth L is the number of layers
and residual additions on the shortest path. The init variance is ``c / (K fan_in)`` in residual
branches, with K residual blocks, and ``c / fan_in`` elsewhere.

Additions count for this reason: K residual blocks after a stem have a shortest path of one layer
at any K. The mean update over all their sums grows with K. With additions, L = K + 1. A cell
adds to L the convolutions on its shortest path, and the vertices on it where edges meet. Only a
cell with a single path of skips or pools adds nothing.

The exponent is from the paper. Our measurements confirm it for plain networks, but not for residual
networks with this init: their branches add coherently, and a pre-activation MLP gives about -1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cells import Cell, DagCode
from rebench.errors import InputError
from rebench.recipes.base import Count, HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture, base_of, is_residual, require_path
from rebench.recipes.init import LayerInit

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["ArithmeticMean", "minimal_depth"]

EXPONENT = -1.5
_REDUCTION_BLOCKS = 2


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ArithmeticMean(Recipe):
    """Learning rate from the minimal depth to the power -3/2, with the residual-aware init.

    `residual_blocks` is K. By default, K counts the two reduction blocks and every cell with a
    skip path parallel to convolutions; for a graph code, K is 1. With `additions` False, only
    layers count, as in records that do not name this parameter.
    """

    name = "am-mup"
    summary = "lr from the minimal depth to the -3/2, residual-aware init"
    paper = "AM-muP, Arithmetic-Mean muP for Modern Architectures (2025)"

    base_lr: Positive = DEFAULT_BASE_LR
    c: Positive = 2.0
    residual_blocks: Count | None = None
    cells_per_stage: Count = 5
    additions: bool = dataclasses.field(default=True, metadata={"named": True})

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return base_lr times (minimal depth / minimal depth of the base)^(-3/2)."""
        depth, base = self._minimal_depths(cell)
        return HyperParameters(learning_rate=self.base_lr * (depth / base) ** EXPONENT)

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the minimal depths and the number of residual blocks."""
        depth, base = self._minimal_depths(cell)
        return {
            "minimal depth": depth,
            "minimal depth of the base": base,
            "residual blocks": self.count_blocks(cell),
            "base lr": self.base_lr,
        }

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return variance c / (K fan_in) for residual branches, c / fan_in for other layers."""
        require_path(self.name, cell)
        if layer.role == "readout":
            return LayerInit(std=layer.fan_in**-0.5)
        blocks = 1
        if layer.role == "reduction" or (layer.role == "edge" and is_residual(cell)):
            blocks = self.count_blocks(cell)
        return LayerInit(std=math.sqrt(self.c / (blocks * layer.fan_in)))

    def count_blocks(self, cell: Architecture) -> int:
        """Return K, given or counted."""
        if self.residual_blocks is not None:
            return self.residual_blocks
        if not isinstance(cell, Cell):
            return 1
        return _REDUCTION_BLOCKS + 3 * self.cells_per_stage * is_residual(cell)

    def _minimal_depths(self, cell: Architecture) -> tuple[int, int]:
        require_path(self.name, cell)
        return self._minimal_depth(cell), self._minimal_depth(base_of(cell))

    def _minimal_depth(self, cell: Architecture) -> int:
        depth = minimal_depth(cell, additions=self.additions)
        if isinstance(cell, DagCode):
            return 1 + depth
        if not isinstance(cell, Cell):
            raise InputError(f"recipe {self.name!r} takes cells and graph codes, not {cell.title}")
        # The stem, and the shortcut of each reduction block with the addition after it.
        around = 1 + _REDUCTION_BLOCKS * (1 + self.additions)
        return around + 3 * self.cells_per_stage * depth


def minimal_depth(graph: Architecture, *, additions: bool) -> int:
    """Return the smallest number of layers, and additions if they count, on a path.

    An addition is a vertex where at least two live edges meet. The graph must have a path.
    """
    degrees = (1, *graph.in_degrees(live=True))
    depths = {0: 0}
    for target, source, op in graph.edges(live=True):
        depth = depths[source] + (op in graph.LAYERS) + (additions and degrees[target] > 1)
        depths[target] = min(depth, depths.get(target, depth))
    return depths[graph.n_vertices - 1]
