"""Find the settings in which gradient norm and SNIP rank cells as published.

Run: ``experiments/checks/proxies.py --benchmark CSV --data-root FOLDER`` (CSV: 200-epoch means of
all cells; FOLDER: CIFAR-10). Each run changes one setting. The script prints Spearman's correlation
with the final accuracy on a random sample of cells, with its interval, next to the published value
(all cells, 16 channels, 5 cells a stage, batch 64). A cell has the same random seed in all
settings, so differences come only from the settings.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from cells import Cell
from rebench.nets import TinyNet, untrained
from rebench.search.proxies import image_batch, init_seed, rank_correlation
from rebench.tables import open_table
from scripts.bench.results_file import CHECKS, publish, scaled

Measure = Callable[[list[untrained.Pair]], float]

MEASURES: dict[str, Measure] = {
    "grad-norm": untrained.grad_norm_of,
    "snip": untrained.snip_of,
    "grad-norm, one norm over all layers": lambda pairs: float(
        sum(float(grad.norm()) ** 2 for _, grad in pairs) ** 0.5
    ),
    "snip, mean over weights": lambda pairs: (
        untrained.snip_of(pairs) / sum(weight.numel() for weight, _ in pairs)
    ),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of the networks and of their input."""

    name: str
    channels: int = 16
    cells_per_stage: int = 5
    images: int = 64
    side: int = 32
    noise: bool = False
    evaluation: bool = False
    init: str = "torch"


FULL = Setting(name="base")
SMALL = replace(FULL, channels=8, images=16)
SETTINGS = (
    SMALL,
    replace(SMALL, name="1 cell a stage", cells_per_stage=1),
    replace(SMALL, name="3 cells a stage", cells_per_stage=3),
    replace(SMALL, name="batch norm in evaluation", evaluation=True),
    replace(SMALL, name="Kaiming's init", init="kaiming"),
    replace(SMALL, name="noise for images", noise=True),
    replace(SMALL, name="16 x 16 pixels", side=16),
    replace(SMALL, name="4 channels", channels=4),
    FULL,
    replace(FULL, name="1 cell a stage", cells_per_stage=1),
)


def scores(
    setting: Setting, indices: list[int], images: torch.Tensor, labels: torch.Tensor, seed: int
) -> dict[str, list[float]]:
    """Return every measure of every cell."""
    batch, classes = images[: setting.images], labels[: setting.images]
    if setting.noise:
        batch = torch.randn(batch.shape, generator=torch.Generator().manual_seed(seed))
    if setting.side < batch.shape[-1]:
        batch = torch.nn.functional.adaptive_avg_pool2d(batch, setting.side)
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for index in indices:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(init_seed(seed, index))
            net = TinyNet(
                Cell.from_index(index),
                channels=setting.channels,
                cells_per_stage=setting.cells_per_stage,
            )
            if setting.init == "kaiming":
                for layer in net.weight_layers():
                    torch.nn.init.kaiming_normal_(layer.weight)
        net.train(not setting.evaluation)
        pairs = untrained.layer_gradients(net, batch, classes)
        for name, measure in MEASURES.items():
            found[name].append(measure(pairs))
    return found


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--cells", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    final = open_table(asked.benchmark).means("cifar10", "ori-test").to_numpy()
    rng = np.random.default_rng(asked.seed)
    indices = np.sort(rng.choice(len(final), asked.cells, replace=False)).tolist()
    images, labels = image_batch("cifar10", FULL.images, seed=asked.seed, root=asked.data_root)
    rows = []
    for setting in SETTINGS[: scaled(len(SETTINGS), 2)]:
        start = time.process_time()
        found = scores(setting, indices, images, labels, asked.seed)
        spent = (time.process_time() - start) / len(indices)
        for name, values in found.items():
            fit = rank_correlation(values, final[indices])
            rows.append(
                {
                    "setting": setting.name,
                    "channels": setting.channels,
                    "cells_per_stage": setting.cells_per_stage,
                    "images": setting.images,
                    "measure": name,
                    "spearman": fit["spearman"],
                    "low": fit["low"],
                    "high": fit["high"],
                    "kendall": fit["kendall"],
                    "s_per_cell": spent,
                }
            )
        publish("proxies", rows, folder=CHECKS, cells=asked.cells, seed=asked.seed)


if __name__ == "__main__":
    main()
