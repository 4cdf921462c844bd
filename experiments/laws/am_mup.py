"""AM-muP (2025): the mean squared update of a network in one step, and its exponent in depth.

The rule requires sum_l E[(dz_l)^2] / L = 1 over all layers. It gives a rate like L^(-3/2) for
plain CNNs and for ResNets with residual-aware init Var = c / (K fan_in). This module measures the
mean to first order at init. It also measures the best rate of one epoch on real images at several
depths; each seed gives an exponent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pydantic import TypeAdapter
from scipy.stats import sem

from experiments.laws.conv_step import ConvNetwork, DeepNet, DeepPlan, sample_conv_updates
from experiments.laws.estimate import fit_exponent, log_slope
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import RateGrid, maximal_lrs, search_rates
from experiments.laws.result import Measured, Verdict, listing, read_toml, span, text, verdict
from rebench.intervals import Estimate, mean_interval

PAPER_EXPONENT = -1.5
# Draws larger than this multiple of the mean are reported.
HEAVY_TAIL = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Family of networks at init that differ only in depth."""

    name: str
    network: ConvNetwork  # `at` replaces its depth
    depths: tuple[int, ...]
    quick: bool = False  # whether the small settings include the family

    def at(self, depth: int) -> ConvNetwork:
        """Return the network of this depth."""
        return dataclasses.replace(self.network, depth=depth)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransferNetwork:
    """Family of networks that differ only in depth, with their training data."""

    name: str
    plan: DeepPlan = dataclasses.field(default_factory=DeepPlan)  # `at` replaces its depth
    side: int = 14
    max_depth: int = 24
    max_steps: int = 64


