"""SGD with Nesterov momentum for a network or a stack of networks with separate rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from rebench.nets import Stacked

__all__ = ["StackedSGD"]


class StackedSGD:
    """SGD as in `torch.optim.SGD`, over all parameters at once.

    A rate is a tensor of the parameter's shape on the device. It can differ between copies and
    layers at no cost, and no value is copied to the host. As in PyTorch, a parameter without a
    gradient does not change, not even by weight decay. Rates are 0 until they are set.

    Args:
        net: a network or a stack; it must be on its device already.
        momentum: 0 for plain gradient descent.
        nesterov: whether to use Nesterov momentum.
        weight_decay: weight decay of every parameter.
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
        # Parameter names are those of a single network.
        named = dict((net.net if isinstance(net, Stacked) else net).named_parameters())
        self._names = list(named)
        self._parameters = list(named.values())
        self._momentum, self._nesterov, self._weight_decay = momentum, nesterov, weight_decay
        self._momenta = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._rates = [torch.zeros_like(parameter) for parameter in self._parameters]

    def set_rates(
        self, rates: Sequence[float], multipliers: Sequence[Mapping[str, float]] | None = None
    ) -> None:
        """Set the learning rate of each copy, and its factors by parameter name (default 1).

        A single network takes one rate.
        """
        factors = multipliers or [{}] * len(rates)
        for name, rate in zip(self._names, self._rates, strict=True):
            values = [value * own.get(name, 1.0) for value, own in zip(rates, factors, strict=True)]
            for part, value in zip(self._by_copy(rate), values, strict=True):
                part.fill_(value)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step and clear the gradients."""
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
        """Yield the tensors that a step changes, except the parameters."""
        yield from self._momenta

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return the momentum of every copy by parameter name; one entry for a single network."""
        parts = [self._by_copy(momentum) for momentum in self._momenta]
        return [
            {name: part.clone() for name, part in zip(self._names, own, strict=True)}
            for own in zip(*parts, strict=True)
        ]

    def load_momenta(self, momenta: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Load the momentum of every copy, in the form that `momenta` returns."""
        for name, momentum in zip(self._names, self._momenta, strict=True):
            for part, saved in zip(self._by_copy(momentum), momenta, strict=True):
                part.copy_(saved[name])

    def _by_copy(self, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return views of a tensor, one for each copy."""
        return tensor.unbind() if self._copies else (tensor,)
