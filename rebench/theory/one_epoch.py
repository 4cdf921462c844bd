"""The maximal learning rate of a graph network, found by training one epoch at every rate at once.

All learning rates are copies in one batched network (`bmm` for matrices, grouped convolutions for
kernels) that start from one init and see the same batches, so a search costs about one training.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells.dag import LAYER, DagCode
from rebench.errors import InputError
from rebench.theory.frames import make_frame
from rebench.theory.graphs import DegreeRule, layer_variances
from rebench.theory.signal import Convention

__all__ = ["Activation", "GraphNet", "SearchSettings", "maximal_lrs", "search_graph"]

Activation: TypeAlias = Literal["relu", "gelu"]
Shape: TypeAlias = tuple[int, ...]

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"relu": F.relu, "gelu": F.gelu}
# E relu(z)^2 and E gelu(z)^2 of a standard normal z: the init of equation 4 divides by twice it.
SECOND_MOMENTS = {"relu": 0.5, "gelu": 0.4252}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """One epoch of plain SGD on cross-entropy at a geometric grid of learning rates."""

    width: int = 64
    batch_size: int = 64
    steps: int = 64
    lowest_lr: float = 1e-2
    highest_lr: float = 10.0
    n_lrs: int = 16
    seeds: int = 3
    activation: Activation = "relu"
    convention: Convention = "before"
    rule: DegreeRule = "target"
    # Standard deviation of the readout; None is 1 / width, mean-field.
    readout_std: float | None = None
    # False: the readout learns at 1 / width of the rate and the stem at width / fan_in, so that
    # the graph's weights alone limit the rate, as the theory has it.
    shared_rate: bool = False

    @property
    def learning_rates(self) -> npt.NDArray[np.float64]:
        """The grid."""
        return np.geomspace(self.lowest_lr, self.highest_lr, self.n_lrs)


class GraphNet:
    """K copies of one network: stem, graph, readout; equation 1's convention, no biases.

    Args:
        code: the graph; its live layer edges carry weights N(0, C / fan_in), target degrees.
        kernel: None for a dense network, else the side of every kernel in the graph.
        in_features: pixels, or channels where there is a kernel.
        copies: K.
        settings: width and activation.
        generator: what draws the weights; all copies start equal.
    """

    def __init__(
        self,
        code: DagCode,
        kernel: int | None,
        in_features: int,
        copies: int,
        settings: SearchSettings,
        generator: torch.Generator,
    ) -> None:
        self.code = code
        self.kernel = kernel
        self.copies = copies
        self.width = settings.width
        self._act = ACTIVATIONS[settings.activation]
        self._before = settings.convention == "before"
        gain = 0.5 / SECOND_MOMENTS[settings.activation]
        variances = layer_variances([code], settings.rule)[0]
        live = code.live_vertices()

        def draw(fan_in_shape: Shape, variance: float) -> torch.Tensor:
            fan_in = math.prod(fan_in_shape)
            weight = torch.randn(settings.width, *fan_in_shape, generator=generator)
            weight *= math.sqrt(variance / fan_in)
            stacked = weight.expand(copies, *weight.shape).clone()
            return (stacked.flatten(0, 1) if kernel else stacked).requires_grad_()

        stem_shape = (in_features, 3, 3) if kernel else (in_features,)
        edge_shape = (settings.width, kernel, kernel) if kernel else (settings.width,)
        self.stem = draw(stem_shape, 1.0)
        self.edges = {
            (v, u): draw(edge_shape, gain * float(variances[v, u]))
            for v, u, op in code.edges(live=True)
            if op == LAYER
        }
        self.skips = [(v, u) for v, u, op in code.edges(live=True) if op != LAYER]
        self.order = sorted(live - {0})
        readout = torch.randn(settings.width, 10, generator=generator)
        readout *= settings.readout_std or 1 / settings.width
        self.readout = readout.expand(copies, -1, -1).clone().requires_grad_()

    @property
    def parameters(self) -> list[torch.Tensor]:
        """All weights; the copies are the first axis, or fill it in turn for kernels."""
        return [self.stem, *self.edges.values(), self.readout]

    def multipliers(self, shared_rate: bool) -> list[float]:
        """Return the factor on the learning rate of every weight."""
        if shared_rate:
            return [1.0] * len(self.parameters)
        stem = self.width / self.stem[0].numel() * (1 if self.kernel else self.width)
        return [stem, *[1.0] * len(self.edges), 1 / self.width]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (copy, image, class) of one batch that all copies see."""
        return self.read(self.output_vertex(x))

    def output_vertex(self, x: torch.Tensor) -> torch.Tensor:
        """Return the graph's last vertex of one batch that all copies see."""
        vertex = {0: self._stem(x)}
        for v in self.order:
            parts = [self._edge(vertex[u], w) for (t, u), w in self.edges.items() if t == v]
            parts += [vertex[u] for t, u in self.skips if t == v]
            vertex[v] = torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]
        return vertex[self.code.n_vertices - 1]

    def read(self, output: torch.Tensor) -> torch.Tensor:
        """Return the logits (copy, image, class) of the last vertex's values."""
        features = self._act(output) if self._before else output
        if self.kernel:
            pooled = features.mean((2, 3)).view(len(output), self.copies, self.width)
            features = pooled.transpose(0, 1)
        return torch.bmm(features, self.readout)

    def _stem(self, x: torch.Tensor) -> torch.Tensor:
        if self.kernel:
            return F.conv2d(x, self.stem, padding=1)
        return torch.matmul(x.flatten(1), self.stem.mT)

    def _edge(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        a = self._act(x) if self._before else x
        if self.kernel:
            z = F.conv2d(a, weight, padding=self.kernel // 2, groups=self.copies)
        else:
            z = torch.bmm(a, weight.mT)
        return z if self._before else self._act(z)


def search_graph(
    code: DagCode,
    kernel: int | None,
    images: torch.Tensor,
    labels: torch.Tensor,
    settings: SearchSettings,
    seed: int,
) -> pd.DataFrame:
    """Train every learning rate for one epoch; return learning_rate, seed, loss, final_loss.

    Args:
        code: the graph.
        kernel: None for a dense network, else the kernels' side.
        images: float (image, channel, height, width), normalised.
        labels: class of every image, below 10.
        settings: the search.
        seed: the first seed; init and order of the images follow from it.
    """
    needed = settings.batch_size * settings.steps
    if len(images) < needed:
        raise InputError(f"an epoch of {needed} images was asked of {len(images)}")
    rows = []
    for run in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed * 1000 + run)
        features = images.shape[1] if kernel else images[0].numel()
        net = GraphNet(code, kernel, features, settings.n_lrs, settings, generator)
        order = torch.randperm(len(images), generator=generator)[:needed]
        losses = _train(net, images, labels, order.view(settings.steps, -1), settings)
        tail = max(1, settings.steps // 8)
        for rate, curve in zip(settings.learning_rates, losses.T, strict=True):
            rows.append(
                {"learning_rate": float(rate), "seed": run, "loss": float(curve.mean()),
                 "final_loss": float(curve[-tail:].mean())}
            )  # fmt: skip
    return make_frame(rows)


def _train(
    net: GraphNet,
    images: torch.Tensor,
    labels: torch.Tensor,
    batches: torch.Tensor,
    settings: SearchSettings,
) -> npt.NDArray[np.float64]:
    """Return the loss (step, copy) of every batch before its update; diverged copies are inf."""
    rates = torch.from_numpy(settings.learning_rates).float()
    per_row = rates.repeat_interleave(settings.width)
    multipliers = net.multipliers(settings.shared_rate)
    losses = []
    for batch in batches:
        logits = net(images[batch])
        target = labels[batch].expand(net.copies, -1)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        per_copy = loss.view(net.copies, -1).mean(1)
        gradients = torch.autograd.grad(per_copy.sum(), net.parameters)
        with torch.no_grad():
            for weight, gradient, factor in zip(
                net.parameters, gradients, multipliers, strict=True
            ):
                step = factor * (rates if len(weight) == net.copies else per_row)
                weight -= step.view(-1, *[1] * (weight.dim() - 1)) * gradient
        losses.append(per_copy.detach())
    curves = torch.stack(losses).double().numpy()
    return np.where(np.isfinite(curves), curves, np.inf)


def maximal_lrs(searched: pd.DataFrame, column: str = "loss") -> npt.NDArray[np.float64]:
    """Return each seed's maximal learning rate: the parabola's minimum around the best grid point.

    Args:
        searched: what `search_graph` returns.
        column: `loss`, the epoch's average, or `final_loss`.
    """
    found = []
    for _, runs in searched.groupby("seed"):
        x = np.log(runs["learning_rate"].to_numpy())
        y = runs[column].to_numpy()
        best = int(np.argmin(y))
        shift = 0.0
        if 0 < best < len(y) - 1 and np.isfinite(y[best - 1 : best + 2]).all():
            left, middle, right = y[best - 1 : best + 2]
            curvature = left - 2 * middle + right
            shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
        found.append(float(np.exp(x[best] + shift * (x[1] - x[0]))))
    return np.array(found)
