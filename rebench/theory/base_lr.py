"""The base maximal learning rate, by the paper's procedure: one epoch over a logarithmic grid.

The base network is trained for one epoch at every learning rate of the grid from several seeds.
The answer is the largest learning rate among those that reach the smallest training loss *within
noise*. The loss of a run is its cross-entropy averaged over the epoch's batches, each before its
step; a run whose loss was ever not finite has diverged, and so has its learning rate. With n seeds,
m and s the mean and standard deviation of the loss at the best learning rate, a learning rate is
within noise if its own mean loss is at most

    m + t s (2 / n)^(1/2)        t the 95 % quantile of Student's t with n - 1 degrees of freedom

so one cannot tell it from the best at that level. With one seed there is no noise to go by, and
the best learning rate itself is the answer.

The grid's learning rates run as one stacked network, which shares images and init.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cells import Cell, DagCode
from rebench.datasets import DataSpec
from rebench.errors import InputError, TrainingError
from rebench.intervals import student_reach
from rebench.nets import DagCNN, DagMLP, LayeredNet, TinyNet
from rebench.recipes import Architecture, Recipe
from rebench.sweep import Protocol
from rebench.theory.network_kind import NetworkKind
from rebench.theory.rate_search import train_rates

__all__ = [
    "BaseLearningRate",
    "BaseNetwork",
    "GridPoint",
    "base_maximal_lr",
    "choose",
    "logarithmic_grid",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseNetwork:
    """The network around a graph, for the images of a data set."""

    kind: NetworkKind
    graph: str  # a cell, or a graph code for the DAG networks
    spec: DataSpec
    width: int = 16
    cells_per_stage: int = 5
    kernel_size: int = 3

    @property
    def architecture(self) -> Architecture:
        """The graph, parsed."""
        return Cell.find(self.graph) if self.kind is NetworkKind.TINY else DagCode.parse(self.graph)

    def build(self) -> LayeredNet:
        """Return a fresh network, its weights of no meaning yet."""
        graph, spec = self.architecture, self.spec
        if isinstance(graph, Cell):
            return TinyNet(
                graph,
                channels=self.width,
                cells_per_stage=self.cells_per_stage,
                classes=spec.classes,
            )
        if self.kind is NetworkKind.DAG_MLP:
            return DagMLP(graph, inputs=3 * spec.size**2, width=self.width, classes=spec.classes)
        return DagCNN(
            graph, channels=self.width, kernel_size=self.kernel_size, classes=spec.classes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """One learning rate and the epoch's loss from every seed; infinite where a run diverged."""

    learning_rate: float
    losses: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean loss over the seeds, infinite if any run diverged."""
        return sum(self.losses) / len(self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLearningRate:
    """The curve, and what the rule above reads from it."""

    learning_rate: float
    best: float  # the learning rate of the smallest mean loss
    threshold: float  # the mean loss up to which a learning rate is within noise
    curve: tuple[GridPoint, ...]

    @property
    def at_edge(self) -> bool:
        """Whether the answer is the grid's largest or smallest learning rate: widen the grid."""
        return self.learning_rate in (self.curve[0].learning_rate, self.curve[-1].learning_rate)

    def rows(self) -> list[dict[str, float | bool | None]]:
        """Return the curve: learning_rate, loss (None: diverged), diverged runs, within_noise."""
        return [
            {
                "learning_rate": point.learning_rate,
                "loss": point.mean if math.isfinite(point.mean) else None,
                "diverged": sum(not math.isfinite(loss) for loss in point.losses),
                "within_noise": point.mean <= self.threshold,
            }
            for point in self.curve
        ]


def logarithmic_grid(low: float, high: float, points: int) -> tuple[float, ...]:
    """Return `points` learning rates from `low` to `high`, equal factors apart."""
    if not 0 < low < high < math.inf or points < 2:
        raise InputError(
            f"a grid needs 0 < low < high and 2 points or more, got low={low}, high={high}, "
            f"points={points}"
        )
    return tuple(float(rate) for rate in np.geomspace(low, high, points))


def choose(curve: Sequence[GridPoint]) -> BaseLearningRate:
    """Apply the rule of this module to a measured curve."""
    ordered = sorted(curve, key=lambda point: point.learning_rate)
    best = min(ordered, key=lambda point: point.mean)
    if not math.isfinite(best.mean):
        raise TrainingError("every learning rate of the grid diverged: lower the grid")
    n = len(best.losses)
    noise = 0.0
    if n > 1:
        spread = float(np.std(best.losses, ddof=1)) * math.sqrt(2 / n)
        noise = student_reach(n - 1, 0.9) * spread  # one-sided 95 %
    threshold = best.mean + noise
    within = [point.learning_rate for point in ordered if point.mean <= threshold]
    return BaseLearningRate(
        learning_rate=max(within),
        best=best.learning_rate,
        threshold=threshold,
        curve=tuple(ordered),
    )


def base_maximal_lr(
    build: Callable[[], LayeredNet],
    graph: Architecture,
    init: Recipe,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    grid: Sequence[float],
    seeds: Sequence[int] = (0, 1, 2),
    protocol: Protocol | None = None,
    copies: int = 32,
    on_step: Callable[[int, int], None] = lambda _done, _total: None,
) -> BaseLearningRate:
    """Train the network that `build` returns for one epoch at every rate of `grid`.

    Args:
        build: returns the base network; its weights are drawn again from each seed.
        graph: the network's architecture, which `init` draws for.
        init: the recipe whose init is used; its learning rate is not.
        images: normalised inputs, [n, ...], on the device that shall train.
        labels: classes, [n].
        grid: the learning rates.
        seeds: of init and of the order of the images.
        protocol: batch size, momentum and weight decay (the schedule plays no role here).
        copies: how many learning rates train at once.
        on_step: called with the number of finished steps and of all.
    """
    if not seeds or len(images) != len(labels) or not len(images):
        raise InputError("base_maximal_lr needs a seed, and as many labels as images")
    settings = protocol or Protocol()
    rates = sorted(set(grid))
    chunks = [rates[first : first + copies] for first in range(0, len(rates), copies)]
    steps = math.ceil(len(images) / settings.batch_size)
    total, done = steps * len(seeds) * len(chunks), itertools.count(1)
    losses: dict[float, list[float]] = {rate: [] for rate in rates}
    for seed, chunk in itertools.product(seeds, chunks):
        with torch.random.fork_rng(devices=[]):  # PyTorch's own init is drawn over
            net = build()
        init.apply_init(net, graph, torch.Generator().manual_seed(seed))
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        batches = torch.split(order.to(images.device), settings.batch_size)
        trained = train_rates(
            net, images, labels, batches, chunk,
            protocol=settings, on_step=lambda: on_step(next(done), total),
        )  # fmt: skip
        for rate, curve in zip(chunk, trained.T, strict=True):
            losses[rate].append(float(np.average(curve, weights=[len(b) for b in batches])))
    return choose(
        [GridPoint(learning_rate=rate, losses=tuple(values)) for rate, values in losses.items()]
    )
