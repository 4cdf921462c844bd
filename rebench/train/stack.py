"""Several trials of one cell as one network: init, training steps, evaluation, separate states."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from rebench.data import BatchSource, DataSpec, epoch_generator
from rebench.errors import InputError
from rebench.nets import LayeredNet, Stacked, network_builder, reference_net
from rebench.recipes import make_recipe
from rebench.runs import Trial
from rebench.train.checkpoint import Checkpoint
from rebench.train.device import Speed, TrainStep, graphed
from rebench.train.optimizer import StackedSGD

__all__ = ["Stack", "build_net", "initial_net", "lay_out"]


def build_net(trial: Trial, classes: int) -> LayeredNet:
    """Return the trial's network without its recipe's init; its weights must still be drawn."""
    build: Callable[..., LayeredNet] = reference_net
    if trial.network == "rebench":
        build = network_builder(trial.space)
    # Modules draw a default init at construction; the global generator must not change.
    with torch.random.fork_rng(devices=[]):
        return build(
            trial.cell,
            channels=trial.skeleton.channels,
            cells_per_stage=trial.skeleton.cells_per_stage,
            classes=classes,
        )


def initial_net(trial: Trial, classes: int) -> LayeredNet:
    """Return the initial network of a trial, always on the CPU."""
    net = build_net(trial, classes)
    generator = epoch_generator(trial.seed, 0, "init")
    make_recipe(trial.recipe).apply_init(net, trial.graph, generator)
    return net


def lay_out(net: nn.Module, memory_format: torch.memory_format = torch.channels_last) -> None:
    """Set the memory layout of kernels as in training; another layout gives other rounding."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.to(memory_format=memory_format)


