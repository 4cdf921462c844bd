"""Maximal learning rates of NAS-Bench-201 cells with batch normalisation, which the paper omits.

All learning rates of a cell train as one stacked network from one init.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import torch

from cells import Cell, moment
from rebench.nets import TinyNet
from rebench.recipes import make_recipe
from rebench.recipes.init import he_init
from rebench.recipes.one_step import movement
from rebench.theory.images import SmallImages
from rebench.theory.pieces import Piece, Pieces, Setting
from rebench.theory.rate_search import RateGrid, search_rates, search_seed, summarise

__all__ = [
    "CellSettings",
    "draw_cell",
    "measure_cells",
    "one_step_movements",
    "sample_cells",
    "search_cell",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings:
    """A small network of every cell, trained for an epoch of plain SGD at every rate."""

    cells: int = 20
    channels: int = 8
    cells_per_stage: int = 1
    side: int = 8
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
        if any(cell.depth_polynomial()[1:]) and cell not in found:
            found.append(cell)
    return found


def measure_cells(
    settings: CellSettings, images: SmallImages, pieces: Pieces, seed: int
) -> pd.DataFrame:
    """Return one row per cell, as `rate_experiments.measure_experiment` does per graph."""
    images = images.pooled(min(settings.side, images.pixels.shape[-1]))
    pieces.expect(2 * settings.cells)
    cells = sample_cells(settings.cells, seed)
    shared: dict[str, Setting] = {**dataclasses.asdict(settings), "data": images.name, "seed": seed}
    del shared["cells"]  # how many there are does not change any
    if images.classes != 10:
        shared["classes"] = images.classes
    frames = pieces.get(
        [
            Piece(
                kind=kind,
                settings={**shared, "index": cell.index},
                compute=partial(measure, cell, settings, images, seed),
            )
            for kind, measure in (("cell", search_cell), ("cell-step", one_step_movements))
            for cell in cells
        ]
    )
    rows = []
    for cell, searched, moved in zip(cells, frames, frames[len(cells) :], strict=False):
        rows.append(
            {
                "experiment": "cells",
                "dataset": images.name,
                "code": str(cell.index),
                "kernel": 3,
                "paths": cell.n_paths,
                **summarise(searched),
                **_predictions(cell, settings),
                "one step": float(moved["movement"].mean()) ** -0.5,
                "constant": 1.0,
            }
        )
    return pd.DataFrame(rows)


def _predictions(cell: Cell, settings: CellSettings) -> dict[str, float]:
    cell_level = cell.depth_polynomial()
    network = cell.network_polynomial(settings.cells_per_stage)
    exact = make_recipe("topology-exact").hyperparameters(cell).learning_rate
    return {
        "eq. 8, L": moment(cell_level, 3) ** -0.5,
        "eq. 8, L+1": moment(cell_level, 3, 1) ** -0.5,
        "eq. 8, whole network": moment(network, 3) ** -0.5,
        "path count": sum(cell_level) ** -0.5,
        "exact recursion": exact,
    }


def search_cell(cell: Cell, settings: CellSettings, images: SmallImages, seed: int) -> pd.DataFrame:
    """Train a cell's network for one epoch at every rate; see `search_rates`."""
    steps = min(settings.steps, len(images.labels) // settings.batch_size)
    grid = RateGrid(
        lowest=settings.lowest_lr, highest=settings.highest_lr, count=settings.n_lrs, steps=steps,
        batch_size=settings.batch_size, seeds=settings.seeds,
    )  # fmt: skip

    def build(generator: torch.Generator) -> tuple[TinyNet, dict[str, float]]:
        return draw_cell(cell, settings, generator, images.classes), {}

    pixels = images.pixels.expand(-1, 3, -1, -1)
    return search_rates(build, pixels, images.labels, grid, seed)


def draw_cell(
    cell: Cell, settings: CellSettings, generator: torch.Generator, classes: int = 10
) -> TinyNet:
    """Return a cell's network, every weight N(0, 2 / fan_in)."""
    net = TinyNet(
        cell, channels=settings.channels, cells_per_stage=settings.cells_per_stage, classes=classes
    )
    for layer in net.weight_layers():
        with torch.no_grad():
            layer.weight.normal_(0.0, he_init(layer).std, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
    return net


def one_step_movements(
    cell: Cell, settings: CellSettings, images: SmallImages, seed: int
) -> pd.DataFrame:
    """Return how far one step at rate 1 moves each seed's network: the recipe's `movement`.

    The networks are the searched ones, the batch is the first of their epoch.
    """
    rows = []
    for run in range(settings.seeds):
        generator = torch.Generator().manual_seed(search_seed(seed, run))
        net = draw_cell(cell, settings, generator, images.classes).to(images.pixels.device)
        batch = torch.randperm(len(images.pixels), generator=generator)[: settings.batch_size]
        pixels = images.pixels[batch].expand(-1, 3, -1, -1)
        moved = movement(net, pixels, images.labels[batch])
        rows.append({"seed": run, "movement": moved})
    return pd.DataFrame(rows)
