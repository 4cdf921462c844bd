"""Small trials for the tests of the trainer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support import shared_data

from rebench.data import Images, TrainingData, data_spec, load_data
from rebench.runs import Protocol, RecipeSpec, Skeleton, Trial

SMALL = Skeleton(channels=4, cells_per_stage=1)


def make_trial(seed: int = 0, **changes: Any) -> Trial:
    """Return a very short trial on a few digits."""
    fields: dict[str, Any] = {
        "cell": 6111,
        "dataset": "digits",
        "recipe": RecipeSpec(name="nb201"),
        "seed": seed,
        "epochs": 2,
        "skeleton": SMALL,
        "protocol": Protocol(batch_size=32),
        **changes,
    }
    return Trial(**fields)


def gentle(seed: int = 0, lr: float = 0.01, **changes: Any) -> Trial:
    """Return a trial with a rate so small that training does not amplify rounding differences."""
    return make_trial(seed, recipe=RecipeSpec(name="fixed", parameters={"lr": lr}), **changes)


def interrupt(trials: list[Trial], steps: int, **options: Any) -> None:
    """Train on `few_digits`, and stop after some steps; an epoch has four steps."""
    from rebench.train import Interrupted, train

    asked = itertools.count()
    with pytest.raises(Interrupted):
        train(trials, few_digits(), stop=lambda: next(asked) >= steps, **options)


def few_digits(train: int = 100, test: int = 50) -> TrainingData:
    """Return the first 100 digits: three batches of 32 images and one of 4."""
    return _few(load_data("digits"), train, test)


def few_cifar(train: int, test: int) -> TrainingData:
    """Return the first CIFAR-10 images, or noise of the same shape if there are none."""
    import torch

    real = shared_data()
    if real is not None:
        return _few(load_data("cifar10", root=real / "cifar10-mini"), train, test)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (train, 3, 32, 32), dtype=torch.uint8, generator=generator)
    noise = Images(pixels, torch.arange(train) % 10)
    data = TrainingData(
        spec=data_spec("cifar10"),
        split="full",
        train=noise,
        evaluation={"ori-test": noise},
        digest="noise",
    )
    return _few(data, train, test)


def _few(data: TrainingData, train: int, test: int) -> TrainingData:
    import torch

    return TrainingData(
        spec=data.spec,
        split=data.split,
        train=data.train.select(torch.arange(train)),
        evaluation={"ori-test": data.evaluation["ori-test"].select(torch.arange(test))},
        digest=f"{data.digest}/{train}",
    )
