"""Measure the accuracy cost of training on CIFAR-10 coded as JPEG, seed by seed.

Run: ``experiments/checks/jpeg_cost.py [--lossless FOLDER] [--jpeg FOLDER]``. Every available
lossless image is matched with the nearest coded image by a clear margin. Trials then differ only in
the coding: same images in the same order, same init, same crops.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from rebench.data import Images, TrainingData, load_data
from rebench.intervals import mean_interval
from rebench.runs import Skeleton
from rebench.train import train
from scripts.bench.results_file import CHECKS, publish, scaled, shared_data, trials_of

CELLS = (0, 284)[: scaled(2)]
SEEDS = range(scaled(10, 2))
EPOCHS = scaled(12)
# The nearest image must be nearer than the second by this factor in squared distance.
CLEARLY = 2.0


def main() -> None:
    """Match, train and publish."""
    shared = shared_data()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lossless", default=str(shared / "cifar10-mini"))
    parser.add_argument("--jpeg", default=str(shared))
    asked = parser.parse_args()
    lossless = load_data("cifar10", root=asked.lossless)
    coded = load_data("cifar10-jpeg", root=asked.jpeg)
    test, coded_test = lossless.evaluation["ori-test"], coded.evaluation["ori-test"]
    same = dataclasses.replace(
        coded,
        train=found_in(lossless.train, coded.train),
        evaluation={"ori-test": found_in(test, coded_test)},
    )
    db = [decibels(lossless.train, same.train), decibels(test, same.evaluation["ori-test"])]
    print(f"PSNR {db[0]:.1f} dB of training images, {db[1]:.1f} dB of test images", flush=True)
    rows = []
    for cell in CELLS:
        ways = {name: accuracies(cell, data) for name, data in (("png", lossless), ("jpeg", same))}
        cost = mean_interval(ways["jpeg"] - ways["png"])
        rows.append(
            {
                "cell": cell,
                "lossless": float(ways["png"].mean()),
                "coded": float(ways["jpeg"].mean()),
                "difference": cost.value,
                "low": cost.low,
                "high": cost.high,
            }
        )
        print(rows[-1], flush=True)
    size = {"train_images": len(same.train), "test_images": len(test), "psnr_db": db}
    publish("jpeg_cost", rows, folder=CHECKS, seeds=len(SEEDS), epochs=EPOCHS, **size)


def found_in(images: Images, among: Images) -> Images:
    """Return the image of `among` that matches each of `images`, in their order."""
    wanted, known = thumbnails(images), thumbnails(among)
    squares = known.square().sum(1)
    places = []
    for part in wanted.split(500):
        distances = part.square().sum(1)[:, None] + squares - 2 * part @ known.T
        near, at = distances.topk(2, largest=False)
        if not (near[:, 1] > CLEARLY * near[:, 0]).all():
            raise SystemExit("an image has no clear match: the two sets are not the same")
        places.append(at[:, 0])
    found = among.select(torch.cat(places))
    if not torch.equal(found.labels, images.labels):
        raise SystemExit("an image has different classes in the two sets")
    return found


def thumbnails(images: Images) -> torch.Tensor:
    """Return images averaged to 8 x 8, [n, 192], centred at zero."""
    small = torch.nn.functional.avg_pool2d(images.pixels.float(), 4).flatten(1)
    return small - 120.0


def decibels(images: Images, coded: Images) -> float:
    """Return the peak signal-to-noise ratio of the coded images, over all pixels."""
    error = (images.pixels.float() - coded.pixels.float()).square().mean()
    return float(10 * torch.log10(255**2 / error))


def accuracies(cell: int, data: TrainingData) -> np.ndarray:
    """Return the final test accuracies of a cell, by seed."""
    small = Skeleton(channels=8, cells_per_stage=1)
    trials = trials_of(cell, data.spec.name, SEEDS, epochs=EPOCHS, skeleton=small)
    records = train(trials, data, stack=len(trials))
    return np.array([record.final("ori-test")[0] for record in records], dtype=np.float64)


if __name__ == "__main__":
    main()
