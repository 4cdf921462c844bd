"""Maximal learning rates of one epoch, experiment by experiment, against every predictor.

Each experiment is a figure of Chen et al. (2024): random graphs of dense layers, of convolutions,
and plain chains, with ReLU and GELU; and the same dense graphs under two other orders, which
show what their correlation rests on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from cells.dag import DagCode
from experiments.laws.graph_lr import SearchSettings, search_graph
from experiments.laws.graphs import chain, random_graphs
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces
from experiments.laws.predictors import predict
from experiments.laws.rate_search import summarise
from experiments.laws.result import read_toml

Graph = tuple[DagCode, int | None]

# Theory: equation 1, target degree, mean-field readout; the graph's weights alone limit the rate.
DENSE = SearchSettings()
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


def list_experiments(
    law: str,
    families: Mapping[str, Sequence[Graph]],
    *,
    dense: SearchSettings,
    convolutional: SearchSettings,
    sides: tuple[int, int],
    dataset: str,
    only: Sequence[str] = (),
) -> list[Experiment]:
    """The experiments of a law in `experiments.toml`.

    Args:
        law: which.
        families: graphs by the names that the file has for them.
        dense: how graphs of dense layers are searched, but for what the file says.
        convolutional: how those of convolutions are.
        sides: of the images of the former and of the latter.
        dataset: a name for the output; the images are given to `measure_experiment`.
        only: names of those wanted, empty for all.
    """
    listed = []
    for name, entry in read_toml("experiments")[law].items():
        if only and name not in only:
            continue
        graphs = tuple(families[entry["graphs"]])
        has_kernels = any(kernel for _, kernel in graphs)
        search = convolutional if has_kernels else dense
        listed.append(
            Experiment(
                name=name, title=entry["title"], graphs=graphs, paper_r=entry.get("paper_r"),
                search=dataclasses.replace(search, **entry.get("search", {})),
                side=sides[has_kernels], dataset=dataset,
            )
        )  # fmt: skip
    return listed


def experiments(
    graphs: int,
    kernel_graphs: int,
    dataset: str,
    seed: int,
    steps: int | None = None,
    only: Sequence[str] = (),
) -> list[Experiment]:
    """The paper's experiments with `graphs` dense and `kernel_graphs` convolutional ones.

    Args:
        graphs: how many random dense graphs; half of them with GELU and with a shared rate.
        kernel_graphs: how many random convolutional graphs, kernels 1, 3 and 5 in turn; half of
            them with GELU.
        dataset: a name for the output.
        seed: of the graphs.
        steps: steps of an epoch, where fewer than the default are wanted.
        only: names of those wanted, empty for all.
    """
    rng = np.random.default_rng(seed)
    dense: list[Graph] = [(code, None) for code in random_graphs(graphs, 5, rng)]
    drawn = random_graphs(kernel_graphs, 5, rng)
    convolutional: list[Graph] = [(code, (1, 3, 5)[i % 3]) for i, code in enumerate(drawn)]
    families: dict[str, list[Graph]] = {
        "dense": dense,
        "half of dense": dense[: (graphs + 1) // 2],
        "convolutional": convolutional,
        "half of convolutional": convolutional[: (kernel_graphs + 1) // 2],
        "chains": [(chain(depth), None) for depth in range(3, 11)],
    }
    return list_experiments(
        "dag", families, sides=(14, 7), dataset=dataset, only=only,
        dense=dataclasses.replace(DENSE, steps=steps or DENSE.steps),
        convolutional=dataclasses.replace(KERNELS, steps=steps or KERNELS.steps),
    )  # fmt: skip


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
