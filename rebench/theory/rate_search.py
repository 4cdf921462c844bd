"""One epoch of plain SGD at every learning rate at once, and the rate that learnt most.

All rates are copies in one stacked network that start from one init and see the same batches, so
a search costs about one training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from rebench.errors import InputError
from rebench.nets import Stacked
from rebench.theory.frames import make_frame

__all__ = ["RateGrid", "maximal_lrs", "search_rates", "search_seed", "summarise"]

# From a generator to a fresh network and the factor on the rate of each parameter by name.
Build = Callable[[torch.Generator], tuple[nn.Module, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RateGrid:
    """A geometric grid of learning rates, and the epoch that each is tried for."""

    lowest: float
    highest: float
    count: int
    steps: int
    batch_size: int
    seeds: int

    @property
    def rates(self) -> npt.NDArray[np.float64]:
        """The grid."""
        return np.geomspace(self.lowest, self.highest, self.count)


def search_rates(
    build: Build, images: torch.Tensor, labels: torch.Tensor, grid: RateGrid, seed: int
) -> pd.DataFrame:
    """Train every learning rate for one epoch of cross-entropy.

    Args:
        build: what draws the network of a seed.
        images: float (image, channel, height, width), normalised.
        labels: class of every image.
        grid: rates, steps and seeds.
        seed: the first seed; init and order of the images follow from it.

    Returns:
        Columns learning_rate, seed, loss (mean of the epoch) and final_loss (of its last eighth);
        inf where training diverged.
    """
    needed = grid.batch_size * grid.steps
    if len(images) < needed or not needed:
        raise InputError(f"an epoch of {needed} images was asked of {len(images)}")
    rows = []
    for run in range(grid.seeds):
        generator = torch.Generator().manual_seed(search_seed(seed, run))
        net, factors = build(generator)
        batches = torch.randperm(len(images), generator=generator)[:needed].view(grid.steps, -1)
        losses = _train(net, factors, images, labels, batches, grid.rates)
        tail = max(1, grid.steps // 8)
        for rate, curve in zip(grid.rates, losses.T, strict=True):
            rows.append(
                {"learning_rate": float(rate), "seed": run, "loss": float(curve.mean()),
                 "final_loss": float(curve[-tail:].mean())}
            )  # fmt: skip
    return make_frame(rows)


def search_seed(seed: int, run: int) -> int:
    """Return what seeds the generator of a search's run: first of its init, then of its order."""
    return seed * 1000 + run


def _train(
    net: nn.Module,
    factors: Mapping[str, float],
    images: torch.Tensor,
    labels: torch.Tensor,
    batches: torch.Tensor,
    rates: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the loss (step, rate) of every batch before its update."""
    stacked = Stacked.from_nets([net] * len(rates)).train()
    parameters = list(stacked.parameters())
    per_copy = torch.from_numpy(rates).float()
    steps = [
        factors.get(name, 1.0) * per_copy.view(-1, *[1] * parameter.dim())
        for name, parameter in net.named_parameters()
    ]
    curves = []
    for batch in batches:
        logits = stacked.forward(images[batch])
        target = labels[batch].expand(len(rates), -1)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        means = loss.view(len(rates), -1).mean(1)
        gradients = torch.autograd.grad(
            means.sum(), parameters, allow_unused=True, materialize_grads=True
        )
        with torch.no_grad():
            for parameter, step, gradient in zip(parameters, steps, gradients, strict=True):
                parameter.sub_(step * gradient)
        curves.append(means.detach())
    losses = torch.stack(curves).double().numpy()
    return np.where(np.isfinite(losses), losses, np.inf)


def maximal_lrs(searched: pd.DataFrame, column: str = "loss") -> npt.NDArray[np.float64]:
    """Return each seed's maximal learning rate: the parabola's minimum around the best grid point.

    A rate at the edge of the grid has no parabola and stands as it is; nan where all diverged.

    Args:
        searched: what `search_rates` returns.
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
        rate = float(np.exp(x[best] + shift * (x[1] - x[0]))) if np.isfinite(y[best]) else np.nan
        found.append(rate)
    return np.array(found)


def summarise(searched: pd.DataFrame) -> dict[str, float]:
    """Return what a search found over its seeds.

    Returns:
        `measured`, the geometric mean of the seeds' maximal rates by the epoch's average loss;
        `spread`, the factor of their standard deviation; `noise`, that of the mean's standard
        error, nan of one seed; `measured_final`, as measured but by the last losses.
    """
    rates, final = np.log(maximal_lrs(searched)), np.log(maximal_lrs(searched, "final_loss"))
    alone = len(rates) < 2
    error = float("nan") if alone else float(rates.std(ddof=1) / np.sqrt(len(rates)))
    return {
        "measured": float(np.exp(rates.mean())),
        "spread": float(np.exp(rates.std())),
        "noise": float(np.exp(error)),
        "measured_final": float(np.exp(final.mean())),
    }
