"""AM-muP (2025): the network-wide mean of the one-step second moment, and its power of the depth.

The rule asks for sum_l E[(dz_l)^2] / L = 1 over all layers, and finds a rate like L^(-3/2) for
plain CNNs and, with residual-aware init Var = c / (K fan_in), for ResNets. Measured to first order
at init, and as the best rate of one epoch on real images at several depths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pydantic import TypeAdapter

from experiments.laws.conv_step import ConvNetwork, sample_conv_updates
from experiments.laws.estimate import fit_exponent, standard_error
from experiments.laws.images import load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict, read_toml, span, text, verdict
from experiments.laws.transfer import (
    PAPER_EXPONENT,
    TransferSettings,
    measure_transfer,
    transfer_verdicts,
)
from rebench.intervals import Estimate

# Times the mean: a draw beyond it is named.
HEAVY_TAIL = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Networks that differ in depth alone."""

    name: str
    network: ConvNetwork  # its depth is replaced
    depths: tuple[int, ...]
    quick: bool = False  # one of the three of the small settings

    def at(self, depth: int) -> ConvNetwork:
        """The network of that depth."""
        return dataclasses.replace(self.network, depth=depth)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AmMupSettings:
    """Draws at init; and the transfer of a base rate across depth in training.

    A depth is given `draws` networks at a time until the standard error of the mean is
    `standard_error` of it, or `max_draws` are drawn.
    """

    draws: int = 48
    max_draws: int = 192
    standard_error: float = 0.05
    small: bool = False  # three families
    transfer: TransferSettings = dataclasses.field(default_factory=TransferSettings)
    dataset: str | None = None
    data_root: Path | None = None
    seed: int = 0


def families(*, small: bool = False) -> list[Family]:
    """The families of `experiments.toml`, or the quick ones among them."""
    listed = TypeAdapter(list[Family]).validate_python(
        read_toml("experiments")["am-mup"]["families"]
    )
    return [family for family in listed if family.quick or not small]


def measure(settings: AmMupSettings, pieces: Pieces) -> Measured:
    """Measure the exponent of every family at init, and the transfer across depth in training."""
    images = load_small_images(settings.dataset, settings.data_root)
    rng = np.random.default_rng(settings.seed)
    members = families(small=settings.small)
    moments, exponents, verdicts = [], [], []
    for family in members:
        frames = pieces.map(
            "am", _mean_moments, [{"network": family.at(depth)} for depth in family.depths],
            draws=settings.draws, max_draws=settings.max_draws,
            precision=settings.standard_error, seed=settings.seed,
        )  # fmt: skip
        samples = [frame["mean_moment"].to_numpy() for frame in frames]
        for depth, sample in zip(family.depths, samples, strict=True):
            moments.append(
                {"family": family.name, "depth": depth, "draws": len(sample),
                 "mean_moment": float(sample.mean()), "standard_error": standard_error(sample),
                 "typical_moment": float(np.exp(np.log(sample).mean())),
                 "rate": float(sample.mean() ** -0.5)}
            )  # fmt: skip
        slope = fit_exponent(family.depths, samples, -0.5, rng)
        # Its own generator: the intervals of the mean are what they are without it.
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
        len(sample) and standard_error(sample) <= precision * sample.mean()
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
        agreement = "near -3/2, outside its interval"
    else:
        agreement = f"not -3/2, off by {slope.value - PAPER_EXPONENT:+.2f}"
    counts = [len(sample) for sample in samples]
    largest = max(float(sample.max() / sample.mean()) for sample in samples)
    heavy = largest > HEAVY_TAIL
    return verdict(
        "am-mup.family", slope, family=family, depths=span(family.depths), fewest=min(counts),
        most=max(counts), agreement=agreement, typical=typical,
        tail=text("am-mup.tail", "more", largest=largest) if heavy else "",
    )  # fmt: skip
