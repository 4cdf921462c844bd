"""Maximal learning rates of one epoch, experiment by experiment, against every predictor.

Predictors are equation 8 in its versions, and the baselines beside it.

Each experiment is a figure of Chen et al. (2024): random graphs of dense layers, of convolutions,
and plain chains, with ReLU and GELU; and the same dense graphs under two other orders, which
show what their correlation rests on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import DagCode, moment
from experiments.laws.bafu import first_order_updates
from experiments.laws.graph_lr import SearchSettings, draw_net, rate_factors, search_graph
from experiments.laws.graphs import chain, edge_variances, random_graphs, with_stem
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import summarise
from experiments.laws.recursion import update_of
from experiments.laws.result import read_toml
from rebench.recipes.recursion import Graphs

Graph = tuple[DagCode, int | None]

# Theory: equation 1, target degree, mean-field readout; the graph's weights alone limit the rate.
DENSE = SearchSettings()
KERNELS = dataclasses.replace(DENSE, width=16, steps=48, n_lrs=12, lowest_lr=0.05, highest_lr=30.0)


# Depths of paths as layers of the graph; as the code of the cells counts; and its MLPs' and CNNs'.
OFFSETS = (0, 1, 3)


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
    search = experiment.search.within(len(images.labels))
    search = dataclasses.replace(search, classes=images.classes)
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


def predict(graphs: Sequence[Graph], images: SmallImages, settings: SearchSettings) -> pd.DataFrame:
    """The learning rate of every (code, kernel side) by every predictor, up to a scale."""
    rows = []
    for code, kernel in graphs:
        side, depths = kernel or 1, code.depth_polynomial()
        row: dict[str, float] = {
            f"eq. 8, L+{offset}" if offset else "eq. 8, L": moment(depths, 3, offset) ** -0.5
            / side**2
            for offset in OFFSETS
        }
        if any(k for _, k in graphs):
            row["eq. 8, L, q = side"] = moment(depths, 3) ** -0.5 / side
            row["eq. 8, L+3, q = side"] = moment(depths, 3, 3) ** -0.5 / side
            row["kernel area alone"] = 1 / side**2
        row["path count"] = code.n_paths**-0.5
        row["exact recursion"] = _recursion_lr(code, settings) / side**2
        row["one step"] = one_step_lr(code, kernel, images, settings)
        row["constant"] = 1.0
        rows.append(row)
    return pd.DataFrame(rows)


def _recursion_lr(code: DagCode, settings: SearchSettings) -> float:
    """What the exact recursion says of a graph; a ReLU behind the stem makes it an edge."""
    variances = edge_variances(code, settings.rule)
    if settings.released:
        code, variances = with_stem(code), np.pad(variances, ((1, 0), (1, 0)))
        variances[1, 0] = 2.0
    update = update_of(Graphs.of([code]), variances[None], settings.order)
    return float(update.learning_rate[0])


def one_step_lr(
    code: DagCode, kernel: int | None, images: SmallImages, settings: SearchSettings
) -> float:
    """The rate at which one step moves the output vertex by 1 in mean square.

    Measured to first order on the very networks and a first batch, cross-entropy, all seeds.
    """
    moments = []
    batch = images.pixels[: settings.batch_size]
    labels = images.labels[: settings.batch_size]
    for seed in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed)
        net = draw_net(code, kernel, batch, settings, generator).to(batch.device)
        # A dead edge keeps weights that nothing depends on.
        named = dict(net.named_parameters())
        gradients = torch.autograd.grad(
            F.cross_entropy(net(batch), labels), list(named.values()),
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        factors = rate_factors(net, settings)
        steps = [-factors[name] * grad for name, grad in zip(named, gradients, strict=True)]
        output = net.vertices(batch)[code.n_vertices - 1]
        (moved,) = first_order_updates([output], list(named.values()), steps)
        moments.append(float(moved.square().mean()))
    return float(np.mean(moments) ** -0.5)
