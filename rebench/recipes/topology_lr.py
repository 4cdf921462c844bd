"""The learning-rate half of `topology`, with the benchmark's init."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from rebench.recipes.graph import Architecture
from rebench.recipes.init import LayerInit, default_init
from rebench.recipes.registry import register
from rebench.recipes.topology import PathSum

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["TopologyLr"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyLr(PathSum):
    """The learning rate of `topology` with the benchmark's init."""

    name: ClassVar[str] = "topology-lr"
    summary: ClassVar[str] = "the lr of topology with PyTorch's default init (ablation)"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - the same for all
        """Return PyTorch's default."""
        return default_init(layer)
