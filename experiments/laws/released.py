"""The figures of Chen et al. (2024) as their released code draws them: its network, graphs, count.

Its network has a ReLU behind the stem, biases that learn at the same rate, and an init by fan-out;
its list of graphs is every code of five vertices, most of them with skips, in a random order; it
trains one epoch of CIFAR-10 in batches of 128. A rate found on the base graph, one layer between
stem and readout, is transferred to every other graph: what is claimed is the identity line.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from cells.dag import LAYER, NO_EDGE, SKIP_EDGE
from experiments.laws.graph_lr import SearchSettings
from experiments.laws.graphs import chain, random_graphs
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.rate_experiments import Experiment, Graph, measure_experiment
from experiments.laws.result import LawResult, Verdict
from experiments.laws.scores import released_verdicts, score_released


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedSettings:
    """Sizes; graphs with GELU are the first half of the graphs."""

    graphs: int = 40
    kernel_graphs: int = 18
    width: int = 64
    side: int = 16
    kernel_width: int = 16
    kernel_side: int = 8
    batch_size: int = 128
    steps: int | None = None  # None: a whole epoch
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
        """How a graph of dense layers is searched."""
        return SearchSettings(
            width=self.width, batch_size=self.batch_size, seeds=self.seeds, n_lrs=self.n_lrs,
            lowest_lr=4e-3, highest_lr=1.0, order="after", rule="coded", released=True,
            shared_rate=True,
        )  # fmt: skip


FULL = ReleasedSettings()
# What a processor does in ten minutes: figures 2 and 5.
PART = dataclasses.replace(FULL, only=("graphs", "chains"))
SMALL = ReleasedSettings(
    graphs=4, kernel_graphs=3, width=16, side=8, kernel_width=4, batch_size=64, steps=12,
    kernel_steps=6, n_lrs=8, seeds=2, only=("graphs", "chains", "cnn"),
)  # fmt: skip


def released_experiments(settings: ReleasedSettings, images: SmallImages) -> list[Experiment]:
    """The experiments: in each the base graph, then the graphs of its figure."""
    rng = np.random.default_rng(settings.seed)
    edges = (NO_EDGE, SKIP_EDGE, LAYER)
    base: Graph = (chain(1), None)
    coded = random_graphs(settings.graphs, 5, rng, edges, pruned=False)
    graphs: list[Graph] = [base, *((code, None) for code in coded)]
    fewer = graphs[: 1 + (settings.graphs + 1) // 2]
    chains: list[Graph] = [base, *((chain(depth), None) for depth in range(1, 9))]
    drawn = random_graphs(settings.kernel_graphs, 5, rng, edges, pruned=False)
    kernels: list[Graph] = [
        (chain(1), 3), *((code, (3, 5, 7)[place % 3]) for place, code in enumerate(drawn))
    ]  # fmt: skip
    dense, steps = settings.search, len(images.labels) // settings.batch_size
    dense = dataclasses.replace(dense, steps=settings.steps or steps)
    conv = dataclasses.replace(
        dense, width=settings.kernel_width, steps=settings.kernel_steps or steps,
        lowest_lr=4e-3, highest_lr=4.0,
    )  # fmt: skip
    listed: list[tuple[str, str, list[Graph], SearchSettings, float | None]] = [
        ("graphs", "MLP graphs with skips, figure 2", graphs, dense, 0.838),
        ("chains", "MLP chains of 1 to 8 layers, figure 5", chains, dense, 0.962),
        ("cnn", "CNN graphs with skips, kernels 3, 5, 7, figure 3", kernels, conv, 0.856),
        ("graphs-gelu", "MLP graphs with skips, GELU, figure 7", fewer, _gelu(dense), 0.680),
        ("chains-gelu", "MLP chains, GELU, figure 7", chains, _gelu(dense), 0.920),
        ("cnn-gelu", "CNN graphs, GELU, figure 7", kernels, _gelu(conv), 0.949),
    ]  # fmt: skip
    return [
        Experiment(
            name=name, title=title, graphs=tuple(members), paper_r=paper_r, search=search,
            dataset=images.name,
            side=settings.side if members[0][1] is None else settings.kernel_side,
        )
        for name, title, members, search, paper_r in listed
        if not settings.only or name in settings.only
    ]  # fmt: skip


def _gelu(search: SearchSettings) -> SearchSettings:
    return dataclasses.replace(search, activation="gelu")


def measure(settings: ReleasedSettings = FULL, pieces: Pieces | None = None) -> LawResult:
    """Measure every figure: maximal rates by both criteria, and the rate that the base's gives."""
    pieces = pieces or Pieces()
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root, limit=None)
    images = images.on(settings.device)
    measured, scores = [], []
    verdicts: list[Verdict] = []
    for experiment in released_experiments(settings, images):
        frame = measure_experiment(experiment, images, pieces, settings.seed)
        measured.append(frame)
        scores.append(score_released(frame, rng))
        verdicts += released_verdicts(experiment, frame, scores[-1])
    tables = {
        "rates": pd.concat(measured, ignore_index=True),
        "scores": pd.concat(scores, ignore_index=True),
    }
    return LawResult(
        law="released", title="graphs in the released network (Chen et al.)", tables=tables,
        verdicts=tuple(verdicts),
    )  # fmt: skip
