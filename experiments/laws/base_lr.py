"""The base maximal learning rate, by the paper's procedure: one epoch over a logarithmic grid.

The base network is trained for one epoch at every learning rate of the grid from several seeds.
The answer is the largest learning rate among those that reach the smallest training loss *within
noise*. The loss of a run is its cross-entropy averaged over the epoch's batches, each before its
step; a run with a loss that is not finite has diverged, and so has its learning rate. With n seeds,
m and s the mean and standard deviation of the loss at the best learning rate, a learning rate is
within noise if its own mean loss is at most

    m + t s (2 / n)^(1/2)        t the 95 % quantile of Student's t with n - 1 degrees of freedom

so it does not differ significantly from the best. With one seed the noise is unknown, and the
best learning rate is the answer.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd
import torch

from cells import Cell, DagCode
from experiments.laws.dagnet import DagCNN, DagMLP
from experiments.laws.images import training_images
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import RateGrid, search_rates
from experiments.laws.result import Measured, text, verdict
from rebench.data import data_spec
from rebench.errors import InputError, TrainingError
from rebench.intervals import Estimate, student_reach
from rebench.nets import LayeredNet, TinyNet
from rebench.recipes import BASE_CODE, Architecture, parse_recipe
from rebench.runs import Protocol


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BaseRateSettings:
    """Settings of the network, its data and the grid; momentum is Nesterov's."""

    dataset: str = "digits"
    network: Literal["tiny", "dag-mlp", "dag-cnn"] = "tiny"
    graph: str = BASE_CODE  # a cell, or a graph code for the networks on graphs
    width: int = 16  # number of channels of the first stage
    cells_per_stage: int = 5
    kernel_size: int = 3
    init: str = "nb201"  # recipe of the init
    low: float = 0.01
    high: float = 10.0
    points: int = 13
    seeds: int = 3
    samples: int | None = None  # number of images of the epoch; None uses all images
    batch_size: int = 128
    momentum: float = 0.9
    weight_decay: float = 5e-4
    device: str = "cpu"
    data_root: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf or self.points < 2 or self.seeds < 1:
            raise InputError(
                "a grid needs 0 < low < high, 2 points or more and a seed, got "
                f"low={self.low}, high={self.high}, points={self.points}, seeds={self.seeds}"
            )

    @property
    def architecture(self) -> Architecture:
        """The graph, parsed."""
        return Cell.find(self.graph) if self.network == "tiny" else DagCode.parse(self.graph)

    def build(self) -> LayeredNet:
        """Return a new network, before its init."""
        graph, spec = self.architecture, data_spec(self.dataset)
        if isinstance(graph, Cell):
            return TinyNet(
                graph, channels=self.width, cells_per_stage=self.cells_per_stage,
                classes=spec.classes,
            )  # fmt: skip
        assert isinstance(graph, DagCode), "an architecture is parsed from text"
        if self.network == "dag-mlp":
            return DagMLP(graph, inputs=3 * spec.size**2, width=self.width, classes=spec.classes)
        return DagCNN(
            graph, channels=self.width, kernel_size=self.kernel_size, classes=spec.classes
        )


class BaseRate(NamedTuple):
    """Result of the rule above for a curve."""

    learning_rate: float
    best: float  # the learning rate with the smallest mean loss
    threshold: float  # the mean loss up to which a learning rate is within noise
    at_edge: bool  # whether the answer is the grid's largest or smallest rate: then widen the grid


def choose(curve: pd.DataFrame) -> BaseRate:
    """Return the base rate of a curve with columns learning_rate and loss, a row per run."""
    means = curve.groupby("learning_rate")["loss"].mean()
    best = float(means.sort_values(kind="stable").index[0])
    losses = curve.loc[curve["learning_rate"] == best, "loss"]
    if not math.isfinite(means[best]):
        raise TrainingError("every learning rate of the grid diverged: lower the grid")
    noise, n = 0.0, len(losses)
    if n > 1:
        noise = student_reach(n - 1, 0.9) * float(losses.std()) * math.sqrt(2 / n)  # one-sided
    threshold = float(means[best]) + noise
    chosen = float(means.index[means <= threshold].max())
    return BaseRate(chosen, best, threshold, chosen in (means.index[0], means.index[-1]))


def train_curve(
    settings: BaseRateSettings, images: torch.Tensor, labels: torch.Tensor
) -> pd.DataFrame:
    """Train one epoch at every rate, as `search_rates` does."""
    rule = parse_recipe(settings.init)

    def build(generator: torch.Generator) -> tuple[LayeredNet, dict[str, float]]:
        with torch.random.fork_rng(devices=[]):  # PyTorch's own init is replaced
            net = settings.build()
        rule.apply_init(net, settings.architecture, generator)
        return net, {}

    grid = RateGrid(
        steps=len(images) // settings.batch_size, batch_size=settings.batch_size,
        lowest_lr=settings.low, highest_lr=settings.high, n_lrs=settings.points,
        seeds=settings.seeds,
    )  # fmt: skip
    protocol = Protocol(
        momentum=settings.momentum, nesterov=settings.momentum > 0,
        weight_decay=settings.weight_decay,
    )  # fmt: skip
    return search_rates(build, images, labels, grid, settings.seed, protocol)


def measure(settings: BaseRateSettings, pieces: Pieces) -> Measured:  # noqa: ARG001 - a law's signature
    """Search for the base rate of a network."""
    images, labels = training_images(
        settings.dataset, settings.samples, settings.device, settings.data_root
    )
    curve = train_curve(settings, images, labels)
    chosen = choose(curve)
    means = curve.groupby("learning_rate")["loss"].mean()
    within = means.index[means <= chosen.threshold]
    rate = verdict(
        "base-lr.rate",
        Estimate(chosen.learning_rate, float(within.min()), float(within.max())),
        s=settings, images=len(images), c=chosen,
        edge=text("base-lr.edge", "more") if chosen.at_edge else "",
    )  # fmt: skip
    return {"curve": curve, "choice": pd.DataFrame([chosen])}, [rate]
