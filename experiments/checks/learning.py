"""Compare the accuracy of our trainer with that of the benchmark's own loop on the same images.

Run: ``experiments/checks/learning.py`` for a narrow network in minutes, ``--channels 16
--cells-per-stage 5`` for the benchmark's own. The loops draw different random numbers, so single
runs differ. The script compares means over seeds by Welch's interval. ``--compare float32,bf16``
compares two precisions of ours in the same way; a CPU without bf16 arithmetic needs several times
longer. Repeat a surprising difference on new seeds: ``--first-seed 6`` writes another file.

``--progress FILE`` keeps finished trials, which are not trained again. ``--only CONTENDER`` trains
one side of the comparison, so that both sides can run at the same time. Results are shown only
after all seeds of both sides are finished, so that the comparison is tested once.

The plan for cell 284 was written before its seeds were trained: ``--cells 284 --first-seed 1000
--seeds 60``, one test. The loops differ if Welch's 95 % interval excludes 0. The 28 earlier seeds
of this cell are not pooled with these.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2]))

from rebench.data import TrainingData, load_data
from rebench.runs import Protocol, Skeleton, Trial
from rebench.train import train
from scripts.bench.reference_loop import reference_epochs
from scripts.bench.results_file import CHECKS, publish, shared_data, trials_of

# Number of networks that train together; they are lost if the script is stopped.
STACK = 10


def accuracies(
    name: str, trials: list[Trial], data: TrainingData, device: str
) -> Iterator[tuple[Trial, float]]:
    """Yield every trial with its last epoch's test accuracy by a contender."""
    if name == "reference":
        for trial in trials:
            *_, last = reference_epochs(trial, data, torch.device(device), workers=0)
            yield trial, last["test_accuracy"]
        return
    for first in range(0, len(trials), STACK):
        stack = trials[first : first + STACK]
        for trial, record in zip(stack, train(stack, data, device, stack=len(stack)), strict=True):
            yield trial, record.final("ori-test")[0] or float("nan")


class Progress:
    """Results and times of finished trials, in a file that several processes can extend."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[tuple[str, str], tuple[float, float]] = {}
        if path is not None and path.is_file():
            for line in path.read_text().splitlines():
                one = json.loads(line)
                self.found[one["by"], one["trial"]] = one["accuracy"], one["seconds"]

    def train(self, name: str, trials: list[Trial], data: TrainingData, device: str) -> None:
        """Train the missing trials."""
        missing = [trial for trial in trials if (name, trial.trial_id) not in self.found]
        began = time.perf_counter()
        for at, (trial, accuracy) in enumerate(accuracies(name, missing, data, device)):
            now = time.perf_counter()
            self.found[name, trial.trial_id] = accuracy, now - began
            if self.path is not None:
                one = {
                    "by": name,
                    "trial": trial.trial_id,
                    "accuracy": accuracy,
                    "seconds": now - began,
                }
                with self.path.open("a") as file:
                    file.write(json.dumps(one) + "\n")
            print(f"{name}: {at + 1} of {len(missing)}", file=sys.stderr)
            began = now


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
    parser.add_argument("--data-root", default=str(shared_data() / "cifar10-mini"))
    parser.add_argument("--cells", default="11,284")
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--cells-per-stage", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--compare", default="reference,float32", help="or float32,bf16: ours")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--progress", type=Path, help="keep finished trials in this file")
    parser.add_argument("--only", metavar="CONTENDER", help="train only this side, for --progress")
    asked = parser.parse_args()
    names = asked.compare.split(",")
    if names not in (["reference", "float32"], ["float32", "bf16"]):
        parser.error(f"--compare takes reference,float32 or float32,bf16, got {asked.compare}")
    if asked.only and (asked.only not in names or asked.progress is None):
        parser.error(f"--only takes a name in {asked.compare}, and needs --progress")
    progress = Progress(asked.progress)
    data = load_data(asked.dataset, root=asked.data_root)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    skeleton = Skeleton(channels=asked.channels, cells_per_stage=asked.cells_per_stage)
    rows = []
    for cell in map(int, asked.cells.split(",")):
        found, seconds = [], []
        for name in [asked.only] if asked.only else names:
            precision = "bf16" if name == "bf16" else "float32"
            trials = trials_of(
                cell, asked.dataset, seeds, epochs=asked.epochs, skeleton=skeleton,
                protocol=Protocol(batch_size=asked.batch, precision=precision),
            )  # fmt: skip
            progress.train(name, trials, data, asked.device)
            values, times = zip(
                *(progress.found[name, trial.trial_id] for trial in trials), strict=True
            )
            found.append(list(values))
            seconds.append(round(sum(times), 1))
        if asked.only:
            continue
        rows.append(
            {
                "cell": cell,
                **{
                    name: " ".join(f"{value:.2f}" for value in values)
                    for name, values in zip(names, found, strict=True)
                },
                **compare(*found),
                **{f"{name}_s": value for name, value in zip(names, seconds, strict=True)},
            }
        )
        print(rows[-1], file=sys.stderr)
    if asked.only:
        return
    precision = "-bf16" if "bf16" in names else ""
    fresh = f"-from{asked.first_seed}" if asked.first_seed else ""
    publish(
        f"learning-C{asked.channels}-N{asked.cells_per_stage}{precision}{fresh}",
        rows,
        folder=CHECKS,
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
