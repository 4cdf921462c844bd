"""One backward pass on a copy of a network: gradients, and what each layer put out.

The network itself, its buffers, its mode and every random state stay as they are.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

if TYPE_CHECKING:
    from rebench.nets import LayeredNet

__all__ = ["Probe"]


class Probe:
    """A copy of a network in training mode, and one batch.

    Attributes:
        net: the copy.
        gradients: of the mean cross-entropy over the batch, by parameter name, where there are any.
        outputs: of every weight layer that ran, by layer name, as `pre_activation` reads them.
    """

    def __init__(
        self,
        net: LayeredNet,
        images: torch.Tensor,
        labels: torch.Tensor,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        # A copy has no gradients of its own, and hooks on it are seen by nobody else.
        self.net = copy.deepcopy(net).to(dtype).train()
        self._images, self._labels = images.to(dtype), labels
        self._seen: dict[str, torch.Tensor] = {}
        self._layers = {layer.name: layer for layer in self.net.weight_layers()}
        for name in self._layers:
            self.net.get_submodule(name).register_forward_hook(self._keep(name))
        self.net.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self._images), self._labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        self.gradients = {
            name: parameter.grad
            for name, parameter in self.net.named_parameters()
            if parameter.grad is not None
        }
        self.outputs = self._seen

    def outputs_after(self, step: float) -> dict[str, torch.Tensor]:
        """Return every layer's output after one gradient step of this size, and step back."""
        parameters = dict(self.net.named_parameters())
        self._seen = {}
        with torch.no_grad():
            before = {name: parameters[name].clone() for name in self.gradients}
            for name, gradient in self.gradients.items():
                parameters[name].sub_(gradient, alpha=step)
            self.net(self._images)
            for name, value in before.items():
                parameters[name].copy_(value)
        return self._seen

    def _keep(self, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a torch hook
        def hook(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
            self._seen[name] = output.detach().clone()

        return hook
