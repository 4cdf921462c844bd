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
        self._is_stack = isinstance(net, Stacked)
        # Parameter names are those of a single network.
        single = net.net if isinstance(net, Stacked) else net
        named = dict(single.named_parameters())
        self._names = list(named)
        self._parameters = list(named.values())
        self._momentum = momentum
        self._nesterov = nesterov
        self._weight_decay = weight_decay
        self._momenta = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._rates = [torch.zeros_like(parameter) for parameter in self._parameters]

    def set_rates(
        self, rates: Sequence[float], multipliers: Sequence[Mapping[str, float]] | None = None
    ) -> None:
        """Set the learning rate of each copy, and its factors by parameter name (default 1).

        A single network takes one rate.
        """
        factors = multipliers or [{}] * len(rates)
        for name, tensor in zip(self._names, self._rates, strict=True):
            for part, rate, own in zip(self._by_copy(tensor), rates, factors, strict=True):
                part.fill_(rate * own.get(name, 1.0))

    @torch.no_grad()
    def step(self) -> None:
        """Take one step and clear the gradients."""
        parameters: list[torch.Tensor] = []
        gradients = []
        momenta = []
        rates = []
        for at, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                parameters.append(parameter)
                gradients.append(parameter.grad)
                momenta.append(self._momenta[at])
                rates.append(self._rates[at])
        if not parameters:
            return
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
        for parameter in self._parameters:
            parameter.grad = None

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that a step changes, except the parameters."""
        yield from self._momenta

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return the momentum of every copy by parameter name; one entry for a single network."""
        copies: list[dict[str, torch.Tensor]] = []
        for name, momentum in zip(self._names, self._momenta, strict=True):
            for copy, part in enumerate(self._by_copy(momentum)):
                if copy == len(copies):
                    copies.append({})
                copies[copy][name] = part.clone()
        return copies

    def load_momenta(self, momenta: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Load the momentum of every copy, in the form that `momenta` returns."""
        for name, momentum in zip(self._names, self._momenta, strict=True):
            for part, saved in zip(self._by_copy(momentum), momenta, strict=True):
                part.copy_(saved[name])

    def _by_copy(self, tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return views of a tensor, one for each copy."""
        return tensor.unbind() if self._is_stack else (tensor,)
