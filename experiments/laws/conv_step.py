"""Plain and residual networks of equal layers, for training and for one step by Monte Carlo.

plain:  z' = W relu(z)      pre:  z' = z + s W relu(z)      post:  z' = relu(z) + s W relu(z)

One step: white-noise input, mean-field readout N(0, 1/n^2) of the spatial mean, loss derivative 1.
Networks that are drawn together are the groups of one grouped convolution. To first order and
exactly: dz_l = conv(W_l, relu'(z) dz_{l-1}) + conv(G_l, relu(z_{l-1})), G_l the step of W_l.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from experiments.laws.bafu import first_order_updates
from experiments.laws.dagnet import ACTIVATIONS, Activation
from rebench.errors import InputError

# plain: no skips. pre: x + W relu(x). post: relu(x + W x), as in the classical residual block.
Block = Literal["plain", "pre", "post"]
Padding = Literal["zeros", "circular"]
# Activation -> E act(z)^2 for a standard normal z.
SECOND_MOMENTS = {"relu": 0.5, "gelu": 0.4252}


def join_branch(
    block: Block, z: torch.Tensor, active: torch.Tensor, branch: torch.Tensor
) -> torch.Tensor:
    """Return the output of a block: its branch W act(z) plus the skip."""
    if block == "plain":
        return branch
    return (z if block == "pre" else active) + branch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConvNetwork:
    """Chain of `depth` convolutions with kernels of `kernel` positions per side.

    `branch_power` p: in residual networks of K branches their weights are N(0, c / (K^p fan_in));
    AM-muP's residual-aware init is p = 1.
    """

    depth: int
    channels: int = 64
    kernel: int = 3
    dimensions: Literal[1, 2] = 1
    side: int = 32
    padding: Padding = "zeros"
    block: Block = "plain"
    branch_power: float = 1.0
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0 or self.kernel > self.side:
            raise InputError(f"kernel must be odd and within {self.side}, got {self.kernel}")

    def draw_weights(self, draws: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Draw the kernels of `draws` networks, grouped along their outputs."""
        fan_in = self.channels * self.kernel**self.dimensions
        shape = (draws * self.channels, self.channels, *[self.kernel] * self.dimensions)
        gain = 1 / SECOND_MOMENTS[self.activation]
        weights = []
        for layer in range(self.depth):
            # GELU keeps the variance only if it is 1, so the first layer must have variance 1. ReLU
            # keeps any variance.
            variance = (1.0 if self.activation == "gelu" and not layer else gain) / fan_in
            if self.block != "plain" and layer:
                variance /= max(1, self.depth - 1) ** self.branch_power
            weights.append(torch.randn(shape, generator=generator) * math.sqrt(variance))
        return weights

    def convolve(self, x: torch.Tensor, weight: torch.Tensor, groups: int) -> torch.Tensor:
        """Convolve with this network's padding; the output has the size of the input."""
        pad = self.kernel // 2
        if self.padding == "circular" and pad:
            x = F.pad(x, [pad] * (2 * self.dimensions), mode="circular")
            pad = 0
        convolution = F.conv1d if self.dimensions == 1 else F.conv2d
        return convolution(x, weight, padding=pad, groups=groups)

    def pre_activations(
        self, x: torch.Tensor, weights: list[torch.Tensor], groups: int
    ) -> list[torch.Tensor]:
        """Return z_1 ... z_L, the outputs of all convolutions, or of all blocks with a skip."""
        act = ACTIVATIONS[self.activation]
        z = self.convolve(x, weights[0], groups)
        outputs = [z]
        for weight in weights[1:]:
            active = act(z)
            z = join_branch(self.block, z, active, self.convolve(active, weight, groups))
            outputs.append(z)
        return outputs


def sample_conv_updates(
    network: ConvNetwork, *, draws: int, generator: torch.Generator, readouts: int = 2
) -> torch.Tensor:
    """Return the first-order E[dz_l^2] / eta^2 of every draw and layer, in double precision.

    Each network drawn has its own input; its readouts are averaged.
    """
    n, shape = network.channels, (network.side,) * network.dimensions
    chunk = max(1, min(draws, 2**21 // (n * math.prod(shape) * network.depth)))
    sampled = []
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        weights = [w.requires_grad_() for w in network.draw_weights(size, generator)]
        x = torch.randn(1, size * n, *shape, generator=generator)
        outputs = network.pre_activations(x, weights, size)
        features = ACTIVATIONS[network.activation](outputs[-1]).flatten(2).mean(2)
        squares = torch.zeros(size, network.depth, dtype=torch.float64)
        for _ in range(readouts):
            readout = torch.randn(size * n, generator=generator) / n
            gradients = torch.autograd.grad((features * readout).sum(), weights, retain_graph=True)
            updates = first_order_updates(outputs, weights, [-g for g in gradients])
            for layer, update in enumerate(updates):
                grouped = update.detach().double().view(size, -1)
                squares[:, layer] += grouped.square().mean(1) / readouts
        sampled.append(squares)
    return torch.cat(sampled)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeepPlan:
    """The shape and init of a `DeepNet`; all layers but the first are its K branches.

    Each branch is multiplied by s = K^-scale_power. The variance of its weights is multiplied by
    K^-variance_power.
    """

    width: int = 64
    depth: int = 1
    block: Block = "plain"
    variance_power: float = 0.0
    scale_power: float = 0.0
    kernel: int | None = None  # the side of 2-D kernels; None for dense layers

    @property
    def branches(self) -> int:
        """Return the number of layers."""
        return max(1, self.depth - 1)


class DeepNet(nn.Module):
    """Chain of ReLU layers, weights N(0, 2 / fan_in), mean-field readout N(0, 1 / width^2)."""

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
        self.readout = nn.Linear(plan.width, classes, bias=False)
        with torch.no_grad():
            for index, layer in enumerate(self.layers):
                weight = layer.get_parameter("weight")
                branch = bool(index) and plan.block != "plain"
                shrunk = plan.branches**-plan.variance_power if branch else 1.0
                std = math.sqrt(2 * shrunk / weight[0].numel())
                weight.normal_(0.0, std, generator=generator)
            self.readout.weight.normal_(0.0, 1 / plan.width, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the readout of the last layer's ReLU, averaged over pixels if any."""
        z = self.layers[0](self.entry(x))
        scale = self.plan.branches**-self.plan.scale_power
        for layer in self.layers[1:]:
            active = z.relu()
            branch = layer(active)
            if self.plan.block != "plain":
                branch = scale * branch
            z = join_branch(self.plan.block, z, active, branch)
        features = z.relu()
        if self.plan.kernel is not None:
            features = features.mean((2, 3))
        return self.readout(features)


def _layer(size: int, plan: DeepPlan) -> nn.Module:
    if plan.kernel is None:
        return nn.Linear(size, plan.width, bias=False)
    return nn.Conv2d(size, plan.width, plan.kernel, padding=plan.kernel // 2, bias=False)
