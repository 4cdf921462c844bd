"""Maximal learning rates of one epoch, experiment by experiment, against every predictor.

Each experiment is a figure of Chen et al. (2024): random graphs of dense layers, of convolutions,
and plain chains, with ReLU and GELU; and the same dense graphs under two other orders, which
show what their correlation rests on.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from cells.dag import DagCode
from experiments.laws.graph_lr import SearchSettings, search_graph
from experiments.laws.graphs import chain, random_graphs
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces
from experiments.laws.predictors import predict
from experiments.laws.rate_search import summarise

Graph = tuple[DagCode, int | None]

# Theory: equation 1, target degree, mean-field readout; the graph's weights alone limit the rate.
DENSE = SearchSettings()
SHARED = dataclasses.replace(DENSE, shared_rate=True, highest_lr=2.0)
RELEASED = dataclasses.replace(
    SHARED, order="after", rule="source", readout_std=0.2, lowest_lr=2e-3
)
KERNELS = dataclasses.replace(DENSE, width=16, steps=48, n_lrs=12, lowest_lr=0.05, highest_lr=30.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A family of graphs whose maximal learning rates are searched, and the paper's r for it."""

    name: str
    title: str
    graphs: tuple[Graph, ...]
    search: SearchSettings
    side: int
    paper_r: float | None
    dataset: str


def experiments(
    graphs: int, kernel_graphs: int, dataset: str, seed: int, steps: int | None = None
) -> list[Experiment]:
    """The paper's experiments with `graphs` dense and `kernel_graphs` convolutional ones.

    Args:
        graphs: how many random dense graphs; half of them with GELU and with a shared rate.
        kernel_graphs: how many random convolutional graphs, kernels 1, 3 and 5 in turn; half of
            them with GELU.
        dataset: a name for the output; the images are given to `measure_experiment`.
        seed: of the graphs.
        steps: steps of an epoch, where fewer than the default are wanted.
    """
    rng = np.random.default_rng(seed)
    dense: list[Graph] = [(code, None) for code in random_graphs(graphs, 5, rng)]
    fewer = dense[: (graphs + 1) // 2]
    drawn = random_graphs(kernel_graphs, 5, rng)
    convolutional: list[Graph] = [(code, (1, 3, 5)[i % 3]) for i, code in enumerate(drawn)]
    kernel_fewer = convolutional[: (kernel_graphs + 1) // 2]
    chains: list[Graph] = [(chain(depth), None) for depth in range(3, 11)]
    # r of the paper: ReLU in its figures 2, 3 and 5, GELU in its appendix E.2.
    listed = [
        ("mlp", "MLP graphs, as in the theory", dense, DENSE, 0.838),
        ("mlp-gelu", "MLP graphs, GELU", fewer, _gelu(DENSE), 0.680),
        ("mlp-shared", "MLP graphs, one rate for all weights", fewer, SHARED, None),
        ("mlp-released", "MLP graphs, as in the released code", dense, RELEASED, 0.838),
        ("chain", "MLP chains of depth 3 to 10", chains, DENSE, 0.962),
        ("chain-gelu", "MLP chains of depth 3 to 10, GELU", chains, _gelu(DENSE), 0.920),
        ("cnn", "CNN graphs with kernels 1, 3, 5", convolutional, KERNELS, 0.856),
        ("cnn-gelu", "CNN graphs, GELU", kernel_fewer, _gelu(KERNELS), 0.949),
    ]
    return [
        Experiment(
            name=name, title=title, graphs=tuple(members), paper_r=paper_r, dataset=dataset,
            search=dataclasses.replace(search, steps=steps) if steps else search,
            side=7 if search.width == KERNELS.width else 14,
        )
        for name, title, members, search, paper_r in listed
    ]  # fmt: skip


def _gelu(settings: SearchSettings) -> SearchSettings:
    return dataclasses.replace(settings, activation="gelu")


def measure_experiment(
    experiment: Experiment, images: SmallImages, pieces: Pieces, seed: int
) -> pd.DataFrame:
    """One row per graph: measured rate, its spread over seeds, and every prediction.

    Columns experiment, dataset, code, kernel, paths, what `summarise` returns, then predictors.
    """
    images = images.pooled(min(experiment.side, images.pixels.shape[-1]))
    steps = min(experiment.search.steps, len(images.labels) // experiment.search.batch_size)
    search = dataclasses.replace(experiment.search, steps=steps, classes=images.classes)
    cases = [
        {"code": code, "kernel": kernel, "seed": seed + index}
        for index, (code, kernel) in enumerate(experiment.graphs)
    ]
    searches = pieces.map("search", search_graph, cases, images=images, settings=search)
    rows = [
        {
            "experiment": experiment.name,
            "dataset": images.name,
            "code": str(code),
            "kernel": kernel or 0,
            "paths": code.n_paths,
            **summarise(searched),
        }
        for (code, kernel), searched in zip(experiment.graphs, searches, strict=True)
    ]
    [predicted] = pieces.map(
        "predicted-rates", predict, [{"graphs": experiment.graphs}], images=images, settings=search
    )
    return pd.concat([pd.DataFrame(rows), predicted], axis=1)
