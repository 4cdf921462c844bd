"""Recipes that give every cell the same learning rates and init: the benchmark's, and controls.

In the benchmark's network, batch normalisation follows every convolution except those of the
shortcuts. The init scale of such a weight does not change the function. It changes the effective
learning rate, lr / std^2. A rule may therefore win only because its rates are larger. Compare the
rule with `fixed` at a rate of the same size: the rest of the difference comes from the dependence
on the architecture.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import BENCHMARK_LR, Architecture
from rebench.recipes.init import LayerInit, default_init, he_init, mean_field_readout, selects

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["Fixed", "NasBench201"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class NasBench201(Recipe):
    """Learning rate 0.1 and PyTorch's default init for every cell."""

    name = "nb201"
    summary = "as in the benchmark: lr 0.1, PyTorch's default init"
    paper = "Dong & Yang, NAS-Bench-201 (ICLR 2020)"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:  # noqa: ARG002 - the same for all
        """Return the benchmark's learning rate."""
        return HyperParameters(learning_rate=BENCHMARK_LR)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Fixed(Recipe):
    """One learning rate and one init for every cell.

    `he` is N(0, 2 / fan_in) with N(0, 1 / fan_in) at the readout; `mean-field` differs from it at
    the readout only, N(0, (2 / fan_in)^2). `init_at` restricts the init to the weights that
    normalisation follows (`normalised`) or to all other weights (`others`); the remaining weights
    have PyTorch's default.
    """

    name = "fixed"
    summary = "control: a given lr and init, the same for every cell"
    paper = "He et al. (ICCV 2015) for init he"

    lr: Positive = BENCHMARK_LR
    init: Literal["default", "he", "mean-field"] = "default"
    init_at: Literal["all", "normalised", "others"] = "all"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:  # noqa: ARG002 - the same for all
        """Return the given learning rate."""
        return HyperParameters(learning_rate=self.lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - the same for all
        """Return the given init."""
        if self.init == "default" or not selects(self.init_at, layer):
            return default_init(layer)
        if layer.role != "readout":
            return he_init(layer)
        if self.init == "mean-field":
            return mean_field_readout(layer)
        return LayerInit(std=layer.fan_in**-0.5)
