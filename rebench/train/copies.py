"""Several trials of one cell as one network: built, initialised, laid out, saved copy by copy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import nn

from rebench.data import BatchSource, epoch_generator
from rebench.datasets import DataSpec
from rebench.errors import InputError
from rebench.nets import LayeredNet, Stacked, TinyNet, reference_net
from rebench.recipes import HyperParameters, make_recipe
from rebench.sweep import Trial
from rebench.train.optimizer import StackedSGD
from rebench.train.speed import Speed

__all__ = ["Copies", "build_net", "stack_key"]


def build_net(trial: Trial, classes: int) -> LayeredNet:
    """Return the trial's network before its recipe's init; its weights are not yet meaningful."""
    build: Callable[..., LayeredNet] = TinyNet if trial.network == "rebench" else reference_net
    # The modules draw a default init when they are built; the program's generator stays as it is.
    with torch.random.fork_rng(devices=[]):
        return build(
            trial.cell,
            channels=trial.skeleton.channels,
            cells_per_stage=trial.skeleton.cells_per_stage,
            classes=classes,
        )


def stack_key(trial: Trial) -> str:
    """Return what trials must have in common to be trained as one network."""
    return trial.model_dump_json(exclude={"recipe", "seed"})


class Copies:
    """The trials of a stack as one network on one device; a lone trial is a plain network.

    Weights are drawn on the CPU, each copy's from its own seed, whatever the device and the stack.
    """

    def __init__(
        self, trials: Sequence[Trial], spec: DataSpec, device: torch.device, speed: Speed
    ) -> None:
        if len({stack_key(trial) for trial in trials}) != 1:
            raise InputError("trials in a stack may differ in recipe and seed only")
        self.trials = tuple(trials)
        self._spec = spec
        self._device = device
        self._recipes = [make_recipe(trial.recipe) for trial in trials]
        self.protocol = trials[0].protocol
        self.initial = [
            recipe.hyperparameters(trial.cell)
            for recipe, trial in zip(self._recipes, trials, strict=True)
        ]
        self.current = list(self.initial)
        nets = [self._initialised(place) for place in range(len(trials))]
        lone = len(nets) == 1
        self.net: LayeredNet | Stacked = nets[0] if lone else Stacked.from_nets(nets)
        self.params = sum(parameter.numel() for parameter in nets[0].parameters())
        named = self.net if lone else self.net.get_submodule("net")
        self._format = torch.channels_last if speed.channels_last else torch.contiguous_format
        self._to_device()
        self.sgd = StackedSGD(
            dict(named.named_parameters()), 0 if lone else len(nets), self.protocol
        )
        call: Callable[[torch.Tensor], torch.Tensor] = self.net.__call__
        self._call = torch.compile(call) if speed.compile else call

    def __len__(self) -> int:
        return len(self.trials)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits in float32, [copies, batch, classes]."""
        with self._precision():
            logits = self._call(images)
        return (logits if logits.dim() == 3 else logits[None]).float()

    def measure(self, source: BatchSource, epoch: int) -> None:
        """Let measured recipes look at their network: before the first epoch, or before each."""
        for place, (recipe, trial) in enumerate(zip(self._recipes, self.trials, strict=True)):
            if not recipe.measured or (epoch and not recipe.refreshed):
                continue
            images, labels = next(
                source.epoch(
                    [trial.seed], epoch, self.protocol.batch_size, augment=self.protocol.augment
                )
            )
            self.current[place] = recipe.measure(
                self._lone(place),
                trial.cell,
                images,
                labels[0],
                epoch_generator(trial.seed, epoch, "measure"),
            )
            if not epoch:
                self.initial[place] = self.current[place]

    def set_rates(self, factor: float) -> None:
        """Set every copy's rates to its recipe's, times the schedule's factor."""
        self.sgd.set_rates(
            [current.learning_rate * factor for current in self.current],
            [current.layer_multipliers for current in self.current],
        )

    def states(self) -> list[dict[str, torch.Tensor]]:
        """Return every copy's state dict, with the lone network's keys, on the CPU."""
        if isinstance(self.net, Stacked):
            return [_on_cpu(state) for state in self.net.unstack()]
        return [_on_cpu(self.net.state_dict())]

    def momenta(self) -> list[dict[str, torch.Tensor]]:
        """Return every copy's momentum by parameter name, on the CPU."""
        return [_on_cpu(momentum) for momentum in self.sgd.momenta()]

    def load(
        self,
        states: Sequence[dict[str, torch.Tensor]],
        momenta: Sequence[dict[str, torch.Tensor]],
        current: Sequence[HyperParameters],
    ) -> None:
        """Take every copy's weights, momentum and present hyperparameters."""
        if isinstance(self.net, Stacked):
            target = self.net.net.state_dict()
            for key, value in target.items():
                if value.dim():
                    for place, state in enumerate(states):
                        value[place].copy_(state[key])
                else:
                    value.copy_(states[0][key])
        else:
            self.net.load_state_dict(states[0])
        self.sgd.load_momenta(momenta)
        self.current = list(current)

    def _initialised(self, place: int) -> LayeredNet:
        trial = self.trials[place]
        net = build_net(trial, self._spec.classes)
        generator = epoch_generator(trial.seed, 0, "init")
        self._recipes[place].apply_init(net, trial.cell, generator)
        return net

    def _lone(self, place: int) -> LayeredNet:
        """Return a copy's network by itself, as it is now."""
        net = build_net(self.trials[place], self._spec.classes)
        net.load_state_dict(self.states()[place])
        return net.to(self._device)

    def _to_device(self) -> None:
        self.net.to(self._device)
        for module in self.net.modules():
            if isinstance(module, nn.Conv2d):
                kernel = module.weight.data
                module.weight.data = kernel.to(memory_format=self._format)
        self.net.train()

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if self.protocol.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=torch.bfloat16)


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
