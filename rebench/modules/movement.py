"""What one gradient step does to the output of every layer of any module.

A copy of the module runs in double precision and training mode, with equal random numbers before
and after the step; the module itself and every random state stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rebench.errors import InputError
from rebench.modules.operations import MATMULS, VIEWS, canonical

__all__ = ["Loss", "StepProbe"]

Loss: TypeAlias = Callable[[Any, Any], torch.Tensor]
"""A scalar from a module's output and the target."""

_LAYERS = MATMULS | {"convolution", "embedding"}


class StepProbe:
    """A copy of a module and one batch.

    Attributes:
        net: the copy.
        gradients: of the loss, by parameter name, where there are any.
        outputs: of the layers of every weight, by the weight's name, as [positions, channels].
    """

    def __init__(
        self, model: nn.Module, batch: Sequence[Any], loss: Loss, weights: Sequence[str]
    ) -> None:
        if len(batch) < 2:
            raise InputError(f"a batch must be inputs and a target, got {len(batch)} values")
        self.net = copy.deepcopy(model).double().train()
        *self._inputs, self._target = (_double(value) for value in batch)
        self._loss = loss
        self._parameters = dict(self.net.named_parameters())
        self._weights = {id(self._parameters[name]): name for name in weights}
        self._buffers = {name: value.clone() for name, value in self.net.named_buffers()}
        self.net.zero_grad(set_to_none=True)
        value = self._run()
        self.outputs = self._seen
        value.backward()
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
        # Every run starts from the same buffers, such as running statistics.
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


class _Recorder(TorchDispatchMode):
    """Keeps what operations with a weight among their arguments return, by the weight's name.

    Here every layer is a convolution, an embedding or a product of two matrices.
    """

    def __init__(self, weights: Mapping[int, str]) -> None:
        super().__init__()
        self.seen: dict[str, list[torch.Tensor]] = {}
        self._weights = dict(weights)
        self._views: list[torch.Tensor] = []  # kept alive: their ids stand in `_weights`

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        operation = canonical(func._schema.name.split("::")[-1])  # noqa: SLF001 - as torch does
        name = next((self._weights[id(arg)] for arg in args if id(arg) in self._weights), None)
        if name is not None and isinstance(result, torch.Tensor):
            if operation in _LAYERS:
                value = result.detach().movedim(1 if operation == "convolution" else -1, -1)
                self.seen.setdefault(name, []).append(value.flatten(0, -2).clone())
            elif operation in VIEWS or operation == "unsafeview":
                self._weights[id(result)] = name
                self._views.append(result)
        return result


def _double(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value
