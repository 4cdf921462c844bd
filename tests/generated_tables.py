"""Generated tables of the benchmark's shape, for tests, checks and timings. Not results.

A cell's expected accuracy after 200 epochs is the published mean of the first cell of its
functional class. So search algorithms and rankings behave as on the real table. Everything else
(other splits, losses, 12 epochs, times) follows by simple rules from there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cells import SPACE_SIZE
from cells.table import Space, compile_space
from rebench.data import BENCHMARK, data_spec
from rebench.spaces.nb201 import cost_model
from rebench.tables import open_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["final_accuracy", "synthetic_frame"]

# The benchmark's seeds by epochs and data set.
_SEEDS: Final[dict[int, dict[str, tuple[int, ...]]]] = {
    12: {**dict.fromkeys(BENCHMARK, (111,)), "cifar10-valid": (111, 777)},
    200: dict.fromkeys(BENCHMARK, (777, 888, 999)),
}  # fmt: skip

_SEED_STD: Final = {"cifar10": 0.25, "cifar100": 0.5, "ImageNet16-120": 0.6}


def synthetic_frame(
    seed: int,
    *,
    cells: Sequence[int] | None = None,
    datasets: Sequence[str] = tuple(BENCHMARK),
    epochs: Sequence[int] = (12, 200),
    missing_seeds: float = 0.0,
) -> pd.DataFrame:
    """Return a generated long table with the benchmark's columns, data sets, splits and seeds.

    Args:
        seed: seed of all values; the values of a cell do not depend on `cells`.
        cells: benchmark indices, all 15,625 by default.
        datasets: names of the benchmark's data sets.
        epochs: 12, 200 or both.
        missing_seeds: the share of (cell, data set) at 200 epochs that lack one seed, as some do.
    """
    import pandas as pd

    space = compile_space()
    wanted = np.arange(SPACE_SIZE) if cells is None else np.unique(np.asarray(cells, dtype=int))
    parts = []
    for count in sorted(epochs):
        for dataset in datasets:
            draw = np.random.default_rng([seed, count, list(BENCHMARK).index(dataset)])
            parts += _dataset_parts(space, dataset, count, seed, draw, wanted, missing_seeds)
    return pd.concat(parts, ignore_index=True)


def _dataset_parts(
    space: Space,
    dataset: str,
    epochs: int,
    seed: int,
    draw: np.random.Generator,
    wanted: NDArray[np.int64],
    missing_seeds: float,
) -> list[pd.DataFrame]:
    import pandas as pd

    images, trial_split = BENCHMARK[dataset]
    spec = data_spec(images)
    sizes, costs = spec.part_sizes(trial_split), cost_model(spec)
    expected = _expected_accuracy(space, images, epochs, seed)
    if dataset == "cifar10-valid":  # half the training images
        expected = expected - np.minimum(4.0, (100 - expected) * 0.45)
    trained = expected + (100 - expected) * (0.85 if epochs == 200 else 0.02)
    chance = 100 / spec.classes
    seeds = _SEEDS[epochs][dataset]
    mflops = costs.flops(space.ops) / 1e6
    params_m = costs.params(space.ops) / 1e6
    image_seconds = (1.2e-4 + 2.7e-6 * mflops) * draw.normal(1, 0.04, SPACE_SIZE).clip(0.8, 1.2)
    latency_s = (0.012 + 3.5e-5 * mflops) * draw.normal(1, 0.03, SPACE_SIZE).clip(0.8, 1.2)
    lacking = np.where(
        draw.random(SPACE_SIZE) < (missing_seeds if len(seeds) > 1 else 0),
        draw.integers(len(seeds), size=SPACE_SIZE),
        -1,
    )
    parts = []
    for place, trial_seed in enumerate(seeds):
        common = draw.normal(0, _SEED_STD[images] * (1 if epochs == 200 else 4), SPACE_SIZE)
        kept = wanted[lacking[wanted] != place]
        for split, evaluated in sizes.items():
            mean = (trained if split == "train" else expected) + common
            share = (mean / 100).clip(chance / 100, 0.999)
            share = np.where(space.n_paths == 0, chance / 100, share)
            sampling = np.sqrt(share * (1 - share) / evaluated) * draw.normal(size=SPACE_SIZE)
            sampling = np.where(space.n_paths == 0, 0, sampling)
            right = np.round((share + sampling).clip(0, 1) * evaluated)
            seconds = image_seconds * evaluated * (3 if split == "train" else 1)
            columns = {
                "accuracy": 100 * right / evaluated,
                "loss": _loss(share, spec.classes) * draw.normal(1, 0.02, SPACE_SIZE),
                "seconds": seconds * epochs,
                "epoch_seconds": seconds,
                "params_m": params_m,
                "mflops": mflops,
                "latency_s": latency_s,
            }
            part = pd.DataFrame({name: values[kept] for name, values in columns.items()})
            part.insert(0, "index", kept)
            for where, (name, value) in enumerate(
                [("dataset", dataset), ("split", split), ("epochs", epochs), ("seed", trial_seed)]
            ):
                part.insert(1 + where, name, value)
            parts.append(part)
    return parts


@functools.cache
def final_accuracy(dataset: str) -> NDArray[np.float64]:
    """Return the published mean accuracies of all cells after 200 epochs."""
    split = "ori-test" if dataset == "cifar10" else "x-test"
    return open_table("nb201").means(dataset, split).to_numpy()


def _expected_accuracy(space: Space, images: str, epochs: int, seed: int) -> NDArray[np.float64]:
    accuracy = final_accuracy(images)[space.functional_class]
    if epochs == 200:
        return accuracy
    chance = 100 / data_spec(images).classes
    noise = np.random.default_rng([seed, 3, epochs]).normal(size=SPACE_SIZE)
    return chance + (accuracy - chance) * (0.86 + 0.01 * noise[space.functional_class])


def _loss(share: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    # Cross-entropy of a classifier that is right that often and that sure of itself.
    wrong = (1 - share).clip(1e-4)
    return -share * np.log(share) - wrong * np.log(wrong / (classes - 1))
