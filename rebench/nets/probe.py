"""One backward pass on a copy of a network: gradients, and what each layer put out.

The network itself, its buffers, its mode and every random state stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.nets import LayeredNet

__all__ = ["Loss", "Probe", "StepProbe"]

Loss: TypeAlias = Callable[[Any, Any], torch.Tensor]
"""A scalar from a module's output and the target."""

# What layers are by the time that they are computed, and what makes a weight ready for them.
_LAYERS = {"convolution", "embedding", "mm", "addmm", "bmm"}
_VIEWS = {"t", "transpose", "permute", "view", "_unsafe_view", "slice", "split", "expand"}


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


class StepProbe(Probe):
    """The same for any module, loss and batch of inputs and a target, in double precision.

    Outputs are those of every layer that uses a weight, by the weight's name, as [positions,
    channels]; every run starts from the same buffers and random numbers.
    """

    def __init__(
        self, model: nn.Module, batch: Sequence[Any], loss: Loss, weights: Sequence[str]
    ) -> None:
        if len(batch) < 2:
            raise InputError(f"a batch must be inputs and a target, got {len(batch)} values")
        self.net = copy.deepcopy(model).double().train()  # type: ignore[assignment]  # any module
        *self._inputs, self._target = (_double(value) for value in batch)
        self._loss = loss
        self._parameters = dict(self.net.named_parameters())
        self._weights = {id(self._parameters[name]): name for name in weights}
        self._buffers = {name: value.clone() for name, value in self.net.named_buffers()}
        self.net.zero_grad(set_to_none=True)
        value = self._run()
        self.outputs = self._seen
        value.backward()  # type: ignore[no-untyped-call]  # torch's own
        self.gradients = {
            name: parameter.grad
            for name, parameter in self._parameters.items()
            if parameter.grad is not None
        }

    def outputs_after(self, step: float | Mapping[str, float]) -> dict[str, torch.Tensor]:
        """Return the layers' outputs after one step, and step back.

        `step` is the rate of all parameters, or of each by its name.
        """
        with torch.no_grad():
            before = {name: self._parameters[name].clone() for name in self.gradients}
            for name, gradient in self.gradients.items():
                rate = step if isinstance(step, float) else step[name]
                self._parameters[name].sub_(gradient, alpha=rate)
            self._run()
            for name, value in before.items():
                self._parameters[name].copy_(value)
        return self._seen

    def _run(self) -> torch.Tensor:
        with torch.no_grad():
            for name, value in self.net.named_buffers():
                value.copy_(self._buffers[name])
        recorder = _Recorder(self._weights)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            with recorder:
                output = self.net(*self._inputs)
            loss = self._loss(output, self._target)
        self._seen = {name: torch.cat(parts) for name, parts in recorder.seen.items()}
        return loss


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Keeps what operations with a weight among their arguments return, by the weight's name.

    Here every layer is a convolution, an embedding or a product of two matrices.
    """

    def __init__(self, weights: Mapping[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.seen: dict[str, list[torch.Tensor]] = {}
        self._weights = dict(weights)
        self._views: list[torch.Tensor] = []  # kept alive: their ids stand in `_weights`

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        operation = func._schema.name.split("::")[-1]  # noqa: SLF001 - as torch does
        name = next((self._weights[id(arg)] for arg in args if id(arg) in self._weights), None)
        if name is not None and isinstance(result, torch.Tensor):
            if operation in _LAYERS:
                value = result.detach().movedim(1 if operation == "convolution" else -1, -1)
                self.seen.setdefault(name, []).append(value.flatten(0, -2).clone())
            elif operation in _VIEWS:
                self._weights[id(result)] = name
                self._views.append(result)
        return result


def _double(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value
