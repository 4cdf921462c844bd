"""Small trials that the tests of the trainer share."""

from __future__ import annotations

from typing import Any

from rebench.data import TrainingData, load_data
from rebench.sweep import Protocol, RecipeSpec, Skeleton, Trial

SMALL = Skeleton(channels=4, cells_per_stage=1)


def make_trial(seed: int = 0, **changes: Any) -> Trial:
    """A trial on a corner of the digits that takes a moment."""
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


def few_digits(train: int = 100, test: int = 50) -> TrainingData:
    """The first digits only; 100 images are three batches of 32 and one of 4."""
    import torch

    data = load_data("digits")
    return TrainingData(
        spec=data.spec,
        split=data.split,
        train=data.train.select(torch.arange(train)),
        evaluation={"ori-test": data.evaluation["ori-test"].select(torch.arange(test))},
        digest=f"{data.digest}/{train}",
    )
