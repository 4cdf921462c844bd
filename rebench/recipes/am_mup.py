"""The arithmetic-mean rule (AM-muP): hold the network-wide mean one-step second moment.

Learning rate ``base_lr (L / L_base)^(-3/2)`` with L the minimal depth, the layers on the shortest
path; init with variance ``c / (K fan_in)`` in residual branches, K the number of residual blocks,
and ``c / fan_in`` elsewhere.

The exponent is the paper's. For plain networks it is measured here too, but for residual ones with
this init it is not: their branches add up coherently, and a pre-activation MLP gives about -1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from cells import Cell, network_polynomial
from rebench.recipes.base import (
    BASE_CODE,
    DEFAULT_BASE_LR,
    Architecture,
    Count,
    HyperParameters,
    LayerInit,
    Positive,
    Recipe,
    register,
)
from rebench.recipes.topology import cell_polynomial, require_path

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["ArithmeticMean", "is_residual"]

EXPONENT = -1.5
_REDUCTION_BLOCKS = 2


def is_residual(cell: Architecture) -> bool:
    """Return whether a path without convolutions runs beside one that has some."""
    polynomial = cell_polynomial(cell)
    return len(polynomial) > 1 and polynomial[0] > 0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class ArithmeticMean(Recipe):
    """The -3/2 power of the minimal depth, with the residual-aware init.

    `residual_blocks` is K; if not given, the two reduction blocks and every cell with a skip path
    beside its convolutions are counted (for a graph code, 1).
    """

    name: ClassVar[str] = "am-mup"
    summary: ClassVar[str] = "lr from the minimal depth to the -3/2, residual-aware init"
    paper: ClassVar[str] = "AM-muP, Arithmetic-Mean muP for Modern Architectures (2025)"

    base_lr: Positive = DEFAULT_BASE_LR
    c: Positive = 2.0
    residual_blocks: Count | None = None
    cells_per_stage: Count = 5

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return base_lr times the minimal depth, relative to the base's, to the -3/2."""
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
        """Return c / (K fan_in) in residual branches, c / fan_in elsewhere."""
        require_path(self.name, cell)
        if layer.role == "readout":
            return LayerInit(std=layer.fan_in**-0.5)
        branch = layer.role == "reduction" or (layer.role == "edge" and is_residual(cell))
        blocks = self.count_blocks(cell) if branch else 1
        return LayerInit(std=math.sqrt(self.c / (blocks * layer.fan_in)))

    def count_blocks(self, cell: Architecture) -> int:
        """Return K, given or counted."""
        if self.residual_blocks is not None:
            return self.residual_blocks
        if not isinstance(cell, Cell):
            return 1
        return _REDUCTION_BLOCKS + 3 * self.cells_per_stage * is_residual(cell)

    def _minimal_depths(self, cell: Architecture) -> tuple[int, int]:
        polynomial = require_path(self.name, cell)
        if not isinstance(cell, Cell):
            return 1 + _lowest(polynomial), 1
        base = network_polynomial(Cell.parse(BASE_CODE), self.cells_per_stage)
        return _lowest(network_polynomial(cell, self.cells_per_stage)), _lowest(base)


def _lowest(polynomial: tuple[int, ...]) -> int:
    return next(depth for depth, count in enumerate(polynomial) if count)