def _networks() -> tuple[TransferNetwork, ...]:
    listed = read_toml("experiments")["am-mup"]["trained"]
    return TypeAdapter(tuple[TransferNetwork, ...]).validate_python(listed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings(RateGrid):
    """Depths of plain and residual networks, and the grid of rates; each rate trains one epoch."""

    depths: tuple[int, ...] = (3, 5, 8, 12)
    residual_depths: tuple[int, ...] = (3, 6, 12, 24)
    n_lrs: int = 15
    seeds: int = 5
    networks: tuple[TransferNetwork, ...] = dataclasses.field(default_factory=_networks)

    def depths_of(self, network: TransferNetwork) -> tuple[int, ...]:
        """Return the depths at which a network is trained."""
        depths = self.depths if network.plan.block == "plain" else self.residual_depths
        return tuple(depth for depth in depths if depth <= network.max_depth)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AmMupSettings:
    """Settings of the draws at init, and of the transfer of a base rate across depth.

    Each depth draws `draws` networks at a time, until the relative standard error of the mean is
    `standard_error`, or the number of draws is `max_draws`.
    """

    draws: int = 48
    max_draws: int = 192
    standard_error: float = 0.05
    small: bool = False  # whether to draw only the three quick families
    transfer: TransferSettings = dataclasses.field(default_factory=TransferSettings)
    dataset: str | None = None
    data_root: Path | None = None
    seed: int = 0


def families(*, small: bool = False) -> list[Family]:
    """Return the families of `experiments.toml`, or only the quick families."""
    listed = TypeAdapter(list[Family]).validate_python(
        read_toml("experiments")["am-mup"]["families"]
    )
    return [family for family in listed if family.quick or not small]


def measure(settings: AmMupSettings, pieces: Pieces) -> Measured:
    """Measure the exponent of every family at init, and the transfer across depth in training."""
    images = load_small_images(settings.dataset, settings.data_root)
    rng = np.random.default_rng(settings.seed)
    moments, exponents, verdicts = [], [], []
    for family in families(small=settings.small):
        frames = pieces.map(
            "am", _mean_moments, [{"network": family.at(depth)} for depth in family.depths],
            draws=settings.draws, max_draws=settings.max_draws,
            precision=settings.standard_error, seed=settings.seed,
        )  # fmt: skip
        samples = [frame["mean_moment"].to_numpy() for frame in frames]
        for depth, sample in zip(family.depths, samples, strict=True):
            moments.append(
                {"family": family.name, "depth": depth, "draws": len(sample),
                 "mean_moment": float(sample.mean()), "standard_error": sem(sample),
                 "typical_moment": float(np.exp(np.log(sample).mean())),
                 "rate": float(sample.mean() ** -0.5)}
            )  # fmt: skip
        slope = fit_exponent(family.depths, samples, -0.5, rng)
        # A separate generator, so that the intervals of the mean do not change.
        typical = fit_exponent(
            family.depths, samples, -0.5, np.random.default_rng(settings.seed), geometric=True
        )
        exponents.append(
            {"family": family.name, "exponent": slope.value, "low": slope.low, "high": slope.high,
             "typical": typical.value, "typical_low": typical.low, "typical_high": typical.high}
        )  # fmt: skip
        verdicts.append(_verdict(family, slope, typical, samples))
    transfer = measure_transfer(settings.transfer, pieces, images, settings.seed)
    verdicts += transfer_verdicts(transfer, settings.transfer, images.classes)
    tables = {
        "moments": pd.DataFrame(moments),
        "exponents": pd.DataFrame(exponents),
        "transfer": transfer,
    }
    return tables, verdicts


def _mean_moments(
    network: ConvNetwork, draws: int, max_draws: int, precision: float, seed: int
) -> pd.DataFrame:
    generator = torch.Generator().manual_seed(seed * 7919 + network.depth)
    sample = np.empty(0)
    while len(sample) < max_draws and not (
        len(sample) and sem(sample) <= precision * sample.mean()
    ):
        updates = sample_conv_updates(network, draws=draws, generator=generator)
        sample = np.append(sample, updates.mean(1).numpy())
    return pd.DataFrame({"mean_moment": sample})


def _verdict(
    family: Family, slope: Estimate, typical: Estimate, samples: Sequence[npt.NDArray[np.float64]]
) -> Verdict:
    if slope.covers(PAPER_EXPONENT):
        agreement = "agrees with -3/2"
    elif abs(slope.value - PAPER_EXPONENT) < 0.25:
        agreement = "near -3/2, which is outside the interval"
    else:
        agreement = f"differs from -3/2 by {slope.value - PAPER_EXPONENT:+.2f}"
    counts = [len(sample) for sample in samples]
    largest = max(float(sample.max() / sample.mean()) for sample in samples)
    return verdict(
        "am-mup.family", slope, family=family, depths=span(family.depths), fewest=min(counts),
        most=max(counts), agreement=agreement, typical=typical,
        tail=text("am-mup.tail", "more", largest=largest) if largest > HEAVY_TAIL else "",
    )  # fmt: skip


def search_net(plan: DeepPlan, images: SmallImages, grid: RateGrid, seed: int) -> pd.DataFrame:
    """Train a stack for one epoch at every rate; see `search_rates`.

    As in all searches, the rate is multiplied by 1 / width in the readout and by width / inputs
    in the first layer, so that the layers between them limit the rate.
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
    """Train on `images`; return one row per network, depth and seed.

    Columns: network, dataset, depth, seed, best_lr, at_edge (best_lr is at the edge of the grid),
        and the losses at three rates: best_lr, the seed's best rate at the first depth times
        L^-3/2, and this rate without the factor L^-3/2.
    """
    rows = []
    for network in settings.networks:
        small = images.pooled(network.side)
        grid = RateGrid(
            **{field.name: getattr(settings, field.name) for field in dataclasses.fields(RateGrid)}
        ).within(min(network.max_steps * settings.batch_size, len(small.labels)))
        depths = settings.depths_of(network)
        cases = [{"plan": dataclasses.replace(network.plan, depth=depth)} for depth in depths]
        searches = pieces.map("stack", search_net, cases, images=small, grid=grid, seed=seed)
        bases = maximal_lrs(searches[0])
        for depth, searched in zip(depths, searches, strict=True):
            rule = (depth / depths[0]) ** PAPER_EXPONENT
            runs_of = [runs for _, runs in searched.groupby("seed")]
            for index, (runs, base, best) in enumerate(
                zip(runs_of, bases, maximal_lrs(searched), strict=True)
            ):
                at = int(runs["loss"].to_numpy().argmin())
                rows.append(
                    {"network": network.name, "dataset": small.name, "depth": depth,
                     "seed": index, "best_lr": best, "at_edge": at in (0, len(runs) - 1),
                     "best_loss": loss_at(runs, best),
                     "loss_at_depth_rule": loss_at(runs, base * rule),
                     "loss_at_base_lr": loss_at(runs, base)}
                )  # fmt: skip
    return pd.DataFrame(rows)


def loss_at(runs: pd.DataFrame, rate: float) -> float:
    """Interpolate the mean epoch loss at a rate on the log grid; inf if it diverged."""
    means = runs.groupby("learning_rate")["loss"].mean()
    return float(np.interp(np.log(rate), np.log(means.index.to_numpy()), means.to_numpy()))


def exponent_of_seeds(transfer: pd.DataFrame) -> Estimate:
    """Fit the exponent of `best_lr` in `depth`: mean over seeds with Student's interval."""
    return mean_interval(
        [
            log_slope(runs["depth"].to_numpy(), runs["best_lr"].to_numpy())
            for _, runs in transfer.groupby("seed")
        ]
    )


def transfer_verdicts(
    transfer: pd.DataFrame, settings: TransferSettings, classes: int
) -> Iterator[Verdict]:
    """Return the verdict on every network in the table of `measure_transfer`."""
    guessing = math.log(classes)
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
        yield verdict(
            "am-mup.transfer", slope, network=network, s=settings,
            dataset=part["dataset"].iloc[0], depths=listing(depths), first=depths[0],
            last=depths[-1], **losses, **doubts,
            agreement="agrees with" if slope.covers(PAPER_EXPONENT) else "differs from",
        )  # fmt: skip
