"""Description of a network's weights for recipes: one `Layer` for each weight matrix or kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import nn

from cells import Graph

__all__ = ["Layer", "LayeredNet", "Role"]

Role: TypeAlias = Literal["stem", "edge", "reduction", "shortcut", "readout"]
"""Position of a layer in the network.

Stem and readout are the first and the last weights. An edge belongs to the cell or DAG. Reduction
is the branch of a residual block with stride 2; shortcut is the convolution parallel to the branch.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One weight tensor (shape [out, in, *kernel]) of a network, with its position."""

    name: str  # the module's path; `parameter` is the weight's key in the state dict
    role: Role
    weight: torch.Tensor  # the parameter itself
    bias: torch.Tensor | None = None
    edge: tuple[int, int] | None = None  # (target, source), for the role "edge" only
    position: int | None = None  # index among the cells and residual blocks, from 0
    followed_by_norm: bool = False
    computed: bool = True  # False if the forward pass never uses the weight
    inputs: int | None = None  # the fan-in, if it does not follow from the weight's shape

    @property
    def parameter(self) -> str:
        """Key of the weight in the state dict."""
        return f"{self.name}.weight"

    @property
    def fan_in(self) -> int:
        """Number of inputs of one output unit."""
        return self.inputs or self.weight[0].numel()


class LayeredNet(nn.Module):
    """Network that returns logits and lists its weights from stem to readout."""

    if TYPE_CHECKING:

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            """Return logits, shape [batch, classes]."""

    def sibling(self, graph: Graph) -> LayeredNet:
        """Return the same network for another graph; its weights must still be initialised."""
        raise NotImplementedError(f"{type(self).__name__} cannot be built for another graph")

    def weight_layers(self) -> tuple[Layer, ...]:
        """Return every weight matrix and kernel, in the order of the state dict."""
        raise NotImplementedError(f"{type(self).__name__} lists no layers")
