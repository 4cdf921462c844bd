"""SGD with Nesterov momentum for a network or a stack of them, each copy at its own rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from rebench.nets import Stacked

__all__ = ["StackedSGD"]


class StackedSGD:
    """Plain SGD as `torch.optim.SGD` defines it, over all parameters at once.

    A rate is a tensor of the parameter's shape on the device: it differs from copy to copy and
    from layer to layer at no cost, and nothing is read back to the host. A parameter without a
    gradient is left alone, weight decay included, as in PyTorch. Rates are 0 until they are set.

    Args:
        net: a lone network, or a stack of them; it must be on its device already.
        momentum: 0 for plain gradient descent.
        nesterov: whether momentum is Nesterov's.
        weight_decay: on every parameter.
    """

    def __init__(
        self,
        net: nn.Module,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        self._copies = net.copies if isinstance(net, Stacked) else 0
        # Names are those of the lone network.
        named = dict((net.net if isinstance(net, Stacked) else net).named_parameters())
        self._names = list(named)
        self._parameters = list(named.values())
        self._momentum, self._nesterov, self._weight_decay = momentum, nesterov, weight_decay
        self._momenta = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._rates = [torch.zeros_like(parameter) for parameter in self._parameters]

    def set_rates(
        self, rates: Sequence[float], multipliers: Sequence[Mapping[str, float]] | None = None
    ) -> None:
        """Set each copy's learning rate and its factors by parameter name; 1 where none is given.

        A lone network takes one rate.
        """
        factors = multipliers or [{}] * len(rates)
        for name, rate in zip(self._names, self._rates, strict=True):
            values = [value * own.get(name, 1.0) for value, own in zip(rates, factors, strict=True)]
            for part, value in zip(self._by_copy(rate), values, strict=True):
                part.fill_(value)

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
        if self._weight_decay:
            torch._foreach_add_(gradients, parameters, alpha=self._weight_decay)
        if self._momentum:
            torch._foreach_mul_(momenta, self._momentum)
            torch._foreach_add_(momenta, gradients)
            if self._nesterov:
                torch._foreach_add_(gradients, momenta, alpha=self._momentum)
            else:
                gradients = momenta
        torch._foreach_addcmul_(parameters, gradients, rates, value=-1)
        for parameter in parameters:
            parameter.grad = None

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield what a step changes beside the parameters."""
        yield from self._momenta

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return every copy's momentum by parameter name; one entry for a lone network."""
        parts = [self._by_copy(momentum) for momentum in self._momenta]
        return [
            {name: part.clone() for name, part in zip(self._names, own, strict=True)}
            for own in zip(*parts, strict=True)
        ]

    def load_momenta(self, momenta: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Take every copy's momentum, as `momenta` returned it."""
        for name, momentum in zip(self._names, self._momenta, strict=True):
            for part, saved in zip(self._by_copy(momentum), momenta, strict=True):
                part.copy_(saved[name])

    def _by_copy(self, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return each copy's part of a tensor, as views."""
        return tensor.unbind() if self._copies else (tensor,)
