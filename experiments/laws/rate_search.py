"""One epoch of SGD at all learning rates together, and the rate with the lowest loss.

All rates are copies in one stacked network with the same init and the same batches, so a search
costs about one training. This module finds the best rate of a curve by a parabola; `base_lr` uses
the paper's rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from rebench.errors import InputError
from rebench.nets import Stacked
from rebench.runs import Protocol
from rebench.train import StackedSGD

if TYPE_CHECKING:
    from typing_extensions import Self

# Function of a generator: a new network, and the factor on each parameter's rate by name.
Build = Callable[[torch.Generator], tuple[nn.Module, Mapping[str, float]]]

PLAIN = Protocol(momentum=0, nesterov=False, weight_decay=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RateGrid:
    """Geometric grid of learning rates, with the length of the epoch."""

    steps: int = 64
    batch_size: int = 64
    lowest_lr: float = 0.01
    highest_lr: float = 10.0
    n_lrs: int = 16
    seeds: int = 3

    @property
    def rates(self) -> npt.NDArray[np.float64]:
        """Return the grid."""
        return np.geomspace(self.lowest_lr, self.highest_lr, self.n_lrs)

    def within(self, images: int) -> Self:
        """Return the grid with no more steps than an epoch of `images` images has."""
        return dataclasses.replace(self, steps=min(self.steps, images // self.batch_size))


def search_rates(
    build: Build,
    images: torch.Tensor,
    labels: torch.Tensor,
    grid: RateGrid,
    seed: int,
    protocol: Protocol = PLAIN,
) -> pd.DataFrame:
    """Train every learning rate for one epoch of cross-entropy.

    Args:
        build: function that draws the network of a seed.
        images: float (image, channel, height, width), normalised.
        labels: class of every image.
        grid: rates, steps and seeds.
        seed: the first seed; it decides init and order of the images.
        protocol: momentum and weight decay.

    Returns:
        Columns learning_rate, seed, loss (mean over the epoch) and final_loss (mean over its last
        eighth); inf where training diverged.
    """
    needed = grid.batch_size * grid.steps
    if len(images) < needed or not needed:
        raise InputError(f"an epoch needs {needed} images, got {len(images)}")
    rows = []
    for run in range(grid.seeds):
        generator = torch.Generator().manual_seed(search_seed(seed, run))
        net, factors = build(generator)
        order = torch.randperm(len(images), generator=generator)[:needed].view(grid.steps, -1)
        batches = ((images[batch], labels[batch]) for batch in order)
        net = net.to(images.device)
        losses = _losses(grid.rates.tolist(), net, factors, protocol, batches)
        tail = max(1, grid.steps // 8)
        for rate, curve in zip(grid.rates, losses.T, strict=True):
            rows.append(
                {"learning_rate": float(rate), "seed": run, "loss": float(curve.mean()),
                 "final_loss": float(curve[-tail:].mean())}
            )  # fmt: skip
    return pd.DataFrame(rows)


def search_seed(seed: int, run: int) -> int:
    """Return the seed of the generator that draws the init of a run, then the order of images."""
    return seed * 1000 + run


def _losses(
    rates: Sequence[float],
    net: nn.Module,
    factors: Mapping[str, float],
    protocol: Protocol,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> npt.NDArray[np.float64]:
    """Train a copy of `net` at every rate; return the losses (step, rate) before each update.

    Losses are means over the batch; losses that are not finite are inf.
    """
    stacked = Stacked.from_nets([net] * len(rates)).train()
    sgd = StackedSGD(
        stacked,
        momentum=protocol.momentum,
        nesterov=protocol.nesterov,
        weight_decay=protocol.weight_decay,
    )
    sgd.set_rates(rates, [factors] * len(rates))
    curves = []
    for pixels, labels in batches:
        logits = stacked(pixels)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.repeat(len(rates)), reduction="none")
        means = loss.view(len(rates), -1).mean(1)
        means.sum().backward()  # type: ignore[no-untyped-call]  # torch's own
        sgd.step()
        curves.append(means.detach())
    losses = torch.stack(curves).double().cpu().numpy()
    return np.where(np.isfinite(losses), losses, np.inf)


def maximal_lrs(searched: pd.DataFrame, column: str = "loss") -> npt.NDArray[np.float64]:
    """Return, for each seed, the maximal rate, defined here as the rate with the lowest loss.

    It is the minimum of the parabola through the best rate of the grid and its two neighbours, over
    log rate. A best rate at the edge of the grid is returned unchanged; nan if all rates diverged.

    Args:
        searched: result of `search_rates`.
        column: `loss`, the epoch's average, or `final_loss`.
    """
    rates = []
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
        rates.append(rate)
    return np.array(rates)


def summarise(searched: pd.DataFrame) -> dict[str, float]:
    """Summarise a search over its seeds.

    Returns:
        `measured`, the geometric mean over seeds of the maximal rate by the epoch's average loss;
        `spread`, the factor of their standard deviation; `noise`, the factor of the mean's
        standard error, nan for one seed; `measured_final`, like `measured` by the last losses.
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
