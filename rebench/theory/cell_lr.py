"""Maximal learning rates of NAS-Bench-201 cells with batch normalisation, which the paper omits.

All learning rates of a cell train as one stacked network from one init.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import Cell, depth_polynomial, network_polynomial
from rebench.nets import Stacked, TinyNet
from rebench.recipes import make_recipe
from rebench.theory.frames import make_frame
from rebench.theory.images import SmallImages
from rebench.theory.one_epoch import maximal_lrs
from rebench.theory.pieces import Pieces

__all__ = ["CellSettings", "measure_cells", "sample_cells", "search_cell"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings:
    """A small network of every cell, trained for an epoch of plain SGD at every rate."""

    cells: int = 24
    channels: int = 8
    cells_per_stage: int = 1
    side: int = 16
    batch_size: int = 64
    steps: int = 32
    lowest_lr: float = 0.02
    highest_lr: float = 10.0
    n_lrs: int = 12
    seeds: int = 3


def sample_cells(count: int, seed: int) -> list[Cell]:
    """Draw cells of which some path has a convolution, uniform over the space."""
    rng = np.random.default_rng(seed)
    found: list[Cell] = []
    while len(found) < count:
        cell = Cell.from_index(int(rng.integers(15_625)))
        if any(depth_polynomial(cell)[1:]) and cell not in found:
            found.append(cell)
    return found


def measure_cells(
    settings: CellSettings, images: SmallImages, pieces: Pieces, seed: int
) -> pd.DataFrame:
    """Return one row per cell, as `max_lr.measure_experiment` does per graph."""
    images = images.pooled(min(settings.side, images.pixels.shape[-1]))
    pieces.expect(settings.cells)
    rows = []
    for cell in sample_cells(settings.cells, seed):
        searched = pieces.get(
            "cell",
            {**dataclasses.asdict(settings), "index": cell.index, "data": images.name,
             "seed": seed},
            lambda c=cell: search_cell(c, settings, images, seed),  # type: ignore[misc]
        )  # fmt: skip
        rates, final = maximal_lrs(searched), maximal_lrs(searched, "final_loss")
        rows.append(
            {
                "experiment": "cells",
                "dataset": images.name,
                "code": str(cell.index),
                "kernel": 3,
                "paths": sum(depth_polynomial(cell)),
                "measured": float(np.exp(np.log(rates).mean())),
                "spread": float(np.exp(np.log(rates).std())),
                "measured_final": float(np.exp(np.log(final).mean())),
                **_predictions(cell, settings),
            }
        )
    return make_frame(rows)


def _predictions(cell: Cell, settings: CellSettings) -> dict[str, float]:
    cell_level, network = depth_polynomial(cell), network_polynomial(cell, settings.cells_per_stage)
    exact = make_recipe("topology-exact").hyperparameters(cell, "cifar10").learning_rate
    return {
        "eq. 8, L": _moment(cell_level, 0) ** -0.5,
        "eq. 8, L+1": _moment(cell_level, 1) ** -0.5,
        "eq. 8, whole network": _moment(network, 0) ** -0.5,
        "path count": sum(cell_level) ** -0.5,
        "exact recursion": exact,
        "constant": 1.0,
    }


def _moment(polynomial: tuple[int, ...], offset: int) -> float:
    return float(sum(count * (depth + offset) ** 3 for depth, count in enumerate(polynomial)))


def search_cell(cell: Cell, settings: CellSettings, images: SmallImages, seed: int) -> pd.DataFrame:
    """Train every learning rate for one epoch; columns as `one_epoch.search_graph`'s."""
    steps = min(settings.steps, len(images.labels) // settings.batch_size)
    rates = np.geomspace(settings.lowest_lr, settings.highest_lr, settings.n_lrs)
    rows = []
    for run in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed * 1000 + run)
        net = TinyNet(
            cell, channels=settings.channels, cells_per_stage=settings.cells_per_stage, classes=10
        )
        _draw_weights(net, generator)
        order = torch.randperm(len(images.labels), generator=generator)
        losses = _train(net, images, order[: steps * settings.batch_size].view(steps, -1), rates)
        tail = max(1, steps // 8)
        for rate, curve in zip(rates, losses.T, strict=True):
            rows.append(
                {"learning_rate": float(rate), "seed": run, "loss": float(curve.mean()),
                 "final_loss": float(curve[-tail:].mean())}
            )  # fmt: skip
    return make_frame(rows)


def _draw_weights(net: TinyNet, generator: torch.Generator) -> None:
    for layer in net.weight_layers():
        with torch.no_grad():
            layer.weight.normal_(0.0, math.sqrt(2 / layer.fan_in), generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()


def _train(
    net: TinyNet, images: SmallImages, batches: torch.Tensor, rates: np.ndarray
) -> np.ndarray:
    stacked = Stacked.from_nets([net] * len(rates)).train()
    parameters = list(stacked.parameters())
    steps = torch.from_numpy(rates).float()
    curves = []
    for batch in batches:
        pixels = images.pixels[batch].expand(-1, 3, -1, -1)
        logits = stacked.forward(pixels)
        target = images.labels[batch].expand(len(rates), -1)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        per_copy = loss.view(len(rates), -1).mean(1)
        gradients = torch.autograd.grad(per_copy.sum(), parameters)
        with torch.no_grad():
            for weight, gradient in zip(parameters, gradients, strict=True):
                weight.sub_(steps.view(-1, *[1] * (weight.dim() - 1)) * gradient)
        curves.append(per_copy.detach())
    losses = torch.stack(curves).double().numpy()
    return np.where(np.isfinite(losses), losses, np.inf)
