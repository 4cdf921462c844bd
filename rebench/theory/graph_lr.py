"""The maximal learning rate of a graph network, by training one epoch at every rate."""

from __future__ import annotations

import dataclasses
import math

import pandas as pd
import torch

from cells import DagCode
from rebench.nets import DagCNN, DagMLP
from rebench.nets.dagnet import Activation
from rebench.recipes.graph import Order
from rebench.recipes.init import LayerInit, initialise
from rebench.recipes.recursion import Graphs
from rebench.theory.conv_step import SECOND_MOMENTS
from rebench.theory.graphs import DegreeRule, layer_variances
from rebench.theory.rate_search import RateGrid, search_rates

__all__ = ["SearchSettings", "draw_net", "rate_factors", "search_graph"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """One epoch of plain SGD on cross-entropy at a geometric grid of learning rates."""

    width: int = 64
    batch_size: int = 64
    steps: int = 64
    lowest_lr: float = 1e-2
    highest_lr: float = 10.0
    n_lrs: int = 16
    seeds: int = 3
    activation: Activation = "relu"
    order: Order = "before"
    rule: DegreeRule = "target"
    # Standard deviation of the readout; None is 1 / width, mean-field.
    readout_std: float | None = None
    # False: the readout learns at 1 / width of the rate and the stem at width / fan_in, so that
    # the graph's weights alone limit the rate, as the theory has it.
    shared_rate: bool = False

    @property
    def grid(self) -> RateGrid:
        """The rates, and the epoch each is tried for."""
        return RateGrid(
            lowest=self.lowest_lr, highest=self.highest_lr, count=self.n_lrs, steps=self.steps,
            batch_size=self.batch_size, seeds=self.seeds,
        )  # fmt: skip


def draw_net(
    code: DagCode,
    kernel: int | None,
    images: torch.Tensor,
    settings: SearchSettings,
    generator: torch.Generator,
) -> DagMLP | DagCNN:
    """Return the network of a graph for `images`, its weights drawn as `settings` say.

    Args:
        code: the graph.
        kernel: None for a dense network, else the side of every kernel.
        images: (image, channel, height, width), for their shape.
        settings: width, init and order.
        generator: what draws the weights.
    """
    net: DagMLP | DagCNN
    if kernel is None:
        net = DagMLP(
            code, inputs=images[0].numel(), width=settings.width,
            activation=settings.activation, order=settings.order,
        )  # fmt: skip
    else:
        net = DagCNN(
            code, in_channels=images.shape[1], channels=settings.width, kernel_size=kernel,
            activation=settings.activation, order=settings.order,
        )  # fmt: skip
    # The init of equation 4 keeps E act(z)^2 of a standard normal z: for ReLU 1/2.
    gain = 0.5 / SECOND_MOMENTS[settings.activation]
    variances = layer_variances(Graphs.of([code]), settings.rule)[0]
    inits = {}
    for layer in net.weight_layers():
        std = 1 / math.sqrt(layer.fan_in)
        if layer.edge is not None:
            std *= math.sqrt(gain * float(variances[layer.edge]))
        elif layer.role == "readout":
            std = settings.readout_std or 1 / settings.width
        inits[layer.name] = LayerInit(std=std)
    initialise(net, inits, generator)
    return net


def rate_factors(net: DagMLP | DagCNN, settings: SearchSettings) -> dict[str, float]:
    """Return the factor on the learning rate of every parameter, by name."""
    factors = {"stem": 1.0, "readout": 1.0}
    if not settings.shared_rate:
        stem = net.weight_layers()[0]
        factors = {"stem": settings.width / stem.weight.shape[1], "readout": 1 / settings.width}
    return {layer.parameter: factors.get(layer.role, 1.0) for layer in net.weight_layers()}


def search_graph(
    code: DagCode,
    kernel: int | None,
    images: torch.Tensor,
    labels: torch.Tensor,
    settings: SearchSettings,
    seed: int,
) -> pd.DataFrame:
    """Train a graph's network for one epoch at every rate; see `search_rates`."""

    def build(generator: torch.Generator) -> tuple[DagMLP | DagCNN, dict[str, float]]:
        net = draw_net(code, kernel, images, settings, generator)
        return net, rate_factors(net, settings)

    return search_rates(build, images, labels, settings.grid, seed)
