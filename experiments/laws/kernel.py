"""How the maximal learning rate of a CNN falls with its kernel: by patch length, or patch area?

Chen et al. (2024) divide the rate by q, the number of positions a kernel covers; their released
code takes its side instead. A correlation cannot tell the powers apart, the slope can.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import torch

from experiments.laws.conv_step import ConvNetwork, sample_conv_updates
from experiments.laws.estimate import fit_exponent
from experiments.laws.pieces import Pieces

# dimensions, padding, the exponent of the kernel's side that the patch count implies
KERNEL_CASES = (
    (1, "circular", -1.0),
    (1, "zeros", -1.0),
    (2, "circular", -2.0),
    (2, "zeros", -2.0),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Chains of convolutions on white noise, one step, first order."""

    kernels: tuple[int, ...] = (1, 3, 5, 7)
    depth: int = 4
    channels: int = 24
    side: int = 14
    draws: int = 60
    seed: int = 0


def measure_kernel_slopes(settings: KernelSettings, pieces: Pieces) -> pd.DataFrame:
    """The exponent of the kernel's side, with its interval, for every case."""
    rng = np.random.default_rng(settings.seed)
    cases = [{"dimensions": dims, "padding": padding} for dims, padding, _ in KERNEL_CASES]
    frames = pieces.map("kernel", _sample, cases, settings=settings)
    rows = []
    for (dimensions, padding, expected), frame in zip(KERNEL_CASES, frames, strict=True):
        samples = [
            frame.loc[frame["kernel"] == kernel, "update"].to_numpy() for kernel in settings.kernels
        ]
        slope = fit_exponent(settings.kernels, samples, -0.5, rng)
        rows.append(
            {"dimensions": dimensions, "padding": padding, "exponent": slope.value,
             "low": slope.low, "high": slope.high, "by_area": expected, "by_side": -1.0}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _sample(dimensions: int, padding: str, settings: KernelSettings) -> pd.DataFrame:
    side = settings.side if dimensions == 2 else settings.side**2
    rows = []
    for kernel in settings.kernels:
        generator = torch.Generator().manual_seed(settings.seed * 1009 + kernel)
        network = ConvNetwork(
            depth=settings.depth, channels=settings.channels, kernel=kernel,
            dimensions=dimensions, side=side, padding=padding,
        )  # fmt: skip
        updates = sample_conv_updates(network, draws=settings.draws, generator=generator)
        rows += [{"kernel": kernel, "update": value} for value in updates[:, -1].tolist()]
    return pd.DataFrame(rows)
