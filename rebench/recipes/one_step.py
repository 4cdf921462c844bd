"""A measured learning rate: the first step moves the network as far as the base network.

The movement of a network is the mean squared first-order change of pre-activations in one step on
one batch. It is averaged over all layers except the readout. With batch normalisation, the change
is measured after it; otherwise it is relative to the mean square of the pre-activations. The
movement grows with the square of the learning rate. One central difference in float64 for each of
the two networks therefore gives the rate. The rule works for any network that lists its layers, at
any width. It compares two random initialisations, so the result is noisy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from rebench.errors import InputError
from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture, base_of, require_path
from rebench.recipes.init import LayerInit, default_init, he_init

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet
    from rebench.nets.probe import Probe

__all__ = ["OneStep", "layer_change", "mean_movement", "movement"]

# Relative step of the central difference: large compared with the rounding of float64, and so small
# that hardly any ReLU changes its sign.
_STEP = 1e-5


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class OneStep(Recipe):
    """Learning rate at which one step moves pre-activations as far as in the base network.

    The base network has the same skeleton with the base graph, and the same init, drawn from the
    generator. `base_movement` replaces it: the `movement` of a base network at learning rate 1. It
    is required for a network that cannot be built for another graph.
    """

    name = "one-step"
    summary = "measured: lr at which a step moves layers as in the base network"
    paper = "ours; Jelassi et al. (2023) fix the same quantity in theory"
    needs = "batch"

    base_lr: Positive = DEFAULT_BASE_LR
    init: Literal["default", "he"] = "default"
    base_movement: Positive | None = None

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the base learning rate, which `measure` replaces."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.base_lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init that `init` names."""
        require_path(self.name, cell)
        if self.init == "default":
            return default_init(layer)
        return he_init(layer)

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,
    ) -> HyperParameters:
        """Return the learning rate measured on one batch."""
        require_path(self.name, cell)
        base = self.base_movement
        if base is None:
            base = movement(self._base_network(net, cell, generator), images, labels)
        return self.held(base, movement(net, images, labels))

    def held(self, base: float, own: float) -> HyperParameters:
        """Return the learning rate at which a network of movement `own` moves as the base."""
        return HyperParameters(learning_rate=self.base_lr * math.sqrt(base / own))

    def _base_network(
        self, net: LayeredNet, cell: Architecture, generator: torch.Generator
    ) -> LayeredNet:
        graph = base_of(cell)
        try:
            base = net.sibling(graph)
        except NotImplementedError as error:
            raise InputError(
                f"recipe {self.name!r}: base_movement must be given for {type(net).__name__}, "
                "which has no `sibling` method to build the base network"
            ) from error
        self.apply_init(base, graph, generator)
        device = next(net.parameters()).device
        return base.to(device)


def movement(net: LayeredNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the mean squared change of `net`'s pre-activations in one step at learning rate 1."""
    from rebench.nets.probe import Probe

    layers = [layer for layer in net.weight_layers() if layer.role != "readout"]
    settled = {layer.parameter: layer.followed_by_norm for layer in layers}
    return mean_movement(Probe(net, (images, labels), list(settled)), settled)


def mean_movement(probe: Probe, layers: Mapping[str, bool]) -> float:
    """Return the mean squared first-order change over the layers, at learning rate 1.

    `layers` maps the name of each weight to whether a normalisation follows.
    """
    weights = dict(probe.net.named_parameters())
    squares = sum(float(gradient.square().sum()) for gradient in probe.gradients.values())
    sizes = sum(float(weights[name].detach().square().sum()) for name in probe.gradients)
    if not squares > 0:
        network = type(probe.net).__name__
        raise InputError(f"{network} has no gradient on this batch; one-step needs a gradient")
    step = _STEP * math.sqrt(sizes / squares)
    ahead, behind = probe.outputs_after(step), probe.outputs_after(-step)
    changes = []
    for name, normalised in layers.items():
        if name in ahead:
            outputs = (probe.outputs[name], ahead[name], behind[name])
            change = layer_change(*outputs, 2 * step, normalised=normalised)
            if change is not None:
                changes.append(change)
    return sum(changes) / len(changes)


def layer_change(
    here: torch.Tensor,
    there: torch.Tensor,
    back: torch.Tensor,
    span: float = 1.0,
    *,
    normalised: bool,
) -> float | None:
    """Return the mean squared difference of a layer's outputs `there` and `back`, over span^2.

    If `normalised`, the difference is taken after batch normalisation. Otherwise it is relative to
    the mean square of `here`; None if that is 0.
    """
    import torch.nn.functional as F  # noqa: N812 - torch's own convention

    scale = 1.0
    if normalised:
        there = F.batch_norm(there, None, None, training=True)
        back = F.batch_norm(back, None, None, training=True)
    else:
        scale = float(here.square().mean())
        if not scale:
            return None
    return float((there - back).square().mean()) / span**2 / scale
