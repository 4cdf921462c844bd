"""Compare our training curves with the benchmark's own, for its cells and protocol.

Run: ``experiments/checks/published.py --benchmark FOLDER --data-root FOLDER [--cells 0,11]
[--epochs 12] [--split valid] [--device cuda]``. The benchmark's FOLDER contains NATS-Bench's files
of the cells. Recipe `nb201` trains the cells in the benchmark's skeleton. The script publishes both
sets of curves. An interrupted run resumes from its checkpoints. The default `cifar10-jpeg` is
CIFAR-10 coded as JPEG. To measure the effect of JPEG, train on the lossless images
(``--dataset cifar10``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from rebench.data import data_spec
from rebench.nats.ingest import ingest
from rebench.runs import Record, Skeleton
from rebench.tables import open_table
from rebench.train import EpochReport, train
from scripts.bench.results_file import CHECKS, PROJECT, publish, trials_of


def published_curves(
    folder: Path, cell: int, dataset: str, epochs: int
) -> dict[str, dict[int, np.ndarray]]:
    """Return the published accuracies after every epoch: split -> seed -> [epochs]."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "benchmark.parquet"
        ingest(folder, path)
        curves = open_table(path).curves(cell)
    found: dict[str, dict[int, np.ndarray]] = {}
    for (key, seed), curve in curves.items():
        if (key.dataset, key.epochs) == (dataset, epochs):
            found.setdefault(key.split, {})[seed] = curve.accuracy
    if not found:
        sys.exit(f"{folder} has no curves of cell {cell} on {dataset} after {epochs} epochs")
    return found


def beside(
    cell: int, records: list[Record], published: dict[str, dict[int, np.ndarray]]
) -> list[dict[str, object]]:
    """Return a row per split and epoch: both means, their difference, the published spread."""
    rows: list[dict[str, object]] = []
    for split, theirs in published.items():
        ours = np.array([record.outcome.curves[split].accuracy for record in records], dtype=float)
        known = np.array(list(theirs.values()))
        rows += [
            {
                "cell": cell,
                "split": split,
                "epoch": epoch + 1,
                "ours": round(float(ours[:, epoch].mean()), 2),
                "published": round(float(known[:, epoch].mean()), 2),
                "difference": round(float(ours[:, epoch].mean() - known[:, epoch].mean()), 2),
                "our_seeds": " ".join(f"{value:.2f}" for value in ours[:, epoch]),
                "published_seeds": " ".join(f"{value:.2f}" for value in known[:, epoch]),
            }
            for epoch in range(known.shape[1])
        ]
    return rows


def main() -> None:
    """Train, compare and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", type=Path, required=True)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--cells", default="0")
    parser.add_argument("--dataset", default="cifar10-jpeg")
    parser.add_argument("--split", default="valid", choices=["full", "valid"])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", default="777,111")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--cells-per-stage", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoints", type=Path, default=PROJECT / "runs/published")
    asked = parser.parse_args()
    split = data_spec(asked.dataset).valid_split if asked.split == "valid" else "full"
    theirs = "cifar10-valid" if asked.split == "valid" else "cifar10"
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    skeleton = Skeleton(channels=asked.channels, cells_per_stage=asked.cells_per_stage)
    settings = {"split": split, "epochs": asked.epochs, "skeleton": skeleton}
    rows: list[dict[str, object]] = []
    for cell in map(int, asked.cells.split(",")):
        published = published_curves(asked.benchmark, cell, theirs, asked.epochs)
        records = train(
            trials_of(cell, asked.dataset, seeds, **settings),
            device=asked.device,
            data_root=asked.data_root,
            checkpoint_dir=asked.checkpoints,
            stack=1,
            on_epoch=tell,
        )
        rows += beside(cell, records, published)
    name = f"published-{asked.dataset}-{asked.split}-{asked.epochs}"
    publish(
        name, rows, folder=CHECKS, device=asked.device, channels=asked.channels, seeds=asked.seeds
    )


def tell(report: EpochReport) -> None:
    """Print the progress of a training."""
    print(report.line, flush=True)


if __name__ == "__main__":
    main()
