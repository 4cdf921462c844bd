"""Initialisation of weights: distributions of layers, and draws from a generator."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from rebench.recipes.graph import Architecture, Degree, edge_degree

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet

__all__ = [
    "LayerInit",
    "default_init",
    "degree_init",
    "draw",
    "he_init",
    "init_rate_factor",
    "initialise",
    "mean_field_readout",
    "selects",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LayerInit:
    """Init of one layer: weights with mean 0, biases uniform in +-`bias_bound`."""

    std: float
    distribution: Literal["normal", "uniform"] = "normal"
    bias_bound: float = 0.0
    degree: int | None = None  # the in-degree that the rule divided the variance by

    @property
    def size(self) -> float:
        """Standard deviation of a normal distribution, or bound of a uniform distribution."""
        return self.std if self.distribution == "normal" else math.sqrt(3) * self.std


def default_init(layer: Layer) -> LayerInit:
    """Return PyTorch's default: weight and bias uniform in +-fan_in^-1/2, with PyTorch's fan-in."""
    bound: float = layer.weight[0].numel() ** -0.5
    return LayerInit(std=bound / math.sqrt(3), distribution="uniform", bias_bound=bound)


def he_init(layer: Layer, degree: int = 1) -> LayerInit:
    """Return N(0, 2 / (degree fan_in)); degree 0 counts as 1."""
    degree = max(degree, 1)
    return LayerInit(std=math.sqrt(2 / (degree * layer.fan_in)), degree=degree)


def init_rate_factor(net: LayeredNet, inits: Mapping[str, LayerInit]) -> float:
    """Return the factor of an init on the effective rate of a network; 1 for PyTorch's default.

    Scaling a weight before batch normalisation does not change the function of the network, but
    divides the gradient by the scale. The weight's direction moves by lr / std^2, so a larger init
    acts like a lower rate. The factor is the geometric mean over all such weights.
    """
    ratios = [
        math.log(default_init(layer).std / inits[layer.name].std)
        for layer in net.weight_layers()
        if layer.followed_by_norm and layer.computed
    ]
    if not ratios:
        return 1.0
    return math.exp(2 * statistics.fmean(ratios))


def mean_field_readout(layer: Layer) -> LayerInit:
    """Return N(0, (2 / fan_in)^2), the mean-field readout: features move from the first step."""
    return LayerInit(std=2 / layer.fan_in)


def degree_init(layer: Layer, graph: Architecture, degree: Degree) -> LayerInit:
    """Return N(0, 2 / (d fan_in)) for a layer; the mean-field init for the readout.

    The two branches of a reduction block are added, so each has degree 2: at its first convolution
    for `source` (as in the released code), at its last for `target` (as in the appendix).
    """
    if layer.role == "readout":
        return mean_field_readout(layer)
    if layer.role == "edge":
        assert layer.edge is not None, "a layer with the role edge names its edge"
        return he_init(layer, edge_degree(graph, layer.edge, degree))
    added = layer.role == "shortcut"
    if layer.role == "reduction":
        added = (".conv_a." in layer.name) == degree.startswith("source")
    return he_init(layer, 1 + added)


def selects(part: str, layer: Layer) -> bool:
    """Return whether `init_at` selects a layer: all, none, before normalisation, or the others."""
    return part == "all" or (part != "none" and layer.followed_by_norm == (part == "normalised"))


def draw(parameter: torch.Tensor, generator: torch.Generator, kind: str, size: float) -> None:
    """Draw a weight or bias in place: "normal", N(0, size^2), or uniform in +-size.

    Numbers are drawn on the generator's device and then copied, so a network has the same initial
    weights on a GPU and on the CPU.
    """
    import torch

    drawn = torch.empty(parameter.shape, device=generator.device)
    if kind == "normal":
        drawn.normal_(0, size, generator=generator)
    else:
        drawn.uniform_(-size, size, generator=generator)
    with torch.no_grad():
        parameter.copy_(drawn)


def initialise(
    net: LayeredNet, layer_inits: Mapping[str, LayerInit], generator: torch.Generator
) -> None:
    """Draw every layer of `net` in place; reset its normalisation layers."""
    from torch import nn

    for layer in net.weight_layers():
        rule = layer_inits[layer.name]
        draw(layer.weight, generator, rule.distribution, rule.size)
        if layer.bias is not None:
            draw(layer.bias, generator, "uniform", rule.bias_bound)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            module.reset_parameters()
