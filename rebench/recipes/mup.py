"""Maximal-update parametrisation (Yang et al.), as a plain optimiser with layer multipliers.

muP transfers a learning rate across *width*; paths and degrees play no role. At the base width, it
is `base_lr` with PyTorch's default init. With m = width / base_width, this table is equal to MuSGD,
MuAdam and MuReadout of the package `mup`, except for weight decay:

=================  ====================================  =====================  ===============
parameter          init                                  factor on lr of SGD    of Adam
=================  ====================================  =====================  ===============
stem               default (its fan-in is the input's)   m                      1
hidden weights     default, std ~ fan_in^-1/2            1                      1 / m
gains and biases   gains 1; biases as at the base width  m                      1
readout weight     default times output_mult m^-1/2      output_mult^2 / m      output_mult / m
readout bias       as at the base width                  1                      1
=================  ====================================  =====================  ===============

Recipes train with SGD. `rebench.plan` also gives the factors for Adam and AdamW.

Queries and keys are hidden weights. For parameters that are not in the table, the shape decides. If
one dimension grows with the width, the factor is m (Adam: 1). If two grow, it is 1 (Adam: 1 / m).

The readout's weight includes MuReadout's factor output_mult / m. MuSGD and MuAdam also divide the
weight decay of each parameter by its factor; an optimiser with one weight decay does not. Both are
equal without weight decay, or at the base width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from rebench.recipes.base import Count, HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture
from rebench.recipes.init import LayerInit, default_init

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet

__all__ = ["Mup"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Mup(Recipe):
    """Learning rate `base_lr` of a network of width `base_width`, transferred to other widths.

    The width is that of the stem: the channels of the first stage, or an MLP's hidden width.
    """

    name = "mup"
    summary = "muP for SGD: width-wise factors, the same lr for every topology"
    paper = "Yang et al., Tensor Programs V (2022)"
    needs = "network"
    rates_by_layer = True

    base_lr: Positive = DEFAULT_BASE_LR
    base_width: Count = 16
    output_mult: Positive = 1.0
    readout_zero_init: bool = False

    def hyperparameters(self, cell: Architecture) -> HyperParameters:  # noqa: ARG002 - only the width counts
        """Return the base learning rate; `measure` adds the factors."""
        return HyperParameters(learning_rate=self.base_lr)

    def layer_inits(self, net: LayeredNet, cell: Architecture) -> Mapping[str, LayerInit]:  # noqa: ARG002 - only the width counts
        """Return the init of every layer at the width of `net`."""
        ratio = self._width_ratio(net)
        inits = {}
        for layer in net.weight_layers():
            fan_in = 1.0 if layer.role == "stem" else ratio
            inits[layer.name] = self.scaled_init(layer, fan_in)
        return inits

    def scaled_init(self, layer: Layer, fan_in: float) -> LayerInit:
        """Return the init of a layer with `fan_in` times its fan-in at the base width."""
        init = default_init(layer)
        if layer.role == "readout" and self.readout_zero_init:
            return LayerInit(std=0.0)
        std = init.std
        if layer.role == "readout":
            std *= self.output_mult * fan_in**-0.5
        return dataclasses.replace(init, bias_bound=init.bias_bound * fan_in**0.5, std=std)

    def factor(
        self,
        fan_in: float,
        fan_out: float,
        *,
        readout: bool = False,
        optimizer: Literal["sgd", "adam"] = "sgd",
    ) -> float:
        """Return the factor on the rate of a parameter, from its sizes relative to the base.

        The relative fan-in of a bias, a gain or a weight that reads the input is always 1.
        """
        multiplier = self.output_mult if readout else 1.0
        if optimizer == "adam":
            return multiplier / fan_in
        return fan_out * multiplier**2 / fan_in

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,  # noqa: ARG002 - only the width counts
        images: torch.Tensor,  # noqa: ARG002 - only the width counts
        labels: torch.Tensor,  # noqa: ARG002 - only the width counts
        generator: torch.Generator,  # noqa: ARG002 - only the width counts
    ) -> HyperParameters:
        """Return the learning rate and the factors for the width of `net`."""
        ratio = self._width_ratio(net)
        factors = {name: self.factor(1.0, ratio) for name, _ in net.named_parameters()}
        for layer in net.weight_layers():
            if layer.role == "readout":
                factors[layer.parameter] = self.factor(ratio, 1.0, readout=True)
                factors[f"{layer.name}.bias"] = self.factor(1.0, 1.0)
            elif layer.role != "stem":
                factors[layer.parameter] = self.factor(ratio, ratio)
        changed = {name: factor for name, factor in factors.items() if factor != 1}
        return HyperParameters(learning_rate=self.base_lr, layer_multipliers=changed)

    def _width_ratio(self, net: LayeredNet) -> float:
        stem = next(layer for layer in net.weight_layers() if layer.role == "stem")
        return stem.weight.shape[0] / self.base_width
