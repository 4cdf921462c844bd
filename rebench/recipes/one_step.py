"""A measured learning rate: the one whose first step moves the network as the base's moves it.

The movement of a network is the mean over its weight layers, the readout left out, of the mean
squared first-order change of their pre-activations in one gradient step on one batch; where
batch normalisation follows, pre-activations are taken as it leaves them, elsewhere relative to
their own mean square. It grows with the square of the learning rate, so one central difference in
float64 and one for the base network give the rate. No convention, no infinite width: it works for
any network whose layers are listed. Two random draws are compared, so it carries their noise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from rebench.errors import InputError
from rebench.recipes.base import HyperParameters, Needs, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture, base_of, require_path
from rebench.recipes.init import LayerInit, default_init, he_init

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet
    from rebench.nets.probe import Probe

__all__ = ["OneStep", "layer_change", "mean_movement", "movement"]

# Relative size of the step of the central difference: far from float64's noise, and so small that
# hardly a ReLU changes side.
_STEP = 1e-5


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class OneStep(Recipe):
    """The learning rate at which one step moves pre-activations as in the base network.

    The base network is the same skeleton around the base graph, drawn by the same init from the
    generator. `base_movement` replaces it where it is known (`movement` of a base network at
    learning rate 1) or where a network cannot be rebuilt around another graph.
    """

    name: ClassVar[str] = "one-step"
    summary: ClassVar[str] = "measured: lr whose first step moves the layers as in the base network"
    paper: ClassVar[str] = "ours; Jelassi et al. (2023) hold the same quantity in theory"
    needs: ClassVar[Needs] = "batch"

    base_lr: Positive = DEFAULT_BASE_LR
    init: Literal["default", "he"] = "default"
    base_movement: Positive | None = None

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the base learning rate, which `measure` replaces."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.base_lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the given init."""
        require_path(self.name, cell)
        return default_init(layer) if self.init == "default" else he_init(layer)

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,
    ) -> HyperParameters:
        """Return the learning rate found on one batch."""
        require_path(self.name, cell)
        base = self.base_movement
        if base is None:
            base = movement(self._base_network(net, cell, generator), images, labels)
        return self.held(base, movement(net, images, labels))

    def held(self, base: float, own: float) -> HyperParameters:
        """The learning rate that moves a network of movement `own` as the base is moved."""
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
                "whose `sibling` does not build it around the base graph"
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

    `layers` says of each weight, by its name, whether a normalisation follows.
    """
    weights = dict(probe.net.named_parameters())
    squares = sum(float(gradient.square().sum()) for gradient in probe.gradients.values())
    sizes = sum(float(weights[name].detach().square().sum()) for name in probe.gradients)
    if not squares > 0:
        name = type(probe.net).__name__
        raise InputError(f"{name} has no gradient on this batch: nothing can move")
    step = _STEP * math.sqrt(sizes / squares)
    ahead, behind = probe.outputs_after(step), probe.outputs_after(-step)
    changes = [
        layer_change(probe.outputs[name], ahead[name], behind[name], 2 * step, normalised=settled)
        for name, settled in layers.items()
        if name in ahead
    ]
    seen = [change for change in changes if change is not None]
    return sum(seen) / len(seen)


def layer_change(
    here: torch.Tensor,
    there: torch.Tensor,
    back: torch.Tensor,
    span: float = 1.0,
    *,
    normalised: bool,
) -> float | None:
    """Return the mean squared difference of a layer's outputs `there` and `back`, over span^2.

    As batch normalisation leaves them where one follows, elsewhere relative to the mean square
    `here`; None where that is 0.
    """
    import torch.nn.functional as F  # noqa: N812 - torch's own convention

    scale = 1.0
    if normalised:
        there, back = (F.batch_norm(z, None, None, training=True) for z in (there, back))
    else:
        scale = float(here.square().mean())
    return float((there - back).square().mean()) / span**2 / scale if scale > 0 else None
