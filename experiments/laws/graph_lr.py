"""The maximal learning rate of a graph network, by training one epoch at every rate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from cells import DagCode
from experiments.laws.conv_step import SECOND_MOMENTS
from experiments.laws.dagnet import Activation, DagCNN, DagMLP
from experiments.laws.graphs import DegreeRule, edge_variances
from experiments.laws.images import SmallImages
from experiments.laws.rate_search import RateGrid, search_rates
from experiments.laws.recursion import Order
from rebench.nets import Layer
from rebench.recipes.init import LayerInit, initialise


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings(RateGrid):
    """One epoch of plain SGD on cross-entropy at a geometric grid of learning rates."""

    width: int = 64
    activation: Activation = "relu"
    order: Order = "before"
    rule: DegreeRule | Literal["coded"] = "target"
    # Standard deviation of the readout; None is 1 / width, mean-field.
    readout_std: float | None = None
    # The network that the paper's code builds: a ReLU behind the stem too, and every layer drawn by
    # its fan-out: variance 2 / (d fan_out), d the in-degree of the source, dead edges counted; the
    # readout's variance is the square of that. `order` is then after, `rule` coded.
    released: bool = False
    classes: int = 10
    # False: the readout learns at 1 / width of the rate and the stem at width / fan_in, so that
    # the graph's weights alone limit the rate, as the theory has it.
    shared_rate: bool = False


def draw_net(
    code: DagCode,
    kernel: int | None,
    images: torch.Tensor,
    settings: SearchSettings,
    generator: torch.Generator,
) -> DagMLP | DagCNN:
    """The network of a graph for `images`, its weights drawn as `settings` say.

    Args:
        code: the graph.
        kernel: None for a dense network, else the side of every kernel.
        images: (image, channel, height, width), for their shape.
        settings: width, init and order.
        generator: what draws the weights.
    """
    build: Callable[..., DagMLP | DagCNN]
    if kernel is None:
        build = partial(DagMLP, inputs=images[0].numel(), width=settings.width)
    else:
        build = partial(
            DagCNN, in_channels=images.shape[1], channels=settings.width, kernel_size=kernel
        )
    net = build(
        code, classes=settings.classes, activation=settings.activation, order=settings.order,
        active_stem=settings.released, biases=settings.released,
    )  # fmt: skip
    variances = edge_variances(code, settings.rule)
    inits = {}
    for layer in net.weight_layers():
        if settings.released:
            std = _released_std(layer, variances)
        else:
            std = _theory_std(layer, variances, settings)
        inits[layer.name] = LayerInit(std=std)
    initialise(net, inits, generator)
    return net


def _theory_std(
    layer: Layer, variances: npt.NDArray[np.float64], settings: SearchSettings
) -> float:
    if layer.role == "readout":
        return settings.readout_std or 1 / settings.width
    # The init of equation 4 keeps E act(z)^2 of a standard normal z: for ReLU 1/2.
    gain = 0.5 / SECOND_MOMENTS[settings.activation]
    variance = 1.0 if layer.edge is None else gain * float(variances[layer.edge])
    return math.sqrt(variance / layer.fan_in)


def _released_std(layer: Layer, variances: npt.NDArray[np.float64]) -> float:
    fan_out = layer.weight[:, 0].numel()
    if layer.role == "readout":
        return 2 / fan_out
    variance = 2.0 if layer.edge is None else float(variances[layer.edge])
    return math.sqrt(variance / fan_out)


def rate_factors(net: DagMLP | DagCNN, settings: SearchSettings) -> dict[str, float]:
    """The factor on the learning rate of every parameter, by name."""
    factors = {"stem": 1.0, "readout": 1.0}
    if not settings.shared_rate:
        stem = net.weight_layers()[0]
        factors = {"stem": settings.width / stem.weight.shape[1], "readout": 1 / settings.width}
    layers = net.weight_layers()
    by_name = {layer.parameter: factors.get(layer.role, 1.0) for layer in layers}
    if settings.released:  # biases learn at the rate of the weights
        by_name |= {f"{layer.name}.bias": 1.0 for layer in layers}
    return by_name


def search_graph(
    code: DagCode,
    kernel: int | None,
    images: SmallImages,
    settings: SearchSettings,
    seed: int,
) -> pd.DataFrame:
    """Train a graph's network for one epoch at every rate; see `search_rates`."""

    def build(generator: torch.Generator) -> tuple[DagMLP | DagCNN, dict[str, float]]:
        net = draw_net(code, kernel, images.pixels, settings, generator)
        return net, rate_factors(net, settings)

    return search_rates(build, images.pixels, images.labels, settings, seed)
