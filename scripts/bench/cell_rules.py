"""Hold the rules for cells against one measured step: correlation, slope, distance.

Run: ``python scripts/bench/cell_rules.py``. Random cells with a path, PyTorch's default init, batch
normalisation on: the logarithm of the measured learning rate (recipe `one-step`, mean of two draws)
against that of every rule, each relative to the base cell.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import numpy as np
import torch
from scipy import stats

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from results_file import publish  # noqa: E402 - after the path

from cells import Cell  # noqa: E402 - after the path
from rebench.data import BatchSource, load_data  # noqa: E402 - after the path
from rebench.datasets import data_spec  # noqa: E402 - after the path
from rebench.nets import TinyNet  # noqa: E402 - after the path
from rebench.recipes import BASE_CODE, make_recipe  # noqa: E402 - after the path
from rebench.recipes.one_step import movement  # noqa: E402 - after the path
from rebench.recipes.recursion import Graphs, exact_update  # noqa: E402 - after the path

CELLS, DRAWS, CHANNELS, BATCH = 60, 2, 8, 64
BASE = Cell.parse(BASE_CODE)


def measured_log_rate(cell: Cell, cells_per_stage: int, draws: int) -> float:
    """Return the logarithm of the rate at which a step moves the network by 1, over draws."""
    logs = []
    for seed in range(draws):
        net = TinyNet(cell, channels=CHANNELS, cells_per_stage=cells_per_stage)
        make_recipe("nb201").apply_init(net, cell, torch.Generator().manual_seed(seed))
        logs.append(-0.5 * math.log(movement(net, IMAGES, LABELS)))
    return sum(logs) / draws


def recursion_log_rates(cells: list[Cell]) -> np.ndarray:
    """Return what the recursion says with PyTorch's init, of variance 1 / (3 fan_in)."""
    graphs = Graphs.of([*cells, BASE])
    gains = np.full(graphs.layers.shape, 1 / 3)
    rates = np.log(exact_update(graphs, gains, batch_norm=True).learning_rate)
    return rates[:-1] - rates[-1]


def main() -> None:
    """Print the table and write it."""
    drawn = random.Random(0)  # noqa: S311 - a sample, no secret
    cells = [Cell.from_index(drawn.randrange(15625)) for _ in range(CELLS + 20)]
    cells = [cell for cell in cells if cell.n_paths][:CELLS]
    predictions = {
        name: np.log(
            [make_recipe(name, base_lr=1.0).hyperparameters(c).learning_rate for c in cells]
        )
        for name in ("topology", "paths", "topology-exact")
    }
    predictions["recursion, default init"] = recursion_log_rates(cells)
    rows = []
    for stage in (1, 3):
        base = measured_log_rate(BASE, stage, 2 * DRAWS)
        measured = np.array([measured_log_rate(cell, stage, DRAWS) - base for cell in cells])
        for name, predicted in predictions.items():
            row = {
                "cells_per_stage": stage,
                "rule": name,
                "pearson": float(stats.pearsonr(predicted, measured)[0]),
                "spearman": float(stats.spearmanr(predicted, measured)[0]),
                "slope": float(np.polyfit(predicted, measured, 1)[0]),
                "rms_log_distance": float(np.sqrt(np.mean((predicted - measured) ** 2))),
            }
            rows.append(row)
    publish("cell_rules", rows)


SOURCE = BatchSource(
    load_data("digits").train, data_spec("digits"), device="cpu", channels_last=False
)
IMAGES, LABELS = next(SOURCE.epoch([0], 0, BATCH, augment=False))
LABELS = LABELS[0]

if __name__ == "__main__":
    main()
