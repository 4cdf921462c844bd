"""How features move in one step of residual networks and MLPs, as published, and how it scales.

Chizat & Netrapalli (2023): f' = sqrt(1 - b^2) f + b W relu(f) with W ~ N(0, 2 / n), which keeps
norms; the first layer is not trained and the readout is linear. To first order the features move
by df' = sqrt(1 - b^2) df + b W (1[f > 0] df) - b^2 ||relu(f)||^2 g', g' the gradient of f'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch

from experiments.laws.estimate import fit_exponent
from experiments.laws.pieces import Pieces
from experiments.laws.result import Verdict, verdict
from rebench.intervals import Estimate

Readout = Literal["random", "zero"]


def limit_cosine(layer: int, branch: float = 1.0) -> float:
    """The cosine at a layer of a wide network; a branch of 1 is an MLP.

    The update is K g with K_l = A K A^T + I, A = sqrt(1 - b^2) + b W D. At infinite width the
    normalised trace of K is l, that of K^2 grows by 2 b^2 l^2 + 2 l + 1 a layer, and the cosine
    is tr K / (tr K^2)^(1/2). With b = c / sqrt(L) it tends to (1 + 2 c^2 / 3)^(-1/2) at l = L.
    """
    return (1 + branch**2 * (layer - 1) * (2 * layer - 1) / (3 * layer)) ** -0.5


class Speeds(NamedTuple):
    """Of one step at rate 1, behind every layer: tensors (draw, layer)."""

    cosines: torch.Tensor  # of -df and g
    updates: torch.Tensor  # rms of df
    contributions: torch.Tensor  # squared norm of the gradient of the layer's own weights
    by_kernel: torch.Tensor  # tr K / (n tr K^2)^(1/2), nan where it was not asked for


def sample_speeds(
    depth: int,
    width: int,
    branch: float,
    *,
    draws: int,
    generator: torch.Generator,
    readout: Readout = "random",
    kernel: bool = False,
) -> Speeds:
    """How features move in one step of gradient descent, to first order.

    Args:
        depth: trained layers.
        width: n.
        branch: b; 1 is an MLP.
        draws: networks drawn.
        generator: what draws them.
        readout: N(0, 1 / n^2), or zero at init and learnt for one step: then g lies along the last
            feature, times the same norm.
        kernel: compute what theorem 2.4 says of a random g, by the kernel K with df = -K g:
            K' = A K A^T + b^2 ||relu(f)||^2 I, A = sqrt(1 - b^2) + b W D.
    """
    kept = math.sqrt(1 - branch**2)
    rows = []
    for _ in range(draws):
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
        layers = []
        for weight, feature, gradient in zip(weights, features, gradients[-2::-1], strict=False):
            size = branch**2 * feature.relu().square().sum()
            moved = kept * moved + branch * (weight @ ((feature > 0) * moved)) - size * gradient
            aligned = torch.tensor(math.nan)
            if kernel:
                through = kept * torch.eye(width) + branch * weight * (feature > 0)
                traced = through @ traced @ through.T + size * torch.eye(width)
                aligned = traced.trace() / (width**0.5 * traced.norm())
            cosine = -torch.nn.functional.cosine_similarity(moved, gradient, dim=0)
            rms = moved.square().mean().sqrt()
            layers.append(torch.stack([cosine, rms, size * gradient.square().sum(), aligned]))
        rows.append(torch.stack(layers, dim=1))
    return Speeds(*torch.stack(rows, dim=1))


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
    """What `sample_speeds` draws with b = constant L^power, a row for each draw and layer.

    Returns:
        Columns depth, layer, draw, cosine, update, drop (of the loss, by all layers), sensitivity
        and by_kernel; limit and limit_update, cosine and update at infinite width.
    """
    branch = constant * depth**power
    sampled = sample_speeds(
        depth, width, branch, draws=draws, readout=readout, kernel=kernel,
        generator=torch.Generator().manual_seed(seed * 7919 + depth),
    )  # fmt: skip
    layers = np.arange(1, depth + 1)
    cosine, update, own, by_kernel = (part.double().numpy() for part in sampled)
    drop = np.broadcast_to(own.sum(axis=1, keepdims=True), own.shape)
    limits = np.array([limit_cosine(int(layer), branch) for layer in layers])
    return pd.DataFrame(
        {
            "depth": depth,
            "layer": np.tile(layers, draws),
            "draw": np.repeat(np.arange(draws), depth),
            "cosine": cosine.ravel(),
            "update": update.ravel(),
            "drop": drop.ravel(),
            "sensitivity": (update / drop).ravel(),
            "by_kernel": by_kernel.ravel(),
            "limit": np.tile(limits, draws),
            # Of readout N(0, 1 / n^2): b^2 E relu^2 (tr K^2)^(1/2).
            "limit_update": np.tile(branch**2 / 2 * layers / limits, draws),
        }
    )


def measure_speeds(
    pieces: Pieces,
    branches: Mapping[str, tuple[float, float]],
    depths: Sequence[int],
    *,
    kind: str = "speed",
    **shared: object,
) -> pd.DataFrame:
    """`speed_frame` of every network and depth, a piece each, with the network's name.

    `branches` are the constant and the power of each network by its name; `shared` are the other
    arguments.
    """
    cases = [
        {"constant": constant, "power": power, "depth": depth}
        for constant, power in branches.values()
        for depth in depths
    ]
    names = [name for name in branches for _ in depths]
    frames = pieces.map(kind, speed_frame, cases, **shared)
    whole = pd.concat(frames, keys=names, names=["network"])
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
    """The verdict on the exponent in depth of a column's mean over draws, a row each.

    Its texts are those of `name`, filled in with `values`, `drawn` and, where the paper has an
    exponent, `agreement`. With `geometric` logarithms are averaged.
    """
    samples = {int(str(depth)): drawn.to_numpy() for depth, drawn in rows.groupby("depth")[column]}
    slope = fit_exponent(list(samples), list(samples.values()), 1.0, rng, geometric=geometric)
    first, last = min(samples), max(samples)
    drawn = f"width {width}, L = {first}-{last}, {len(samples[first])} draws"
    agreement = "" if paper is None else f"{_agreement(slope, paper)}; "
    return verdict(name, slope, paper, drawn=drawn, agreement=agreement, **values)


def _agreement(slope: Estimate, paper: float) -> str:
    if slope.covers(paper):
        return "agrees"
    if abs(slope.value - paper) < 0.12:
        return "within 0.12 of it, which is outside the interval"
    return "differs"
