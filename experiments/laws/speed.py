"""How fast features move, layer by layer and from scaling to scaling (Chizat & Netrapalli, 2023).

Their figure 5, at its width and depth, and table 1, in the networks of `residual`: the first layer
fixed, the readout linear. To first order one step at rate eta with a readout of standard deviation
s moves the last feature by eta s d and the loss by eta s^2 D; the sensitivity is the former over
the latter, d / (s D). The scalings choose s and eta:

    NTK        s = n^(-1/2), and eta so that the loss moves by 1
    mean-field s = 1/n, and eta so that the last feature moves by 1, the maximal update
    FSC        both so that loss and last feature move by 1
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd

from experiments.laws.pieces import Pieces
from experiments.laws.residual import depth_exponent, measure_speeds
from experiments.laws.result import (
    Measured,
    Verdict,
    listing,
    median_and_quartiles,
    median_and_range,
    verdict,
)

# By name: c and p of the branches b = c L^p; an MLP is one branch of scale 1.
NETWORKS = {
    "MLP": (1.0, 0.0),
    "ResNet, b = L^-1/2": (1.0, -0.5),
    "ResNet, b = L^-1": (1.0, -1.0),
}
# Exponent in depth of the sensitivity with a mean-field readout: the angle's of each, inverted.
SENSITIVITY = {"MLP": 0.5, "ResNet, b = L^-1/2": 0.0, "ResNet, b = L^-1": 0.0}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSettings:
    """Width; the depths of table 1, whose last is figure 5's; those where theorem 2.4 is tried."""

    width: int = 200
    depths: tuple[int, ...] = (8, 16, 32, 64, 128, 200)
    kernel_depths: tuple[int, ...] = (4, 16, 64)
    draws: int = 24
    kernel_draws: int = 8
    seed: int = 0


def measure(settings: SpeedSettings, pieces: Pieces) -> Measured:
    """Measure updates, alignment and sensitivity of every layer, and the scalings of table 1."""
    rng = np.random.default_rng(settings.seed)
    shared: dict[str, Any] = {"width": settings.width, "seed": settings.seed}
    random, zero = (
        measure_speeds(
            pieces, NETWORKS, settings.depths, draws=settings.draws, readout=readout, **shared
        )
        for readout in ("random", "zero")
    )
    theorem = measure_speeds(
        pieces, NETWORKS, settings.kernel_depths, kind="speed-kernel",
        draws=settings.kernel_draws, readout="random", kernel=True, **shared,
    )  # fmt: skip
    theorem = theorem[theorem["layer"] == theorem["depth"]]
    deepest = random[random["depth"] == settings.depths[-1]]
    by_layer = deepest.drop(columns=["draw", "by_kernel"]).groupby(["network", "layer"], sort=False)
    scales = scaled(random[random["layer"] == random["depth"]], settings.width)
    summary = scales.groupby(["network", "scaling", "depth"], sort=False).mean(numeric_only=True)
    tables = {
        "layers": by_layer.median().reset_index(),
        "scalings": summary.reset_index(),
        "theorem": theorem,
    }
    verdicts = [
        *_layer_verdicts(deepest, settings),
        *_scaling_verdicts(scales, settings, rng),
        *_readout_verdicts(zero[zero["layer"] == zero["depth"]], settings, rng),
        _theorem_verdict(theorem, settings),
    ]
    return tables, verdicts


def scaled(last: pd.DataFrame, width: int) -> pd.DataFrame:
    """Return, for each scaling, what it chooses and what it does to the last feature and the loss.

    Args:
        last: rows of the last layer with `update` and `drop`, of a readout N(0, 1 / width^2) and
            rate 1.
        width: n.

    Returns:
        Columns network, depth, scaling, readout (standard deviation), rate, update, drop,
        sensitivity.
    """
    d, whole = last["update"] * width, last["drop"] * width**2  # of a readout of unit variance
    chosen = {
        "NTK": (width**-0.5, 1 / (whole / width)),
        "mean-field": (1 / width, 1 / (d / width)),
        "FSC": (d / whole, whole / d**2),
    }
    return pd.concat(
        [
            last[["network", "depth"]].assign(
                scaling=name, readout=std, rate=rate, update=rate * std * d,
                drop=rate * std**2 * whole, sensitivity=d / (std * whole),
            )
            for name, (std, rate) in chosen.items()
        ],
        ignore_index=True,
    )  # fmt: skip


def _layer_verdicts(deepest: pd.DataFrame, settings: SpeedSettings) -> list[Verdict]:
    depth = settings.depths[-1]
    middle = deepest[deepest["layer"] == depth // 2].set_index(["network", "draw"])
    last = deepest[deepest["layer"] == depth].set_index(["network", "draw"])
    verdicts = []
    for network in NETWORKS:
        here, there = last.loc[network], middle.loc[network]
        verdicts.append(
            verdict(
                "fsc.layer", median_and_quartiles(here["update"] / there["update"]),
                network=network, s=settings, depth=depth, cosine=here["cosine"].mean(),
                limit=here["limit_update"].iloc[0] / there["limit_update"].iloc[0],
                limit_cosine=here["limit"].iloc[0],
            )
        )  # fmt: skip
    return verdicts


def _scaling_verdicts(
    scales: pd.DataFrame, settings: SpeedSettings, rng: np.random.Generator
) -> list[Verdict]:
    verdicts = []
    asked = [
        ("mean-field", "sensitivity", SENSITIVITY),
        ("mean-field", "rate", {}),  # a typical draw's: -3/2 is of means, where n is far above L
        ("FSC", "readout", {"MLP": 0.5}),
        ("FSC", "rate", {}),
    ]
    for scaling, quantity, papers in asked:
        for network in NETWORKS:
            part = scales[(scales["network"] == network) & (scales["scaling"] == scaling)]
            logs = np.log(part[quantity]).groupby(part["depth"]).mean()
            verdicts.append(
                depth_exponent(
                    "fsc.scaling", part, quantity, rng, width=settings.width,
                    paper=papers.get(network), geometric=True, network=network, scaling=scaling,
                    column=quantity, depth=settings.depths[0],
                    first=math.exp(logs.iloc[0]), deepest=math.exp(logs.iloc[-1]),
                )
            )  # fmt: skip
    return verdicts


def _readout_verdicts(
    last: pd.DataFrame, settings: SpeedSettings, rng: np.random.Generator
) -> list[Verdict]:
    verdicts = []
    for network, part in last.groupby("network", sort=False):
        means = part.groupby("depth")["cosine"].mean()
        limit = part.loc[part["depth"] == means.index[-1], "limit"].iloc[0]
        verdicts.append(
            depth_exponent(
                "fsc.readout", part, "cosine", rng, width=settings.width, network=network,
                depths=(means.index[0], means.index[-1]), first=means.iloc[0],
                deepest=means.iloc[-1], limit=limit,
            )
        )  # fmt: skip
    return verdicts


def _theorem_verdict(theorem: pd.DataFrame, settings: SpeedSettings) -> Verdict:
    ratio = theorem["cosine"] / theorem["by_kernel"]
    means = theorem.groupby(["network", "depth"], sort=False)[["cosine", "by_kernel"]].mean()
    return verdict(
        "fsc.theorem", median_and_range(ratio), count=len(ratio), s=settings,
        depths=listing(settings.kernel_depths),
        worst=(means["cosine"] / means["by_kernel"] - 1).abs().max(),
    )  # fmt: skip
