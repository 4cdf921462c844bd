"""Several trials of one cell as one network: construction, initialisation and separate states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from rebench.data import BatchSource, DataSpec, epoch_generator
from rebench.errors import InputError
from rebench.nets import LayeredNet, Stacked, network_builder, reference_net
from rebench.recipes import make_recipe
from rebench.runs import Trial
from rebench.train.checkpoint import Checkpoint
from rebench.train.device import Speed
from rebench.train.optimizer import StackedSGD
from rebench.train.step import Steps

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

    The weights of each copy are drawn on the CPU from the seed of its trial only.
    """

    def __init__(
        self, trials: Sequence[Trial], spec: DataSpec, device: torch.device, speed: Speed
    ) -> None:
        if len({trial.stack_key for trial in trials}) != 1:
            raise InputError("trials in a stack may differ in recipe and seed only")
        self.trials = tuple(trials)
        self._spec = spec
        self._device = device
        self._recipes = [make_recipe(trial.recipe) for trial in trials]
        self.protocol = trials[0].protocol
        self.initial = [
            recipe.hyperparameters(trial.graph)
            for recipe, trial in zip(self._recipes, trials, strict=True)
        ]
        self.current = list(self.initial)
        nets = [initial_net(trial, spec.classes) for trial in trials]
        lone = len(nets) == 1
        self.net: LayeredNet | Stacked = nets[0] if lone else Stacked.from_nets(nets)
        self.params = sum(parameter.numel() for parameter in nets[0].parameters())
        self.net.to(device)
        last = speed.has_channels_last(device, trials[0])
        lay_out(self.net, torch.channels_last if last else torch.contiguous_format)
        self.net.train()
        self.sgd = StackedSGD(
            self.net,
            momentum=self.protocol.momentum,
            nesterov=self.protocol.nesterov,
            weight_decay=self.protocol.weight_decay,
        )
        self.steps = Steps(self.net, self.sgd, self.protocol, device=device, speed=speed)

    def __len__(self) -> int:
        return len(self.trials)

    def measure(self, source: BatchSource, epoch: int) -> None:
        """Run `measure` of recipes that need it, before the first epoch or before each epoch."""
        for copy, (recipe, trial) in enumerate(zip(self._recipes, self.trials, strict=True)):
            if recipe.needs == "graph" or (epoch and not recipe.refreshed):
                continue
            images, labels = next(
                source.epoch(
                    [trial.seed], epoch, self.protocol.batch_size, augment=self.protocol.augment
                )
            )
            self.current[copy] = recipe.measure(
                self._lone(copy),
                trial.graph,
                images,
                labels[0],
                epoch_generator(trial.seed, epoch, "measure"),
            )
            if not epoch:
                self.initial[copy] = self.current[copy]

    def set_rates(self, factor: float) -> None:
        """Set the rates of every copy: the rates of its recipe times the schedule's factor."""
        self.sgd.set_rates(
            [current.learning_rate * factor for current in self.current],
            [current.layer_multipliers for current in self.current],
        )

    def states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state dict of every copy on the CPU, with the keys of a single network."""
        if isinstance(self.net, Stacked):
            return [_on_cpu(state) for state in self.net.unstack()]
        return [_on_cpu(self.net.state_dict())]

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return the momentum of every copy by parameter name, on the CPU."""
        return [_on_cpu(momentum) for momentum in self.sgd.momenta()]

    def load(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Load the weights, momentum and hyperparameters of every copy."""
        states = [saved.net for saved in checkpoints]
        if isinstance(self.net, Stacked):
            self.net.load(states)
        else:
            self.net.load_state_dict(states[0])
        self.sgd.load_momenta([saved.momentum for saved in checkpoints])
        self.initial = [saved.initial for saved in checkpoints]
        self.current = [saved.current for saved in checkpoints]

    def _lone(self, copy: int) -> LayeredNet:
        """Return the current network of one copy as a separate module."""
        net = build_net(self.trials[copy], self._spec.classes)
        net.load_state_dict(self.states()[copy])
        return net.to(self._device)


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
