"""Speed of features in residual networks and MLPs of the paper, layer by layer.

Chizat & Netrapalli (2023): f' = sqrt(1 - b^2) f + b W relu(f) with W ~ N(0, 2 / n), which keeps
norms; the first layer is not trained and the readout is linear. To first order the features move
by df' = sqrt(1 - b^2) df + b W (1[f > 0] df) - b^2 ||relu(f)||^2 g', g' the gradient of f'.

This module measures their figure 5, at its width and depth, and table 1. One step at rate eta with
a readout of standard deviation s moves the last feature by eta s d and the loss by eta s^2 D. The
sensitivity is the ratio d / (s D). The scalings choose s and eta:

    NTK        s = n^(-1/2), and eta so that the loss moves by 1
    mean-field s = 1/n, and eta so that the last feature moves by 1, the maximal update
    FSC        both so that loss and last feature move by 1
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from experiments.laws.estimate import fit_exponent
from experiments.laws.pieces import Pieces
from experiments.laws.result import (
    Measured,
    Verdict,
    listing,
    median_and_quartiles,
    median_and_range,
    verdict,
)

Readout = Literal["random", "zero"]
# Networks by name, with c and p of their branches b = c L^p; an MLP is one branch of scale 1.
NETWORKS = {
    "MLP": (1.0, 0.0),
    "ResNet, b = L^-1/2": (1.0, -0.5),
    "ResNet, b = L^-1": (1.0, -1.0),
}
# Exponent in depth of the sensitivity with a mean-field readout: minus the angle's exponent.
SENSITIVITY = {"MLP": 0.5, "ResNet, b = L^-1/2": 0.0, "ResNet, b = L^-1": 0.0}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSettings:
    """Width, depths of table 1 (the last is figure 5's), and depths for theorem 2.4."""

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
    """Return, for each scaling, readout and rate, and updates of the last feature and the loss.

    Args:
        last: rows of the last layer with `update` and `drop`, of a readout N(0, 1 / width^2) and
            rate 1.
        width: n.

    Returns:
        Columns network, depth, scaling, readout (standard deviation), rate, update, drop,
        sensitivity.
    """
    d, whole = last["update"] * width, last["drop"] * width**2  # with a readout of unit variance
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


def _layer_verdicts(deepest: pd.DataFrame, settings: SpeedSettings) -> Iterator[Verdict]:
    depth = settings.depths[-1]
    middle = deepest[deepest["layer"] == depth // 2].set_index(["network", "draw"])
    last = deepest[deepest["layer"] == depth].set_index(["network", "draw"])
    for network in NETWORKS:
        here, there = last.loc[network], middle.loc[network]
        yield verdict(
            "fsc.layer", median_and_quartiles(here["update"] / there["update"]),
            network=network, s=settings, depth=depth, cosine=here["cosine"].mean(),
            limit=here["limit_update"].iloc[0] / there["limit_update"].iloc[0],
            limit_cosine=here["limit"].iloc[0],
        )  # fmt: skip


def _scaling_verdicts(
    scales: pd.DataFrame, settings: SpeedSettings, rng: np.random.Generator
) -> Iterator[Verdict]:
    asked = [
        ("mean-field", "sensitivity", SENSITIVITY),
        # In the paper's limit the width grows first, then the depth. At a depth L near the width n,
        # measured exponents differ from it.
        ("mean-field", "rate", {"MLP": -1.5}),
        ("FSC", "readout", {"MLP": 0.5}),
        ("FSC", "rate", {}),
    ]
    for scaling, quantity, papers in asked:
        for network in NETWORKS:
            part = scales[(scales["network"] == network) & (scales["scaling"] == scaling)]
            logs = np.log(part[quantity]).groupby(part["depth"]).mean()
            yield depth_exponent(
                "fsc.scaling", part, quantity, rng, width=settings.width,
                paper=papers.get(network), geometric=True, network=network, scaling=scaling,
                column=quantity, depth=settings.depths[0],
                first=math.exp(logs.iloc[0]), deepest=math.exp(logs.iloc[-1]),
            )  # fmt: skip


def _readout_verdicts(
    last: pd.DataFrame, settings: SpeedSettings, rng: np.random.Generator
) -> Iterator[Verdict]:
    for network, part in last.groupby("network", sort=False):
        means = part.groupby("depth")["cosine"].mean()
        limit = part.loc[part["depth"] == means.index[-1], "limit"].iloc[0]
        yield depth_exponent(
            "fsc.readout", part, "cosine", rng, width=settings.width, network=network,
            depths=(means.index[0], means.index[-1]), first=means.iloc[0],
            deepest=means.iloc[-1], limit=limit,
        )  # fmt: skip


def _theorem_verdict(theorem: pd.DataFrame, settings: SpeedSettings) -> Verdict:
    ratio = theorem["cosine"] / theorem["by_kernel"]
    means = theorem.groupby(["network", "depth"], sort=False)[["cosine", "by_kernel"]].mean()
    return verdict(
        "fsc.theorem", median_and_range(ratio), count=len(ratio), s=settings,
        depths=listing(settings.kernel_depths),
        worst=(means["cosine"] / means["by_kernel"] - 1).abs().max(),
    )  # fmt: skip


def limit_cosine(layer: int, branch: float = 1.0) -> float:
    """Return the cosine at a layer of a wide network; a branch of 1 is an MLP.

    The update is K g with K_l = A K A^T + I, A = sqrt(1 - b^2) + b W D. At infinite width the
    normalised trace of K is l, that of K^2 grows by 2 b^2 l^2 + 2 l + 1 a layer, and the cosine
    is tr K / (tr K^2)^(1/2). With b = c / sqrt(L) it tends to (1 + 2 c^2 / 3)^(-1/2) at l = L.
    """
    return (1 + branch**2 * (layer - 1) * (2 * layer - 1) / (3 * layer)) ** -0.5


def speed_frame(
    *,
    depth: int,
    width: int,
    constant: float,
    power: float,
    draws: int,
    seed: int,
    readout: Readout = "random",
    kernel: bool = False,
) -> pd.DataFrame:
    """Return updates of features in one step of gradient descent at rate 1, to first order.

    Args:
        depth: trained layers L.
        width: n.
        constant: c of the branches b = c L^p; a b of 1 is an MLP.
        power: p.
        draws: number of networks.
        seed: seed of the draws.
        readout: N(0, 1 / n^2), or zero at init and learnt for one step. Then g is parallel to the
            last feature, with the same norm.
        kernel: compute the cosine of theorem 2.4 for a random g, by the kernel K with df = -K g:
            K' = A K A^T + b^2 ||relu(f)||^2 I, A = sqrt(1 - b^2) + b W D.

    Returns:
        A row for each draw and layer: depth, layer, draw, cosine (of -df and g), update (rms of
        df), contribution (squared norm of the gradient of the layer's own weights), by_kernel
        (tr K / (n tr K^2)^(1/2), nan without `kernel`), drop (of the loss, by all
        layers), sensitivity; limit and limit_update, cosine and update at infinite width.
    """
    branch = constant * depth**power
    kept = math.sqrt(1 - branch**2)
    generator = torch.Generator().manual_seed(seed * 7919 + depth)
    rows = []
    for draw in range(draws):
        weights = torch.randn(depth, width, width, generator=generator) * math.sqrt(2 / width)
        start = torch.randn(width, generator=generator)
        features = [start * math.sqrt(width) / start.norm()]
        for weight in weights:
            features.append(kept * features[-1] + branch * (weight @ features[-1].relu()))
        gradients = [torch.randn(width, generator=generator) / width]
        if readout == "zero":
            gradients = [-features[-1] / (math.sqrt(width) * features[-1].norm())]
        for weight, feature in zip(weights.flip(0), features[-2::-1], strict=True):
            back = (feature > 0) * (weight.T @ gradients[-1])
            gradients.append(kept * gradients[-1] + branch * back)
        moved, traced = torch.zeros(width), torch.zeros(width, width)
        for layer, (weight, feature, gradient) in enumerate(
            zip(weights, features, gradients[-2::-1], strict=False), 1
        ):
            size = branch**2 * feature.relu().square().sum()
            moved = kept * moved + branch * (weight @ ((feature > 0) * moved)) - size * gradient
            row = {
                "depth": depth, "layer": layer, "draw": draw,
                "cosine": -float(torch.nn.functional.cosine_similarity(moved, gradient, dim=0)),
                "update": float(moved.square().mean().sqrt()),
                "contribution": float(size * gradient.square().sum()), "by_kernel": math.nan,
            }  # fmt: skip
            if kernel:
                through = kept * torch.eye(width) + branch * weight * (feature > 0)
                traced = through @ traced @ through.T + size * torch.eye(width)
                row["by_kernel"] = float(traced.trace() / (width**0.5 * traced.norm()))
            rows.append(row)
    frame: pd.DataFrame = pd.DataFrame(rows)
    frame["drop"] = frame.groupby("draw")["contribution"].transform("sum")
    frame["sensitivity"] = frame["update"] / frame["drop"]
    frame["limit"] = [limit_cosine(layer, branch) for layer in frame["layer"]]
    # The limit for a readout N(0, 1 / n^2) is b^2 E relu^2 (tr K^2)^(1/2).
    frame["limit_update"] = branch**2 / 2 * frame["layer"] / frame["limit"]
    return frame


def measure_speeds(
    pieces: Pieces,
    branches: Mapping[str, tuple[float, float]],
    depths: Sequence[int],
    *,
    kind: str = "speed",
    **shared: object,
) -> pd.DataFrame:
    """Compute `speed_frame` of every network and depth, a piece each, with the network's name.

    `branches` contains the constant and the power of each network by its name; `shared` contains
    the other arguments.
    """
    cases = [
        {"constant": constant, "power": power, "depth": depth}
        for constant, power in branches.values()
        for depth in depths
    ]
    names = [name for name in branches for _ in depths]
    frames = pieces.map(kind, speed_frame, cases, **shared)
    whole = pd.concat(frames, keys=names, names=["network"]).drop(columns="contribution")
    return whole.reset_index("network").reset_index(drop=True)


def depth_exponent(
    name: str,
    rows: pd.DataFrame,
    column: str,
    rng: np.random.Generator,
    /,
    *,
    width: int,
    paper: float | None = None,
    geometric: bool = False,
    **values: object,
) -> Verdict:
    """Return the verdict on the exponent in depth of a column's mean over draws.

    Texts come from `name`, with inserted `values`, `drawn` and, if the paper has an exponent,
    `agreement`. With `geometric` logarithms are averaged.
    """
    samples = {int(str(depth)): drawn.to_numpy() for depth, drawn in rows.groupby("depth")[column]}
    slope = fit_exponent(list(samples), list(samples.values()), 1.0, rng, geometric=geometric)
    first, last = min(samples), max(samples)
    drawn = f"width {width}, L = {first}-{last}, {len(samples[first])} draws"
    agreement = ""
    if paper is not None:
        near = abs(slope.value - paper) < 0.12
        agreement = "differs by less than 0.12; " if near else "differs; "
        agreement = "agrees; " if slope.covers(paper) else agreement
    return verdict(name, slope, paper, drawn=drawn, agreement=agreement, **values)
