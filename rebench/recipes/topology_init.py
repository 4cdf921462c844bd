"""The init half of `topology`, with one learning rate for every cell."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from rebench.recipes.base import HyperParameters, Positive, Recipe
from rebench.recipes.graph import Architecture, Degree, require_path
from rebench.recipes.init import LayerInit, degree_init
from rebench.recipes.reference import BENCHMARK_LR
from rebench.recipes.registry import register
from rebench.recipes.topology import PAPER

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["TopologyInit"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyInit(Recipe):
    """The init of `topology` with one learning rate for every cell, the benchmark's by default.

    It has no value without a path, as the other half, so that an ablation compares equal sets.
    """

    name: ClassVar[str] = "topology-init"
    summary: ClassVar[str] = "the init of topology with a fixed lr (ablation)"
    paper: ClassVar[str] = PAPER

    lr: Positive = BENCHMARK_LR
    degree: Degree = "source"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the fixed learning rate."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init that the in-degrees give."""
        require_path(self.name, cell)
        return degree_init(layer, cell, self.degree)
