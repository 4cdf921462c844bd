"""Training steps and evaluations of a network or a stack, without copies to the host in a step.

The training loop chooses trials and seeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from rebench.nets import Stacked
from rebench.runs import Protocol
from rebench.train.device import Speed, TrainStep, graphed
from rebench.train.optimizer import StackedSGD

__all__ = ["Steps"]

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


class Steps:
    """Steps of one network on its device, with the metrics of their images.

    Attributes:
        loss: float64, [copies]: sum of the losses since `clear`.
        correct: int64, [copies]: number of correct predictions since `clear`.
    """

    def __init__(
        self,
        net: nn.Module,
        sgd: StackedSGD,
        protocol: Protocol,
        *,
        device: torch.device,
        speed: Speed,
    ) -> None:
        self.net, self.sgd = net, sgd
        self.copies = net.copies if isinstance(net, Stacked) else 1
        self.loss = torch.zeros(self.copies, dtype=torch.float64, device=device)
        self.correct = torch.zeros(self.copies, dtype=torch.int64, device=device)
        self._protocol, self._device, self._speed = protocol, device, speed
        self._judged_loss = torch.zeros_like(self.loss)
        self._judged_correct = torch.zeros_like(self.correct)
        call: Callable[[torch.Tensor], torch.Tensor] = net.__call__
        self._call = torch.compile(call) if speed.compile else call
        self._replays: dict[TrainStep, TrainStep] = {}

    def train(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one step on images [batch, copies * 3, ...] and labels [copies, batch]."""
        self._run(self._learn, images, labels, whole=labels.shape[1] == self._protocol.batch_size)

    def evaluate(self, batches: Batches) -> list[tuple[float, float]]:
        """Return the top-1 accuracy over all classes, in percent, and the mean loss of every copy.

        Args:
            batches: images and labels [batch], shared by all copies.
        """
        self._judged_loss.zero_()
        self._judged_correct.zero_()
        n = 0
        self.net.eval()
        for images, labels in batches:
            self._run(self._judge, images, labels, whole=len(labels) == self._speed.eval_batch_size)
            n += len(labels)
        self.net.train()
        return [
            (100 * right / n, total / n)
            for right, total in zip(
                self._judged_correct.tolist(), self._judged_loss.tolist(), strict=True
            )
        ]

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits in float32, [copies, batch, classes]."""
        with self._precision():
            logits = self._call(images)
        return (logits if logits.dim() == 3 else logits[None]).float()

    def clear(self) -> None:
        """Reset the metrics for a new epoch."""
        self.loss.zero_()
        self.correct.zero_()

    def _run(
        self, step: TrainStep, images: torch.Tensor, labels: torch.Tensor, *, whole: bool
    ) -> None:
        """Take a step; replay a CUDA graph if graphs are on and the batch is complete."""
        # The last batch of an epoch can be smaller, and a graph has a fixed shape.
        if not self._speed.cuda_graphs or not whole:
            step(images, labels)
            return
        if step not in self._replays:
            self._replays[step] = self._capture(step, images, labels)
        self._replays[step](images, labels)

    def _learn(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        logits = self.logits(images)
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            reduction="none",
            label_smoothing=self._protocol.label_smoothing,
        ).view(labels.shape)
        losses.mean(1).sum().backward()  # type: ignore[no-untyped-call]  # torch
        self.sgd.step()
        with torch.no_grad():
            self.loss += losses.sum(1)
            self.correct += (logits.argmax(2) == labels).sum(1)

    @torch.no_grad()
    def _judge(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        logits = self.logits(images)
        both = labels.expand(self.copies, -1)
        losses = F.cross_entropy(logits.flatten(0, 1), both.flatten(), reduction="none")
        self._judged_loss += losses.view(both.shape).sum(1)
        self._judged_correct += (logits.argmax(2) == both).sum(1)

    def _capture(self, step: TrainStep, images: torch.Tensor, labels: torch.Tensor) -> TrainStep:
        """Capture a step as a CUDA graph, and restore the state that the capture changed."""
        held = [(tensor, tensor.detach().clone()) for tensor in self._state()]
        replay = graphed(step, images, labels)
        with torch.no_grad():
            for tensor, value in held:
                tensor.copy_(value)
        return replay

    def _state(self) -> Iterator[torch.Tensor]:
        """Yield every tensor that a step changes."""
        yield from self.net.parameters()
        yield from self.net.buffers()
        yield from self.sgd.tensors()
        yield from (self.loss, self.correct, self._judged_loss, self._judged_correct)

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if self._protocol.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=torch.bfloat16)
