"""The angle between feature updates and the backward pass in residual networks, as published.

Chizat & Netrapalli (2023): f' = sqrt(1 - b^2) f + b W relu(f) with W ~ N(0, 2 / n), which keeps
norms; the first layer is not trained and the readout is linear. To first order the features move
by df' = sqrt(1 - b^2) df + b W (1[f > 0] df) - b^2 ||relu(f)||^2 g', g' the gradient of f'.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from rebench.theory.depth_exponent import depth_exponent
from rebench.theory.pieces import Piece
from rebench.theory.result import Verdict

__all__ = [
    "ResidualSettings",
    "Speeds",
    "limit_cosine",
    "residual_pieces",
    "residual_verdicts",
    "sample_cosines",
    "sample_speeds",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSettings:
    """Sizes, and the branches b = constant * L^power to try, b below 1."""

    width: int = 200
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    branches: tuple[tuple[float, float], ...] = (
        (1.0, -1.0), (0.5, -0.5), (1.0, -0.5), (2.0, -0.5), (1.0, -0.25),
    )  # fmt: skip
    draws: int = 24


def limit_cosine(layer: int, branch: float = 1.0) -> float:
    """Return the cosine at a layer of a wide network; a branch of 1 is an MLP.

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


def sample_cosines(
    depth: int, width: int, branch: float, *, draws: int, generator: torch.Generator
) -> torch.Tensor:
    """Return the cosine of -df and g behind every layer, a row for each draw of the weights."""
    return sample_speeds(depth, width, branch, draws=draws, generator=generator).cosines


def sample_speeds(
    depth: int,
    width: int,
    branch: float,
    *,
    draws: int,
    generator: torch.Generator,
    zero_readout: bool = False,
    kernel: bool = False,
) -> Speeds:
    """Return how features move in one step of gradient descent, to first order.

    Args:
        depth: trained layers.
        width: n.
        branch: b; 1 is an MLP.
        draws: networks drawn.
        generator: what draws them.
        zero_readout: the readout is 0 at init and has learnt for one step: g lies along the last
            feature, times the same norm. Else it is random, N(0, 1 / n^2).
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
        if zero_readout:
            gradients = [-features[-1] / (math.sqrt(width) * features[-1].norm())]
        for weight, feature in zip(weights.flip(0), features[-2::-1], strict=True):
            back = (feature > 0) * (weight.T @ gradients[-1])
            gradients.append(kept * gradients[-1] + branch * back)
        moved, traced = torch.zeros(width), torch.zeros(width, width)
        found = []
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
            found.append(torch.stack([cosine, rms, size * gradient.square().sum(), aligned]))
        rows.append(torch.stack(found, dim=1))
    return Speeds(*torch.stack(rows, dim=1))


def residual_pieces(settings: ResidualSettings, seed: int) -> list[Piece]:
    """Return the pieces of the measurement: one a branch and depth."""
    return [
        Piece(
            kind="residual",
            settings={"width": settings.width, "draws": settings.draws, "seed": seed,
                      "constant": constant, "power": power, "depth": depth},
            compute=partial(_cosines, settings, seed, constant, power, depth),
        )
        for constant, power in settings.branches
        for depth in settings.depths
    ]  # fmt: skip


def _cosines(
    settings: ResidualSettings, seed: int, constant: float, power: float, depth: int
) -> pd.DataFrame:
    branch = constant * depth**power
    generator = torch.Generator().manual_seed(seed * 7919 + depth)
    found = sample_cosines(depth, settings.width, branch, draws=settings.draws, generator=generator)
    layers = np.arange(1, depth + 1)
    return pd.DataFrame(
        {
            "branch": f"{constant:g} L^{power:g}",
            "depth": depth,
            "layer": np.tile(layers, settings.draws),
            "draw": np.repeat(np.arange(settings.draws), depth),
            "cosine": found.numpy().astype(np.float64).ravel(),
            "limit": np.tile([limit_cosine(int(one), branch) for one in layers], settings.draws),
        }
    )


def residual_verdicts(
    frame: pd.DataFrame, settings: ResidualSettings, law: str, rng: np.random.Generator
) -> list[Verdict]:
    """Return the exponent in depth of the last layer's cosine, for every branch."""
    verdicts = []
    last = frame[frame["layer"] == frame["depth"]]
    for (branch, part), (_, power) in zip(
        last.groupby("branch", sort=False), settings.branches, strict=True
    ):
        deepest = part[part["depth"] == part["depth"].max()]
        cosine, limit = deepest["cosine"].mean(), deepest["limit"].iloc[0]
        verdicts.append(
            depth_exponent(
                part, "cosine", rng, law=law, width=settings.width,
                quantity=f"exponent of the alignment in depth, as published, b = {branch}",
                paper=0.0 if power == -0.5 else None,
                text=f"cosine {cosine:.3f} at L = {deepest['depth'].iloc[0]}, {limit:.3f} at "
                "infinite width, ours",
                settings="first layer fixed, linear readout",
            )
        )  # fmt: skip
    return verdicts