class Stack:
    """Trials of a stack as one network on one device; a single trial is a plain network.

    The weights of each copy are drawn on the CPU from the seed of its trial only. No step copies a
    value to the host.

    Attributes:
        loss: float64, [copies]: sum of the losses since `clear`.
        correct: int64, [copies]: number of correct predictions since `clear`.
    """

    def __init__(
        self, trials: Sequence[Trial], spec: DataSpec, device: torch.device, speed: Speed
    ) -> None:
        if len({trial.stack_key for trial in trials}) != 1:
            raise InputError("trials in a stack may differ in recipe and seed only")
        self.trials = tuple(trials)
        self.protocol = trials[0].protocol
        self._classes = spec.classes
        self._device = device
        self._speed = speed
        self._recipes = [make_recipe(trial.recipe) for trial in trials]
        self.initial = []
        nets = []
        for recipe, trial in zip(self._recipes, trials, strict=True):
            self.initial.append(recipe.hyperparameters(trial.graph))
            nets.append(initial_net(trial, spec.classes))
        self.current = list(self.initial)
        self.params = sum(parameter.numel() for parameter in nets[0].parameters())
        self.net: LayeredNet | Stacked = nets[0]
        if len(nets) > 1:
            self.net = Stacked.from_nets(nets)
        self.net.to(device)
        layout = torch.contiguous_format
        if speed.has_channels_last(device, trials[0]):
            layout = torch.channels_last
        lay_out(self.net, layout)
        self.net.train()
        self.sgd = StackedSGD(
            self.net,
            momentum=self.protocol.momentum,
            nesterov=self.protocol.nesterov,
            weight_decay=self.protocol.weight_decay,
        )
        self.loss = torch.zeros(len(nets), dtype=torch.float64, device=device)
        self.correct = torch.zeros(len(nets), dtype=torch.int64, device=device)
        self._judged_loss = torch.zeros_like(self.loss)
        self._judged_correct = torch.zeros_like(self.correct)
        self._call: Callable[[torch.Tensor], torch.Tensor] = self.net.__call__
        if speed.compile:
            self._call = torch.compile(self._call)
        self._precision: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if self.protocol.precision == "bf16":
            self._precision = torch.autocast(device.type, dtype=torch.bfloat16)
        self._replays: dict[TrainStep, TrainStep] = {}

    def __len__(self) -> int:
        return len(self.trials)

    def measure(self, source: BatchSource, epoch: int) -> None:
        """Run `measure` of recipes that need it, before the first epoch or before each epoch."""
        for copy, (recipe, trial) in enumerate(zip(self._recipes, self.trials, strict=True)):
            if recipe.needs == "graph" or (epoch and not recipe.refreshed):
                continue
            batches = source.epoch(
                [trial.seed], epoch, self.protocol.batch_size, augment=self.protocol.augment
            )
            images, labels = next(batches)
            # The current network of the copy, as a separate module.
            net = build_net(trial, self._classes)
            net.load_state_dict(self.states()[copy])
            generator = epoch_generator(trial.seed, epoch, "measure")
            net.to(self._device)
            self.current[copy] = recipe.measure(net, trial.graph, images, labels[0], generator)
            if not epoch:
                self.initial[copy] = self.current[copy]

    def set_rates(self, factor: float) -> None:
        """Set the rates of every copy: the rates of its recipe times the schedule's factor."""
        self.sgd.set_rates(
            [current.learning_rate * factor for current in self.current],
            [current.layer_multipliers for current in self.current],
        )

    def train(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one step on images [batch, copies * 3, ...] and labels [copies, batch]."""
        is_whole = labels.shape[1] == self.protocol.batch_size
        step = self._graphed(self._learn, images, labels) if is_whole else self._learn
        step(images, labels)

    def evaluate(
        self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[tuple[float, float]]:
        """Return the top-1 accuracy over all classes, in percent, and the mean loss of every copy.

        Args:
            batches: images and labels [batch], shared by all copies.
        """
        self._judged_loss.zero_()
        self._judged_correct.zero_()
        n = 0
        self.net.eval()
        for images, labels in batches:
            is_whole = len(labels) == self._speed.eval_batch_size
            step = self._graphed(self._judge, images, labels) if is_whole else self._judge
            step(images, labels)
            n += len(labels)
        self.net.train()
        losses = self._judged_loss.tolist()
        correct = self._judged_correct.tolist()
        return [(100 * correct[copy] / n, losses[copy] / n) for copy in range(len(self))]

    def clear(self) -> None:
        """Reset the metrics for a new epoch."""
        self.loss.zero_()
        self.correct.zero_()

    def states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state dict of every copy on the CPU, with the keys of a single network."""
        if isinstance(self.net, Stacked):
            return [_on_cpu(state) for state in self.net.unstack()]
        return [_on_cpu(self.net.state_dict())]

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return the momentum of every copy by parameter name, on the CPU."""
        return [_on_cpu(momentum) for momentum in self.sgd.momenta()]

    def load(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Load the weights, momentum, hyperparameters and metrics of every copy."""
        if isinstance(self.net, Stacked):
            self.net.load([saved.net for saved in checkpoints])
        else:
            self.net.load_state_dict(checkpoints[0].net)
        self.sgd.load_momenta([saved.momentum for saved in checkpoints])
        for copy, saved in enumerate(checkpoints):
            self.initial[copy] = saved.initial
            self.current[copy] = saved.current
            self.loss[copy] = saved.partial_loss
            self.correct[copy] = saved.partial_correct

    def _graphed(self, step: TrainStep, images: torch.Tensor, labels: torch.Tensor) -> TrainStep:
        """Return the step for complete batches: the replay of a CUDA graph if graphs are on.

        The last batch of an epoch can be smaller, and a graph has a fixed shape.
        """
        if not self._speed.cuda_graphs:
            return step
        if step not in self._replays:
            # The capture changes the state.
            before = [(tensor, tensor.detach().clone()) for tensor in self._state()]
            self._replays[step] = graphed(step, images, labels)
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)
        return self._replays[step]

    def _state(self) -> Iterator[torch.Tensor]:
        """Yield every tensor that a step changes."""
        yield from self.net.parameters()
        yield from self.net.buffers()
        yield from self.sgd.tensors()
        yield from (self.loss, self.correct, self._judged_loss, self._judged_correct)

    def _learn(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        with self._precision:
            logits = self._call(images)
        logits = logits.reshape(*labels.shape, -1).float()
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            reduction="none",
            label_smoothing=self.protocol.label_smoothing,
        ).view(labels.shape)
        losses.mean(1).sum().backward()  # type: ignore[no-untyped-call]  # torch
        self.sgd.step()
        with torch.no_grad():
            self.loss += losses.sum(1)
            self.correct += (logits.argmax(2) == labels).sum(1)

    @torch.no_grad()
    def _judge(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        both = labels.expand(len(self), -1)
        with self._precision:
            logits = self._call(images)
        logits = logits.reshape(*both.shape, -1).float()
        losses = F.cross_entropy(logits.flatten(0, 1), both.flatten(), reduction="none")
        self._judged_loss += losses.view(both.shape).sum(1)
        self._judged_correct += (logits.argmax(2) == both).sum(1)


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
