"""Measure for how many epochs an init changes the effective learning rate.

Run: ``experiments/checks/init_memory.py --data-root FOLDER``. Let w be a filter before batch
normalisation. A step of size lr turns w by lr / |w|^2. SGD with momentum m and weight decay d
changes |w|^4 in a step by the fraction -4 d lr / (1 - m), plus a term of the gradient that does not
depend on |w|. The difference of |w|^4 between two inits thus shrinks like exp(-4 d / (1 - m) sum
lr), for any data. The factor between the two effective rates shrinks, too.

Cells of `experiments/surface` are trained with its protocol for more epochs at one rate, from
PyTorch's init and from that of `topology`. The script prints the measured factor, and the factor
predicted from the weights of the first init by the formula.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from rebench.data import BatchSource, TrainingData, load_data
from rebench.intervals import mean_interval
from rebench.runs import Protocol, Skeleton, Trial
from rebench.train import Speed, Stack, build_net, rate_factor
from scripts.bench.results_file import CHECKS, publish, scaled, shared_data, trials_of

# Cells of the surface: weak and strong, with few and many paths.
CELLS = (1696, 6346, 8514, 12384)[: scaled(4)]
RECIPES = ("fixed", "topology-init")
SEEDS = (777, 888)
EPOCHS = scaled(40)
SHOWN = (0, 1, 2, 3, 5, 10, 20, 30, 40)
# The benchmark's own protocols: images of the training set, epochs.
BENCHMARK = {"12 epochs, half of the images": (25_000, 12), "200 epochs": (50_000, 200)}


def main() -> None:
    """Train, measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default=str(shared_data()))
    data = load_data("cifar10-jpeg16", root=parser.parse_args().data_root)
    protocol = Protocol(batch_size=64)
    found = [pair for cell in CELLS for pair in factors(cell, data, protocol)]
    rows = []
    for epoch in sorted({min(one, EPOCHS) for one in SHOWN}):
        measured = mean_interval(np.array([np.log(pair[0][epoch]) for pair in found]), 0.95)
        rows.append(
            {
                "epochs": epoch,
                "left of the difference": left(protocol, len(data.train), EPOCHS, epoch),
                "factor": math.exp(measured.value),
                "low": math.exp(measured.low),
                "high": math.exp(measured.high),
                "foretold": math.exp(np.mean([np.log(pair[1][epoch]) for pair in found])),
            }
        )
    ours = Protocol()
    rows += [
        {"epochs": f"the benchmark's {name}", "left of the difference": left(ours, *size)}
        for name, size in BENCHMARK.items()
    ]
    publish("init_memory", rows, folder=CHECKS, cells=CELLS, recipes=RECIPES, seeds=SEEDS, batch=64)


def factors(
    cell: int, data: TrainingData, protocol: Protocol
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for every seed the factor after each epoch [epochs + 1]: measured, and predicted."""
    small = Skeleton(channels=8, cells_per_stage=1)
    trials: list[Trial] = []
    for recipe in RECIPES:
        trials += trials_of(
            cell, "cifar10-jpeg16", SEEDS, recipe=recipe, epochs=EPOCHS, skeleton=small,
            protocol=protocol,
        )  # fmt: skip
    sizes = np.array(list(fourth_powers(trials, data)))  # [epochs + 1, trials, layers]
    kept = [left(protocol, len(data.train), EPOCHS, epoch) for epoch in range(EPOCHS + 1)]
    for place in range(len(SEEDS)):
        first, second = sizes[:, place], sizes[:, place + len(SEEDS)]
        foretold = first + np.array(kept)[:, None] * (second[0] - first[0])
        yield factor(first, second), factor(first, foretold)
    print(f"cell {cell} is trained", file=sys.stderr, flush=True)


def factor(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the factor on the second effective rate, a geometric mean over layers."""
    return np.exp(np.log(first / second).mean(axis=1) / 2)


def fourth_powers(trials: list[Trial], data: TrainingData) -> Iterator[list[list[float]]]:
    """Train; yield the mean |w|^4 of filters in every normalised layer, by trial and epoch."""
    device = torch.device("cpu")
    stack = Stack(trials, data.spec, device, Speed())
    source = BatchSource(data.train, data.spec, device=device, channels_last=True)
    layers = build_net(trials[0], data.spec.classes).weight_layers()
    names = [one.parameter for one in layers if one.followed_by_norm and one.computed]

    def seen() -> list[list[float]]:
        return [
            [state[name].flatten(1).square().sum(1).square().mean().item() for name in names]
            for state in stack.states()
        ]

    yield seen()
    protocol, seeds = stack.protocol, [trial.seed for trial in trials]
    for epoch in range(EPOCHS):
        stack.set_rates(rate_factor(protocol, EPOCHS, epoch))
        batches = source.epoch(seeds, epoch, protocol.batch_size, augment=protocol.augment)
        for images, labels in batches:
            stack.train(images, labels)
        stack.clear()
        yield seen()


def left(protocol: Protocol, images: int, epochs: int, upto: int | None = None) -> float:
    """Return the remaining share of a difference between inits after some of the epochs."""
    steps = math.ceil(images / protocol.batch_size)
    rates = [0.1 * rate_factor(protocol, epochs, epoch) for epoch in range(epochs)][:upto]
    return math.exp(-4 * protocol.weight_decay / (1 - protocol.momentum) * steps * sum(rates))


if __name__ == "__main__":
    main()
