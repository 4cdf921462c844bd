"""Maximal rates of many cells with batch normalisation, compared with the rules for the rate.

Figure 4 of Chen et al. sets every cell's rate by equation 8, and shows no maximal rate of a cell.
This module searches for maximal rates by one epoch at every rate. It compares them with every rule
and a constant. All rates of a cell train as one stacked network from one init. Full settings take
hours on a processor. Finished cells are kept, so an interrupted run resumes.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cells import Cell, moment
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import RateGrid, search_rates, search_seed, summarise
from experiments.laws.result import Measured
from experiments.laws.scores import PERFECT, rule_verdict, score_experiment
from rebench.nets import TinyNet
from rebench.recipes import make_recipe
from rebench.recipes.init import he_init, initialise
from rebench.recipes.one_step import movement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellNetwork(RateGrid):
    """Settings of a cell's small network, trained for an epoch of plain SGD at every rate."""

    channels: int = 8
    cells_per_stage: int = 1
    side: int = 16
    steps: int = 96
    batch_size: int = 128
    lowest_lr: float = 0.02
    n_lrs: int = 12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings:
    """Number of cells, their network and their training data."""

    cells: int = 120
    network: CellNetwork = dataclasses.field(default_factory=CellNetwork)
    dataset: str | None = None
    data_root: Path | None = None
    device: str = "cpu"
    seed: int = 0


def measure(settings: CellSettings, pieces: Pieces) -> Measured:
    """Measure the maximal rates of cells, and score every rule on them."""
    images = load_small_images(settings.dataset, settings.data_root, limit=None)
    network = settings.network
    images = images.on(settings.device).pooled(network.side)
    frame = measure_cells(settings, images, pieces)
    scores = score_experiment(frame, np.random.default_rng(settings.seed))
    steps = network.within(len(images.labels)).steps
    verdicts = [
        rule_verdict(
            rule=rule, scores=scores, cells=len(frame), dataset=images.name, n=network, steps=steps
        )
        for rule in scores["predictor"]
        if rule not in ("constant", PERFECT)
    ]
    return {"rates": frame, "predictors": scores}, verdicts


def sample_cells(count: int, seed: int) -> list[Cell]:
    """Draw cells with a convolution on some path, uniform over the space."""
    rng = np.random.default_rng(seed)
    drawn: list[Cell] = []
    while len(drawn) < count:
        cell = Cell.from_index(int(rng.integers(15_625)))
        if any(cell.depth_polynomial()[1:]) and cell not in drawn:
            drawn.append(cell)
    return drawn


def measure_cells(settings: CellSettings, images: SmallImages, pieces: Pieces) -> pd.DataFrame:
    """Return one row per cell, like `graph_rates.measure_experiment` per graph."""
    cells = sample_cells(settings.cells, settings.seed)
    cases = [{"index": cell.index} for cell in cells]
    shared = {"network": settings.network, "images": images, "seed": settings.seed}
    searches = pieces.map("cell", search_cell, cases, **shared)
    steps = pieces.map("cell-step", one_step_movements, cases, **shared)
    rows = [
        {"experiment": "cells", "dataset": images.name, "code": str(cell.index), "kernel": 3,
         "paths": cell.n_paths, **summarise(searched), **_predictions(cell, settings.network),
         "one step": float(moved["movement"].mean()) ** -0.5, "constant": 1.0}
        for cell, searched, moved in zip(cells, searches, steps, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _predictions(cell: Cell, network: CellNetwork) -> dict[str, float]:
    cell_level = cell.depth_polynomial()
    whole = cell.network_polynomial(network.cells_per_stage)
    return {
        "eq. 8, L": moment(cell_level, 3) ** -0.5,
        "eq. 8, L+1": moment(cell_level, 3, 1) ** -0.5,
        "eq. 8, whole network": moment(whole, 3) ** -0.5,
        "path count": sum(cell_level) ** -0.5,
        "exact recursion": make_recipe("topology-exact").hyperparameters(cell).learning_rate,
    }


def search_cell(index: int, network: CellNetwork, images: SmallImages, seed: int) -> pd.DataFrame:
    """Train a cell's network for one epoch at every rate; see `search_rates`."""

    def build(generator: torch.Generator) -> tuple[TinyNet, dict[str, float]]:
        return draw_cell(index, network, generator, images.classes), {}

    grid = network.within(len(images.labels))
    return search_rates(build, images.pixels.expand(-1, 3, -1, -1), images.labels, grid, seed)


def draw_cell(
    index: int,
    network: CellNetwork,
    generator: torch.Generator,
    classes: int = 10,
    dtype: torch.dtype = torch.float32,
) -> TinyNet:
    """Return a cell's network in training mode, with every weight N(0, 2 / fan_in)."""
    sizes = {"channels": network.channels, "cells_per_stage": network.cells_per_stage}
    net = TinyNet(Cell.from_index(index), classes=classes, **sizes).to(dtype)
    initialise(net, {layer.name: he_init(layer) for layer in net.weight_layers()}, generator)
    return net.train()


def one_step_movements(
    index: int, network: CellNetwork, images: SmallImages, seed: int
) -> pd.DataFrame:
    """Return the change of each seed's network by one step at rate 1, by `movement`.

    The networks are those of the search; the batch is the first batch of their epoch.
    """
    rows = []
    for run in range(network.seeds):
        generator = torch.Generator().manual_seed(search_seed(seed, run))
        net = draw_cell(index, network, generator, images.classes).to(images.pixels.device)
        batch = torch.randperm(len(images.pixels), generator=generator)[: network.batch_size]
        pixels = images.pixels[batch].expand(-1, 3, -1, -1)
        moved = movement(net, pixels, images.labels[batch])
        rows.append({"seed": run, "movement": moved})
    return pd.DataFrame(rows)
