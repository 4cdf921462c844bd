"""One training run of the check: generated images, some copies of a network, and their steps.

It needs no trial and no record, so it runs where only torch and numpy are installed; network,
init, batches, optimiser and step are the trainer's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from cells import Cell
from rebench.data import BatchSource, Images
from rebench.datasets import DataSpec, data_spec
from rebench.nets import LayeredNet, Stacked, TinyNet, reference_net
from rebench.train.optimizer import StackedSGD
from rebench.train.speed import Speed
from rebench.train.step import Steps

__all__ = ["Run", "Setup", "build_net", "images"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is trained, and how: the benchmark's network unless said otherwise."""

    cell: int
    channels: int = 16
    cells_per_stage: int = 5
    batch_size: int = 256
    n_images: int = 5_120
    dataset: str = "cifar10"
    stack: int = 1
    network: Literal["rebench", "xautodl"] = "rebench"
    bf16: bool = False
    rate: float = 0.1
    speed: Speed = field(default_factory=Speed)

    def but(self, **changes: Any) -> Setup:
        """Return this setup with some fields changed; switches of `Speed` by their own names."""
        switches = {one.name for one in dataclasses.fields(Speed)}
        turned = {name: changes.pop(name) for name in switches & changes.keys()}
        return dataclasses.replace(self, speed=dataclasses.replace(self.speed, **turned), **changes)


def images(setup: Setup) -> tuple[Images, DataSpec]:
    """Return noise of the data set's shape: what is timed and compared depends on no picture."""
    spec = data_spec(setup.dataset)
    generator = torch.Generator().manual_seed(0)
    shape = (setup.n_images, 3, spec.size, spec.size)
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    return Images(pixels, torch.arange(setup.n_images) % spec.classes), spec


def build_net(setup: Setup, seed: int) -> LayeredNet:
    """Return the network as PyTorch initialises it from a seed, which is the benchmark's init."""
    build = TinyNet if setup.network == "rebench" else reference_net
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(
            Cell.from_index(setup.cell),
            channels=setup.channels,
            cells_per_stage=setup.cells_per_stage,
            classes=data_spec(setup.dataset).classes,
        )


class Run:
    """Copies of one network that train side by side, step by step, from seeds 0, 1, 2, ..."""

    def __init__(self, setup: Setup, device: torch.device) -> None:
        self.setup = setup
        nets = [build_net(setup, seed) for seed in range(setup.stack)]
        self.net = (Stacked.from_nets(nets) if setup.stack > 1 else nets[0]).to(device)
        kernels = torch.channels_last if setup.speed.channels_last else torch.contiguous_format
        for module in self.net.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.weight.data = module.weight.data.to(memory_format=kernels)
        self.net.train()
        # The benchmark's recipe.
        self.sgd = StackedSGD(self.net, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.sgd.set_rates([setup.rate] * setup.stack)
        self.steps = Steps(
            self.net,
            self.sgd,
            device=device,
            speed=setup.speed,
            batch_size=setup.batch_size,
            bf16=setup.bf16,
        )
        content, spec = images(setup)
        self._source = BatchSource(
            content, spec, device=device, channels_last=setup.speed.channels_last
        )
        self.taken = 0
        self._batches: Iterator[tuple[torch.Tensor, torch.Tensor]] = iter(())

    def step(self) -> None:
        """Take one training step on the next whole batch, from epoch to epoch."""
        size = self.setup.batch_size
        epoch, first = divmod(self.taken, self.setup.n_images // size)
        batch = next(self._batches, None)
        if batch is None or batch[1].shape[1] < size:
            seeds = range(self.setup.stack)
            self._batches = self._source.epoch(seeds, epoch, size, augment=True, first_step=first)
            batch = next(self._batches)
        self.steps.train(*batch)
        self.taken += 1

    def losses(self, n: int) -> list[list[float]]:
        """Take `n` steps; return each step's loss of every copy, before its update."""
        found = []
        for _ in range(n):
            self.steps.clear()
            self.step()
            found.append((self.steps.loss / self.setup.batch_size).tolist())
        return found

    def judged(self) -> list[float]:
        """Evaluate on all images: every copy's loss."""
        batches = self._source.plain(self.setup.speed.eval_batch_size)
        return [loss for _, loss in self.steps.evaluate(batches)]

    def state(self) -> tuple[int, dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
        """Return all that the next steps depend on."""
        weights = {name: value.clone() for name, value in self.net.state_dict().items()}
        return self.taken, weights, self.sgd.momenta()

    def load(
        self, state: tuple[int, dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]
    ) -> None:
        """Go on from what `state` returned."""
        self.taken, weights, momenta = state
        self._batches = iter(())
        self.net.load_state_dict(weights)
        self.sgd.load_momenta(momenta)
