"""Compare rankings of cells by bf16 and float32 in the same trials, on digits or other images.

Run: ``experiments/checks/precision.py [--dataset cifar10-jpeg16 --epochs 5]``. REBENCH_DATA names
the folder of images that are not part of the package. The script compares the accuracies of all
cells between two seeds of one precision, and between two precisions of one seed. It reports
Kendall's tau and the mean difference. bf16 is sufficient if its effect is smaller than that of a
change of the seed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2]))

from rebench.data import load_data
from rebench.runs import Protocol, Skeleton
from rebench.train import train
from scripts.bench.results_file import CHECKS, publish, scaled, trials_of

# The first twelve cells of the learning-rate surface (`experiments/surface/mini.toml`).
CELLS = "102,326,379,695,1049,1062,1335,1696,1739,1792,1969,2238"
SEEDS = (777, 888, 999)


def accuracies(
    dataset: str, cells: list[int], epochs: int, precision: str
) -> tuple[NDArray[np.float64], float]:
    """Return the last accuracies, [cells, seeds], in percent, and the CPU seconds."""
    data, began = load_data(dataset), time.process_time()
    rows = []
    small = Skeleton(channels=8, cells_per_stage=1)
    protocol = Protocol(batch_size=64, precision=precision)
    for cell in cells:
        trials = trials_of(cell, dataset, SEEDS, epochs=epochs, skeleton=small, protocol=protocol)
        records = train(trials, data, stack=len(trials))
        rows.append([record.final("ori-test")[0] for record in records])
    return np.array(rows, dtype=np.float64), time.process_time() - began


def compared(
    what: str, pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> dict[str, Any]:
    """Compare the rankings of the two columns of each pair, and their differences."""
    taus = [float(stats.kendalltau(first, second).statistic) for first, second in pairs]
    gaps = np.concatenate([second - first for first, second in pairs])
    return {
        "compared": what,
        "tau": round(statistics.mean(taus), 3),
        "lowest tau": round(min(taus), 3),
        "points apart": round(float(np.abs(gaps).mean()), 2),
        "mean difference": round(float(gaps.mean()), 2),
    }


def main() -> None:
    """Train all cells in both precisions and publish the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--epochs", type=int, default=scaled(12))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cells = list(map(int, asked.cells.split(",")))
    single, single_s = accuracies(asked.dataset, cells, asked.epochs, "float32")
    half, half_s = accuracies(asked.dataset, cells, asked.epochs, "bf16")
    seeds = list(itertools.combinations(range(len(SEEDS)), 2))
    difference = half.mean(1) - single.mean(1)
    low, high = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
    publish(
        f"precision-{asked.dataset}-{asked.epochs}",
        [
            compared("float32, two seeds", [(single[:, a], single[:, b]) for a, b in seeds]),
            compared("bf16, two seeds", [(half[:, a], half[:, b]) for a, b in seeds]),
            compared("float32 and bf16, one seed", list(zip(single.T, half.T, strict=True))),
            compared("float32 and bf16, means of seeds", [(single.mean(1), half.mean(1))]),
        ],
        folder=CHECKS,
        dataset=asked.dataset,
        cells=cells,
        seeds=SEEDS,
        epochs=asked.epochs,
        float32=single.round(2).tolist(),
        bf16=half.round(2).tolist(),
        difference_95=[round(float(low), 2), round(float(high), 2)],
        float32_cpu_s=round(single_s, 1),
        bf16_cpu_s=round(half_s, 1),
    )


if __name__ == "__main__":
    main()
