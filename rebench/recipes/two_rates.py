"""Two learning rates for every cell: one before normalisation, one for all other parameters.

A weight that normalisation follows learns at the effective rate lr / std^2. He's init makes the
variance of such a weight 6 times PyTorch's. This recipe divides the rate of these weights instead
and keeps PyTorch's init. The effect of the rate can then be measured separately from the init.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import BENCHMARK_LR, Architecture

if TYPE_CHECKING:
    import torch

    from rebench.nets import LayeredNet

__all__ = ["TwoRates"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoRates(Recipe):
    """Rate `normalised_lr` for weights before normalisation, `lr` for all other parameters."""

    name = "two-rates"
    summary = "control: one lr before normalisation, another lr everywhere else"
    paper = "van Laarhoven (2017) for the effective learning rate lr / std^2"
    needs = "network"
    rates_by_layer = True

    lr: Positive = BENCHMARK_LR
    normalised_lr: Positive = BENCHMARK_LR

    def hyperparameters(self, cell: Architecture) -> HyperParameters:  # noqa: ARG002 - the same for all
        """Return the learning rate of the parameters without normalisation."""
        return HyperParameters(learning_rate=self.lr)

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,  # noqa: ARG002 - the same for all
        images: torch.Tensor,  # noqa: ARG002 - no batch is needed
        labels: torch.Tensor,  # noqa: ARG002 - no batch is needed
        generator: torch.Generator,  # noqa: ARG002 - nothing is drawn
    ) -> HyperParameters:
        """Return `lr`, and the factor of every weight that normalisation follows."""
        factor = self.normalised_lr / self.lr
        factors = {}
        for layer in net.weight_layers():
            if layer.followed_by_norm and factor != 1:
                factors[layer.parameter] = factor
        return HyperParameters(learning_rate=self.lr, layer_multipliers=factors)
