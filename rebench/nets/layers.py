"""What a network tells a recipe about its weights: one `Layer` for each weight matrix or kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import nn

from cells import Graph

__all__ = ["Layer", "LayeredNet", "Role"]

Role: TypeAlias = Literal["stem", "edge", "reduction", "shortcut", "readout"]
"""Where a layer stands.

Stem and readout are the first and the last weights, an edge is one of the cell or DAG, reduction is
the branch of a residual block with stride 2, and shortcut the convolution beside it.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One weight tensor (shape [out, in, *kernel]) of a network, and where it stands."""

    name: str  # the module's path; `parameter` is the weight's key in the state dict
    role: Role
    weight: torch.Tensor  # the parameter itself
    bias: torch.Tensor | None = None
    edge: tuple[int, int] | None = None  # (target, source), for the role "edge" only
    position: int | None = None  # which of the stacked cells and residual blocks, from 0
    followed_by_norm: bool = False
    computed: bool = True  # False where the forward pass never uses the weight
    inputs: int | None = None  # the fan-in, where it does not follow from the weight's shape

    @property
    def parameter(self) -> str:
        """The weight's key in the state dict."""
        return f"{self.name}.weight"

    @property
    def fan_in(self) -> int:
        """Inputs to one output unit."""
        return self.inputs or self.weight[0].numel()


class LayeredNet(nn.Module):
    """A network whose call gives logits, and which lists its weights from stem to readout."""

    if TYPE_CHECKING:

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            """Return logits, shape [batch, classes]."""

    def sibling(self, graph: Graph) -> LayeredNet:
        """Return the same network around another graph, with weights of no meaning yet."""
        raise NotImplementedError(f"{type(self).__name__} cannot be built around another graph")

    def weight_layers(self) -> tuple[Layer, ...]:
        """Return every weight matrix and kernel, in the order of the state dict."""
        raise NotImplementedError(f"{type(self).__name__} lists no layers")
