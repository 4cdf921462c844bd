"""SGD with Nesterov momentum for a network or a stack of them, each copy at its own rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from rebench.sweep import Protocol

__all__ = ["StackedSGD"]


class StackedSGD:
    """Plain SGD as `torch.optim.SGD` defines it, over all parameters at once.

    A rate is a tensor of the parameter's shape on the device: it differs from copy to copy and
    from layer to layer at no cost, and nothing is read back to the host. A parameter without a
    gradient is left alone, weight decay included, as in PyTorch.

    Args:
        parameters: by their names in the lone network.
        copies: 0 for a lone network, otherwise the length of every leading dimension.
        protocol: gives momentum, its kind, and weight decay.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], copies: int, protocol: Protocol
    ) -> None:
        self._names = list(parameters)
        self._parameters = list(parameters.values())
        self._copies = copies
        self._protocol = protocol
        self._momenta = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._rates = [torch.zeros_like(parameter) for parameter in self._parameters]

    def set_rates(self, rates: Sequence[float], multipliers: Sequence[Mapping[str, float]]) -> None:
        """Set each copy's learning rate and its factors by parameter name."""
        for name, rate in zip(self._names, self._rates, strict=True):
            values = [
                copy_rate * factors.get(name, 1.0)
                for copy_rate, factors in zip(rates, multipliers, strict=True)
            ]
            if not self._copies:
                rate.fill_(values[0])
            else:
                for place, value in enumerate(values):
                    rate[place].fill_(value)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step and drop the gradients."""
        moving = [
            (parameter, parameter.grad, momentum, rate)
            for parameter, momentum, rate in zip(
                self._parameters, self._momenta, self._rates, strict=True
            )
            if parameter.grad is not None
        ]
        if not moving:
            return
        parameters, gradients, momenta, rates = map(list, zip(*moving, strict=True))
        protocol = self._protocol
        if protocol.weight_decay:
            torch._foreach_add_(gradients, parameters, alpha=protocol.weight_decay)
        torch._foreach_mul_(momenta, protocol.momentum)
        torch._foreach_add_(momenta, gradients)
        if protocol.nesterov:
            torch._foreach_add_(gradients, momenta, alpha=protocol.momentum)
        else:
            gradients = momenta
        torch._foreach_addcmul_(parameters, gradients, rates, value=-1)
        for parameter in parameters:
            parameter.grad = None

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return every copy's momentum by parameter name; one entry for a lone network."""
        return [
            {
                name: (momentum[place] if self._copies else momentum).clone()
                for name, momentum in zip(self._names, self._momenta, strict=True)
            }
            for place in range(self._copies or 1)
        ]

    def load_momenta(self, momenta: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Take every copy's momentum, as `momenta` returned it."""
        for name, momentum in zip(self._names, self._momenta, strict=True):
            for place, saved in enumerate(momenta):
                (momentum[place] if self._copies else momentum).copy_(saved[name])
