"""Deep networks of equal layers with a mark behind each: plain or residual, dense or convolutional.

plain:  z' = W relu(z)      pre:  z' = z + s W relu(z)      post:  z' = relu(z) + s W relu(z)
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import nn

from experiments.laws.conv_step import Block, join_branch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeepPlan:
    """The shape and init of a `DeepNet`; its first layer stands before all branches."""

    width: int
    depth: int
    block: Block = "plain"
    # s above, and the factor on the variance 2 / fan_in of the branches' weights.
    branch_scale: float = 1.0
    branch_variance: float = 1.0
    kernel: int | None = None  # the side of 2-D kernels; None for dense layers


class DeepNet(nn.Module):
    """`depth` ReLU layers, weights N(0, 2 / fan_in), mean-field readout N(0, 1 / width^2)."""

    def __init__(
        self,
        plan: DeepPlan,
        generator: torch.Generator,
        *,
        in_features: int | None = None,
        classes: int = 1,
    ) -> None:
        super().__init__()
        self.plan = plan
        sizes = [in_features or plan.width] + [plan.width] * (plan.depth - 1)
        self.entry = nn.Flatten() if plan.kernel is None else nn.Identity()
        self.layers = nn.ModuleList(_layer(size, plan) for size in sizes)
        self.marks = nn.ModuleList(nn.Identity() for _ in sizes)  # what a feature hook names
        self.readout = nn.Linear(plan.width, classes, bias=False)
        with torch.no_grad():
            for index, layer in enumerate(self.layers):
                weight = layer.get_parameter("weight")
                shrunk = plan.branch_variance if index and plan.block != "plain" else 1.0
                std = math.sqrt(2 * shrunk / weight[0].numel())
                weight.normal_(0.0, std, generator=generator)
            self.readout.weight.normal_(0.0, 1 / plan.width, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The readout of the last layer's ReLU, averaged over pixels if there are any."""
        z = self.marks[0](self.layers[0](self.entry(x)))
        for layer, mark in zip(self.layers[1:], self.marks[1:], strict=True):
            active = z.relu()
            branch = layer(active)
            if self.plan.block != "plain":
                branch = self.plan.branch_scale * branch
            z = mark(join_branch(self.plan.block, z, active, branch))
        features = z.relu()
        if self.plan.kernel is not None:
            features = features.mean((2, 3))
        return self.readout(features)

    @property
    def hidden(self) -> list[str]:
        """The names of all parameters but the readout's."""
        return [name for name, _ in self.named_parameters() if name.startswith("layers")]


def _layer(size: int, plan: DeepPlan) -> nn.Module:
    if plan.kernel is None:
        return nn.Linear(size, plan.width, bias=False)
    return nn.Conv2d(size, plan.width, plan.kernel, padding=plan.kernel // 2, bias=False)
