"""The benchmark's own recipe."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from rebench.recipes.base import HyperParameters, Recipe
from rebench.recipes.graph import Architecture
from rebench.recipes.init import LayerInit, default_init
from rebench.recipes.reference import BENCHMARK_LR
from rebench.recipes.registry import register

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["NasBench201"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class NasBench201(Recipe):
    """Learning rate 0.1 and PyTorch's default init for every cell."""

    name: ClassVar[str] = "nb201"
    summary: ClassVar[str] = "the benchmark's own: lr 0.1, PyTorch's default init"
    paper: ClassVar[str] = "Dong & Yang, NAS-Bench-201 (ICLR 2020)"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:  # noqa: ARG002 - the same for all
        """Return the benchmark's learning rate."""
        return HyperParameters(learning_rate=BENCHMARK_LR)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - the same for all
        """Return PyTorch's default."""
        return default_init(layer)
