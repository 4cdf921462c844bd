"""Gradients and layer outputs of a network from one backward pass on a copy.

The network itself, its buffers, its mode and all random states are not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rebench.errors import InputError

__all__ = ["Loss", "Probe"]

Loss: TypeAlias = Callable[[Any, Any], torch.Tensor]
"""Function of a module's output and the target that returns a scalar."""

# Operations of layers at the dispatch level (convolution, embedding, matrix product), and
# operations that reshape a weight before them.
_LAYERS = {"convolution", "embedding", "mm", "addmm", "bmm"}
_VIEWS = {"t", "transpose", "permute", "view", "_unsafe_view", "slice", "split", "expand"}


class Probe:
    """Copy of a network in training mode, with one batch of inputs and a target.

    Every run starts with the same buffers and random numbers.

    Attributes:
        net: the copy.
        gradients: gradients of the loss by parameter name, for parameters that have one.
        outputs: outputs of every layer that uses one of `weights`, by the weight's name, as
            [positions, channels].
    """

    def __init__(
        self,
        net: nn.Module,
        batch: Sequence[Any],
        weights: Sequence[str] = (),
        *,
        loss: Loss = F.cross_entropy,
        double: bool = True,
    ) -> None:
        if not isinstance(batch, Sequence) or len(batch) < 2:
            kind = type(batch).__name__
            got = f"a {kind} of {len(batch)}" if isinstance(batch, Sequence) else f"a {kind}"
            raise InputError(f"batch must be a tuple (inputs, target), got {got}")
        dtype = torch.float64 if double else torch.float32
        # On a copy, the user's network keeps its gradients and buffers.
        self.net = copy.deepcopy(net).to(dtype).train()
        *self._inputs, self._target = (
            value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
            for value in batch
        )
        self._loss = loss
        self._parameters = dict(self.net.named_parameters())
        self._weights = {id(self._parameters[name]): name for name in weights}
        self._buffers = {name: value.clone() for name, value in self.net.named_buffers()}
        self.net.zero_grad(set_to_none=True)
        self._run().backward()  # type: ignore[no-untyped-call]  # torch's own
        self.outputs = self._seen
        self.gradients = {
            name: parameter.grad
            for name, parameter in self._parameters.items()
            if parameter.grad is not None
        }

    def outputs_after(
        self, step: float | Mapping[str, float], *, signs: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return the layers' outputs after one gradient step, then undo the step.

        `step` is the learning rate of all parameters, or a mapping from their names to rates. With
        `signs`, the step is along the signs of the gradient, as the first step of Adam.
        """
        with torch.no_grad():
            before = {name: self._parameters[name].clone() for name in self.gradients}
            for name, gradient in self.gradients.items():
                rate = step if isinstance(step, float) else step[name]
                direction = gradient.sign() if signs else gradient
                self._parameters[name].sub_(direction, alpha=rate)
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
            loss = self._loss_of(output)
        self._seen = {name: torch.cat(parts) for name, parts in recorder.seen.items()}
        return loss

    def _loss_of(self, output: Any) -> torch.Tensor:
        try:
            loss = self._loss(output, self._target)
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
            first, second = (
                f"shape {tuple(value.shape)}" if torch.is_tensor(value) else type(value).__name__
                for value in (output, self._target)
            )
            raise InputError(
                f"the loss of an output ({first}) and a target ({second}) cannot be computed: "
                f"{str(error).splitlines()[0]}; pass loss, a function of both that returns one "
                "number. For tokens: lambda output, target: "
                "torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())"
            ) from error
        if not torch.is_tensor(loss) or loss.numel() != 1:
            raise InputError(f"loss must return a tensor with one number, got {loss!r:.60}")
        return loss


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Recorder of the results of operations that have a weight among their arguments."""

    def __init__(self, weights: Mapping[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.seen: dict[str, list[torch.Tensor]] = {}
        self._weights = dict(weights)
        self._views: list[torch.Tensor] = []  # kept alive, because `_weights` stores their ids

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
