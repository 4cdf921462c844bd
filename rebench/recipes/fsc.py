"""Feature speed control (Chizat & Netrapalli): every layer reduces the loss by the same amount.

The init is N(0, 2 / (d fan_in)). Here d is the number of edges into the target vertex that carry a
signal. This normalises the forward pass. The readout normalises the backward pass: it is N(0, s^2)
with ``s = 1 / (fan_in (1 - 1/classes)^(1/2))``. The sensitivity of a feature is
``1 / (m ||b||_rms)``, with m its number of values and b the gradient of the loss with respect to
them. It is the smallest rms change of the feature that lowers the loss by 1, to first order. With
this readout, the sensitivity of the last feature is 1: a step that lowers the loss by eta_0 moves
this feature by at least eta_0. On one batch, each of L layers gets the rate
``eta_l = eta_0 / (L ||grad_l||^2)``. To first order, a step of gradient descent lowers the loss by
eta_0, each layer by eta_0 / L. With `refresh`, the rates are measured again every epoch.

A layer is a weight with the bias, gains and shifts that follow it. The paper treats gradient
descent. With momentum, the same factors apply, and the loss falls up to 1 / (1 - momentum) faster.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from rebench.errors import InputError
from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import Architecture, require_path
from rebench.recipes.init import LayerInit, degree_init

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet

__all__ = ["FeatureSpeedControl"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSpeedControl(Recipe):
    """Rates of layers from the gradients on one batch; `eta_0` is the intended loss decrease."""

    name = "fsc"
    summary = "measured: rates at which every layer lowers the loss equally"
    paper = "Chizat & Netrapalli, The Feature Speed Formula (NeurIPS 2024)"
    needs = "batch"
    rates_by_layer = True

    eta_0: Positive = 0.02
    refresh: bool = False

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return eta_0; `measure` adds the factors of the layers."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.eta_0)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the forward-normalised init; the readout has sensitivity 1."""
        require_path(self.name, cell)
        if layer.role != "readout":
            return degree_init(layer, cell, "target-live")
        classes = layer.weight.shape[0]
        uncertainty = math.sqrt(1 - 1 / classes) if classes > 1 else 1.0
        return LayerInit(std=1 / (layer.fan_in * uncertainty))

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,  # noqa: ARG002 - nothing is drawn
    ) -> HyperParameters:
        """Return the factor of every parameter, from the gradients on one batch."""
        require_path(self.name, cell)
        from rebench.nets.probe import Probe

        gradients = Probe(net, (images, labels), double=False).gradients
        weights = [layer.parameter for layer in net.weight_layers()]
        squares = dict.fromkeys(weights, 0.0)  # by weight, with its bias, gains and shifts
        owner: dict[str, str] = {}
        weight = weights[0]
        for name, _ in net.named_parameters():
            if name in squares:
                weight = name
            owner[name] = weight
            if name in gradients:
                squares[weight] += float(gradients[name].double().square().sum())
        moving = [name for name in weights if name in gradients and gradients[name].any()]
        if not moving:
            raise InputError(
                f"{type(net).__name__} has no gradient on this batch; fsc needs one to set rates"
            )
        rates = {name: 1 / (len(moving) * squares[name]) for name in moving}
        slowest = min(rates.values())  # for layers without a gradient on this batch
        return HyperParameters(
            learning_rate=self.eta_0,
            layer_multipliers={name: rates.get(weight, slowest) for name, weight in owner.items()},
        )
