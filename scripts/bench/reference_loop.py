"""The loop that ours is held against (`rebench.gpu.reference`), on the network of a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from rebench.data import TrainingData, epoch_generator
from rebench.gpu.reference import reference_epochs as epochs_of
from rebench.nets import reference_net
from rebench.recipes import make_recipe
from rebench.sweep import Trial


def reference_epochs(
    trial: Trial,
    data: TrainingData,
    device: torch.device,
    workers: int,
    after_step: Callable[[], bool] = lambda: False,
) -> Iterator[dict[str, float]]:
    """Train and yield each epoch's metrics; end when `after_step` says so."""
    torch.manual_seed(trial.seed)
    net = reference_net(
        trial.cell,
        channels=trial.skeleton.channels,
        cells_per_stage=trial.skeleton.cells_per_stage,
        classes=data.spec.classes,
    )
    recipe = make_recipe(trial.recipe)
    recipe.apply_init(net, trial.cell, epoch_generator(trial.seed, 0, "init"))
    yield from epochs_of(
        net,
        data.train,
        data.evaluation["ori-test"],
        data.spec,
        lr=recipe.hyperparameters(trial.cell).learning_rate,
        epochs=trial.epochs,
        batch_size=trial.protocol.batch_size,
        seed=trial.seed,
        device=device,
        workers=workers,
        after_step=after_step,
    )
