"""The figures of Chen et al. (2024) by their released code: its network, graphs and depth count.

Its network has a ReLU after the stem, biases that learn at the same rate, and an init by fan-out.
Its graphs are all codes of five vertices in a random order; most of them have skips. It trains one
epoch of CIFAR-10 in batches of 128. The base graph has one layer between stem and readout. Its rate
is transferred to all other graphs; the paper claims that measured rates equal transferred rates.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from cells.dag import LAYER, NO_EDGE, SKIP_EDGE
from experiments.laws.graph_rates import (
    Experiment,
    Graph,
    SearchSettings,
    list_experiments,
    measure_experiment,
)
from experiments.laws.graphs import chain, random_graphs
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict
from experiments.laws.scores import released_verdicts, score_released


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedSettings:
    """Sizes of the experiments; graphs with GELU are the first half of the graphs."""

    graphs: int = 40
    kernel_graphs: int = 18
    width: int = 64
    side: int = 16
    kernel_width: int = 16
    kernel_side: int = 8
    batch_size: int = 128
    steps: int | None = None  # number of steps; None is a whole epoch
    kernel_steps: int | None = None
    n_lrs: int = 12
    seeds: int = 3
    only: tuple[str, ...] = ()
    dataset: str | None = None
    data_root: Path | None = None
    device: str = "cpu"
    seed: int = 0

    @property
    def search(self) -> SearchSettings:
        """Return the search settings of a graph of dense layers."""
        return SearchSettings(
            width=self.width, batch_size=self.batch_size, seeds=self.seeds, n_lrs=self.n_lrs,
            lowest_lr=4e-3, highest_lr=1.0, order="after", rule="coded", released=True,
            shared_rate=True,
        )  # fmt: skip


def released_experiments(settings: ReleasedSettings, images: SmallImages) -> list[Experiment]:
    """Return the experiments; each has the base graph, then the graphs of its figure."""
    rng = np.random.default_rng(settings.seed)
    edges = (NO_EDGE, SKIP_EDGE, LAYER)
    base: Graph = (chain(1), None)
    coded = random_graphs(settings.graphs, 5, rng, edges, pruned=False)
    graphs: list[Graph] = [base, *((code, None) for code in coded)]
    drawn = random_graphs(settings.kernel_graphs, 5, rng, edges, pruned=False)
    kernels: list[Graph] = [
        (chain(1), 3), *((code, (3, 5, 7)[place % 3]) for place, code in enumerate(drawn))
    ]  # fmt: skip
    families = {
        "dense": graphs,
        "half of dense": graphs[: 1 + (settings.graphs + 1) // 2],
        "chains": [base, *((chain(depth), None) for depth in range(1, 9))],
        "convolutional": kernels,
    }
    steps = len(images.labels) // settings.batch_size
    dense = dataclasses.replace(settings.search, steps=settings.steps or steps)
    convolutional = dataclasses.replace(
        dense, width=settings.kernel_width, steps=settings.kernel_steps or steps, highest_lr=4.0
    )
    return list_experiments(
        "released", families, only=settings.only, dense=(dense, settings.side),
        convolutional=(convolutional, settings.kernel_side),
    )  # fmt: skip


def measure(settings: ReleasedSettings, pieces: Pieces) -> Measured:
    """Measure every figure: maximal rates by both criteria, and rates transferred from the base."""
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root, limit=None)
    images = images.on(settings.device)
    measured, scores = [], []
    verdicts: list[Verdict] = []
    for experiment in released_experiments(settings, images):
        measured.append(measure_experiment(experiment, images, pieces, settings.seed))
        scores.append(score_released(measured[-1], rng))
        verdicts += released_verdicts(experiment, measured[-1], scores[-1])
    tables = {
        "rates": pd.concat(measured, ignore_index=True),
        "scores": pd.concat(scores, ignore_index=True),
    }
    return tables, verdicts
