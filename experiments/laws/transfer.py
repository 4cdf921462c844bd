"""Does a base learning rate transfer across depth by a power of L? One epoch on real images.

AM-muP (2025) says L^(-3/2), for plain CNNs and, with residual-aware init Var = c / (K fan_in), for
ResNets. The best rate of one epoch is searched at several depths; each seed gives an exponent.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import torch

from experiments.laws.conv_step import Block, DeepNet, DeepPlan
from experiments.laws.estimate import log_slope
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import RateGrid, maximal_lrs, search_rates
from experiments.laws.result import Verdict, listing, read_toml, text, verdict
from rebench.intervals import Estimate, mean_interval

PAPER_EXPONENT = -1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransferNetwork:
    """Networks that differ in depth alone; with K branches, K^-p scales what the powers name."""

    name: str
    block: Block = "plain"
    variance_power: float = 0.0
    scale_power: float = 0.0
    kernel: int | None = None
    width: int = 64
    side: int = 14
    max_depth: int = 24
    max_steps: int = 64

    def at(self, depth: int) -> DeepPlan:
        """The network of `depth` layers, of which all but the first are branches."""
        branches = max(1, depth - 1)
        return DeepPlan(
            width=self.width, depth=depth, block=self.block, kernel=self.kernel,
            branch_scale=branches**-self.scale_power,
            branch_variance=branches**-self.variance_power,
        )  # fmt: skip


def _networks() -> tuple[TransferNetwork, ...]:
    listed = read_toml("experiments")["am-mup"]["trained"]
    return tuple(TransferNetwork(**network) for network in listed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings(RateGrid):
    """Depths of plain and of residual networks, and the grid of one epoch."""

    depths: tuple[int, ...] = (3, 5, 8, 12)
    residual_depths: tuple[int, ...] = (3, 6, 12, 24)
    n_lrs: int = 15
    seeds: int = 5
    networks: tuple[TransferNetwork, ...] = dataclasses.field(default_factory=_networks)

    def depths_of(self, network: TransferNetwork) -> tuple[int, ...]:
        """The depths that a network is trained at."""
        depths = self.depths if network.block == "plain" else self.residual_depths
        return tuple(depth for depth in depths if depth <= network.max_depth)


def search_net(plan: DeepPlan, images: SmallImages, grid: RateGrid, seed: int) -> pd.DataFrame:
    """Train a stack for one epoch at every rate; see `search_rates`.

    As in all searches, the readout learns at 1 / width and the first layer at width / inputs of
    the rate, so that the layers between limit it.
    """
    pixels = images.pixels
    inputs = pixels[0].numel() if plan.kernel is None else pixels.shape[1]

    def build(generator: torch.Generator) -> tuple[DeepNet, dict[str, float]]:
        net = DeepNet(plan, generator, in_features=inputs, classes=images.classes)
        return net, {"layers.0.weight": plan.width / inputs, "readout.weight": 1 / plan.width}

    return search_rates(build, pixels, images.labels, grid, seed)


def measure_transfer(
    settings: TransferSettings, pieces: Pieces, images: SmallImages, seed: int
) -> pd.DataFrame:
    """One row per network, depth and seed, trained on `images`.

    Columns network, dataset, depth, seed, best_lr, at_edge (of the grid), and the losses at it,
    at what L^-3/2 makes of the seed's best rate at the first depth, and at that rate unscaled.
    """
    rows = []
    for network in settings.networks:
        small = images.pooled(min(network.side, images.pixels.shape[-1]))
        grid = RateGrid(
            **{field.name: getattr(settings, field.name) for field in dataclasses.fields(RateGrid)}
        ).within(min(network.max_steps * settings.batch_size, len(small.labels)))
        depths = settings.depths_of(network)
        searches = pieces.map(
            "stack", search_net, [{"plan": network.at(depth)} for depth in depths],
            images=small, grid=grid, seed=seed,
        )  # fmt: skip
        bases = maximal_lrs(searches[0])
        for depth, searched in zip(depths, searches, strict=True):
            rule = (depth / depths[0]) ** PAPER_EXPONENT
            best = maximal_lrs(searched)
            for (index, runs), base, rate in zip(
                searched.groupby("seed"), bases, best, strict=True
            ):
                at = int(runs["loss"].to_numpy().argmin())
                rows.append(
                    {
                        "network": network.name,
                        "dataset": small.name,
                        "depth": depth,
                        "seed": index,
                        "best_lr": rate,
                        "at_edge": at in (0, len(runs) - 1),
                        "best_loss": loss_at(runs, rate),
                        "loss_at_depth_rule": loss_at(runs, base * rule),
                        "loss_at_base_lr": loss_at(runs, base),
                    }
                )
    return pd.DataFrame(rows)


def loss_at(runs: pd.DataFrame, rate: float) -> float:
    """The mean epoch loss at a rate, between the grid's in log; inf where it diverged."""
    means = runs.groupby("learning_rate")["loss"].mean()
    grid = np.log(means.index.to_numpy())
    position = np.clip(np.interp(np.log(rate), grid, np.arange(len(grid))), 0, len(grid) - 1)
    low = int(position)
    high = min(low + 1, len(grid) - 1)
    share = position - low
    values = means.to_numpy()
    return float(values[low] if share == 0 else (1 - share) * values[low] + share * values[high])


def exponent_of_seeds(transfer: pd.DataFrame) -> Estimate:
    """The exponent of `best_lr` in `depth`, a mean over seeds with Student's interval."""
    return mean_interval(
        [
            log_slope(runs["depth"].to_numpy(), runs["best_lr"].to_numpy())
            for _, runs in transfer.groupby("seed")
        ]
    )


def transfer_verdicts(
    transfer: pd.DataFrame, settings: TransferSettings, classes: int
) -> list[Verdict]:
    """The verdict on every network of `measure_transfer`'s table."""
    guessing = math.log(classes)
    verdicts = []
    for network, part in transfer.groupby("network", sort=False):
        slope = exponent_of_seeds(part)
        depths = sorted({int(depth) for depth in part["depth"]})
        means = part[part["depth"] == depths[-1]].mean(numeric_only=True)
        losses = {
            name: f"{means[name]:.2f}" if np.isfinite(means[name]) else "divergence"
            for name in ("best_loss", "loss_at_depth_rule", "loss_at_base_lr")
        }
        hardly, edges = means["best_loss"] > guessing - 0.1, int(part["at_edge"].sum())
        doubts = {
            "guessing": text("am-mup.doubts", "guessing", loss=guessing) if hardly else "",
            "edges": text("am-mup.doubts", "edges", edges=edges, count=len(part)) if edges else "",
        }
        verdicts.append(
            verdict(
                "am-mup.transfer", slope, network=network, s=settings,
                dataset=part["dataset"].iloc[0], depths=listing(depths), first=depths[0],
                last=depths[-1], **losses, **doubts,
                agreement="agrees with" if slope.covers(PAPER_EXPONENT) else "is not",
            )
        )  # fmt: skip
    return verdicts
