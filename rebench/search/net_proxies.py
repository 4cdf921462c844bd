"""Training-free proxies that need a network and one batch: gradient norm, SNIP, SynFlow, NASWOT.

Networks are `TinyNet` with PyTorch's default init, as the benchmark's; each cell is scored on one
initialisation from its own stream of the seed. torch is imported when the first cell is scored.
Gradient norm and SNIP rank as published in networks of several cells a stage only; the figures are
in `docs/explanation/analysis.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells import Cell
from rebench.datasets import data_spec
from rebench.errors import InputError, UnknownNameError
from rebench.search.proxy_names import NET_PROXIES

if TYPE_CHECKING:
    import torch

__all__ = ["image_batch", "init_seed", "net_proxy_scores"]

Floats: TypeAlias = NDArray[np.float64]


def image_batch(
    dataset: str, count: int, *, seed: int = 0, root: Path | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `count` normalised training images, drawn without replacement, and their classes."""
    import torch

    from rebench.data import read_raw

    spec = data_spec(dataset)
    train = read_raw(dataset, root).train
    if not 1 <= count <= len(train):
        raise InputError(f"a batch of {dataset} has 1 to {len(train)} images, got {count}")
    chosen = np.random.default_rng(seed).choice(len(train), count, replace=False)
    picked = train.select(torch.as_tensor(chosen))
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (spec.mean, spec.std))
    return (picked.pixels.float() / 255 - mean) / std, picked.labels.long()


def init_seed(seed: int, index: int) -> int:
    """Return the seed of torch's generator that a cell's network is initialised from."""
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint32)[0])


def net_proxy_scores(
    names: Iterable[str],
    indices: Iterable[int],
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    seed: int = 0,
    channels: int = 16,
    cells_per_stage: int = 5,
    classes: int = 10,
    on_cell: Callable[[int], None] | None = None,
) -> dict[str, Floats]:
    """Return each proxy's score of each cell; higher is expected to be better.

    A cell that a proxy cannot tell anything about (no flow, a singular kernel) gets -inf.

    Args:
        names: among `NET_PROXIES`.
        indices: benchmark indices of the cells.
        images: normalised batch, (n, 3, height, width).
        labels: its classes, (n,).
        seed: each cell's initialisation comes from (seed, index).
        channels: of the network's first stage.
        cells_per_stage: of the network.
        classes: of the data set.
        on_cell: called with each index when it is done, for progress.
    """
    import torch

    from rebench.nets import TinyNet, untrained

    measures = {
        "grad-norm": untrained.grad_norm,
        "snip": untrained.snip,
        "synflow": untrained.synflow,
        "naswot": untrained.naswot,
    }
    chosen = list(names)
    for name in chosen:
        if name not in NET_PROXIES:
            raise UnknownNameError("proxy", name, NET_PROXIES)
    scores: dict[str, list[float]] = {name: [] for name in chosen}
    for index in indices:
        for name in chosen:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(init_seed(seed, index))
                net = TinyNet(
                    Cell.from_index(index),
                    channels=channels,
                    cells_per_stage=cells_per_stage,
                    classes=classes,
                )
            scores[name].append(measures[name](net, images, labels))
        if on_cell:
            on_cell(index)
    return {name: np.array(values) for name, values in scores.items()}
