"""Does our trainer learn what the benchmark's own loop learns? Same images, several seeds each.

Run: ``python scripts/bench/learning.py`` for a narrow network in minutes, ``--channels 16
--cells-per-stage 5`` for the benchmark's own. The loops draw different numbers, so single runs
differ; what is compared is the mean over seeds, by Welch's interval. bf16 is held against float32
the same way: ``--bf16 284``; on a CPU without bf16 arithmetic that takes several times as long.
A difference that stands out is to be tried on fresh seeds: ``--first-seed 6`` writes another file.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from scipy import stats

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from reference_loop import reference_epochs  # noqa: E402 - after the path
from results_file import publish  # noqa: E402 - after the path

from rebench.data import TrainingData, load_data  # noqa: E402 - after the path
from rebench.sweep import Protocol, RecipeSpec, Skeleton, Trial  # noqa: E402 - after the path
from rebench.train import train  # noqa: E402 - after the path


def reference_accuracies(trials: list[Trial], data: TrainingData, device: str) -> list[float]:
    """Return the last epoch's test accuracy of every trial in the benchmark's own loop."""
    accuracies = []
    for trial in trials:
        *_, last = reference_epochs(trial, data, torch.device(device), workers=0)
        accuracies.append(last["test_accuracy"])
    return accuracies


def our_accuracies(trials: list[Trial], data: TrainingData, device: str) -> list[float]:
    """Return the last epoch's test accuracy of every trial in ours, stacked."""
    records = train(trials, data, device, stack=len(trials))
    return [record.final("ori-test")[0] or float("nan") for record in records]


def compare(first: list[float], second: list[float]) -> dict[str, float]:
    """Return the difference of the means with its 95 % interval and Welch's p-value."""
    test = stats.ttest_ind(second, first, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return {
        "difference": round(statistics.mean(second) - statistics.mean(first), 2),
        "low_95": round(float(low), 2),
        "high_95": round(float(high), 2),
        "p": round(float(test.pvalue), 3),
    }


def main() -> None:
    """Train every contender and publish the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cifar10", help="cifar10 reads the small real subset")
    parser.add_argument("--data-root", default=str(PROJECT.parent / "shared/data/cifar10-mini"))
    parser.add_argument("--cells", default="11,284")
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--cells-per-stage", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--bf16", default="", help="cells that ours trains in bf16 as well")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    data = load_data(asked.dataset, root=asked.data_root)
    rows = []
    for cell in map(int, asked.cells.split(",")):

        def trials(precision: str, cell: int = cell) -> list[Trial]:
            return [
                Trial(
                    cell=cell,
                    dataset=asked.dataset,
                    recipe=RecipeSpec(name="nb201"),
                    seed=seed,
                    epochs=asked.epochs,
                    skeleton=Skeleton(
                        channels=asked.channels, cells_per_stage=asked.cells_per_stage
                    ),
                    protocol=Protocol(batch_size=asked.batch, precision=precision),
                )
                for seed in range(asked.first_seed, asked.first_seed + asked.seeds)
            ]

        began = time.perf_counter()
        theirs = reference_accuracies(trials("float32"), data, asked.device)
        between = time.perf_counter()
        found = {"ours float32": our_accuracies(trials("float32"), data, asked.device)}
        ended = time.perf_counter()
        if str(cell) in asked.bf16.split(","):
            found["ours bf16"] = our_accuracies(trials("bf16"), data, asked.device)
        for name, accuracies in found.items():
            rows.append(
                {
                    "cell": cell,
                    "contender": name,
                    "reference": " ".join(f"{value:.2f}" for value in theirs),
                    "ours": " ".join(f"{value:.2f}" for value in accuracies),
                    **compare(theirs, accuracies),
                    "reference_s": round(between - began, 1),
                    "ours_s": round(ended - between, 1),
                }
            )
            print(rows[-1], file=sys.stderr)
    fresh = f"-from{asked.first_seed}" if asked.first_seed else ""
    publish(
        f"learning-C{asked.channels}-N{asked.cells_per_stage}{fresh}",
        rows,
        device=asked.device,
        dataset=asked.dataset,
        images=len(data.train),
        epochs=asked.epochs,
        batch=asked.batch,
        seeds=asked.seeds,
        notes=list(data.notes),
    )


if __name__ == "__main__":
    main()
