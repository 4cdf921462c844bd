"""Maximal learning rates of graph networks by experiment, and all predictions of these rates.

A search trains one epoch at every rate. Predictors are the versions of equation 8 and baselines.
Each experiment is a figure of Chen et al. (2024); `dag` and `released` draw its graphs. These are
random graphs of dense layers or convolutions, and plain chains, with ReLU and GELU. Two further
experiments train the same dense graphs with one rate for all layers, one of them with the network
of the released code. They show the cause of the correlation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import DagCode, moment
from experiments.laws.bafu import first_order_updates, gradients_of
from experiments.laws.conv_step import SECOND_MOMENTS
from experiments.laws.dagnet import Activation, DagCNN, DagMLP
from experiments.laws.graphs import DegreeRule, Order, edge_variances, update_of, with_stem
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces
from experiments.laws.rate_search import RateGrid, search_rates, summarise
from experiments.laws.result import read_toml
from rebench.nets import Layer
from rebench.recipes.init import LayerInit, initialise
from rebench.recipes.recursion import Graphs

Graph = tuple[DagCode, int | None]
# Numbers that are added to the layers on a path, to get its depth: 0 counts only layers of the
# graph; the released code adds 1 for cells, and 3 for MLPs and CNNs.
OFFSETS = (0, 1, 3)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings(RateGrid):
    """One epoch of plain SGD on cross-entropy at a geometric grid of learning rates."""

    width: int = 64
    activation: Activation = "relu"
    order: Order = "before"
    rule: DegreeRule | Literal["coded"] = "target"
    # Standard deviation of the readout; None is 1 / width, mean-field.
    readout_std: float | None = None
    # The network of the paper's code: a ReLU also after the stem, and init by fan-out. Variance is
    # 2 / (d fan_out), d the in-degree of the source including dead edges; for the readout it is the
    # square of this. `order` is then after, `rule` coded.
    released: bool = False
    classes: int = 10
    # False: the rate is multiplied by 1 / width in the readout and by width / fan_in in the stem,
    # so that only the graph's weights limit the rate, as in the theory.
    shared_rate: bool = False


def draw_net(
    code: DagCode,
    kernel: int | None,
    images: torch.Tensor,
    settings: SearchSettings,
    generator: torch.Generator,
) -> DagMLP | DagCNN:
    """Draw the network of a graph for `images`, with the init of `settings`.

    Args:
        code: the graph.
        kernel: None for a dense network, else the side of every kernel.
        images: images [n, channels, height, width]; only their shape is used.
        settings: width, init and order.
        generator: source of the random numbers.
    """
    build: Callable[..., DagMLP | DagCNN]
    if kernel is None:
        build = partial(DagMLP, inputs=images[0].numel(), width=settings.width)
    else:
        build = partial(
            DagCNN, in_channels=images.shape[1], channels=settings.width, kernel_size=kernel
        )
    net = build(
        code, classes=settings.classes, activation=settings.activation, order=settings.order,
        active_stem=settings.released, biases=settings.released,
    )  # fmt: skip
    variances = edge_variances(code, settings.rule)
    layers = net.weight_layers()
    inits = {layer.name: LayerInit(std=_std(layer, variances, settings)) for layer in layers}
    initialise(net, inits, generator)
    return net


def _std(layer: Layer, variances: npt.NDArray[np.float64], settings: SearchSettings) -> float:
    fan_out = layer.weight[:, 0].numel()
    if layer.role == "readout":
        return 2 / fan_out if settings.released else settings.readout_std or 1 / settings.width
    # The init of equation 4 keeps E act(z)^2 of a standard normal z: for ReLU 1/2.
    gain = 1.0 if settings.released else 0.5 / SECOND_MOMENTS[settings.activation]
    stem = 2.0 if settings.released else 1.0
    variance = stem if layer.edge is None else gain * float(variances[layer.edge])
    return math.sqrt(variance / (fan_out if settings.released else layer.fan_in))


def rate_factors(net: DagMLP | DagCNN, settings: SearchSettings) -> dict[str, float]:
    """Return the factor on the learning rate of every parameter, by name."""
    factors = {"stem": 1.0, "readout": 1.0}
    if not settings.shared_rate:
        stem = net.weight_layers()[0]
        factors = {"stem": settings.width / stem.weight.shape[1], "readout": 1 / settings.width}
    layers = net.weight_layers()
    by_name = {layer.parameter: factors.get(layer.role, 1.0) for layer in layers}
    if settings.released:  # biases have the rate of the weights
        by_name |= {f"{layer.name}.bias": 1.0 for layer in layers}
    return by_name


def search_graph(
    code: DagCode,
    kernel: int | None,
    images: SmallImages,
    settings: SearchSettings,
    seed: int,
) -> pd.DataFrame:
    """Train a graph's network for one epoch at every rate; see `search_rates`."""

    def build(generator: torch.Generator) -> tuple[DagMLP | DagCNN, dict[str, float]]:
        net = draw_net(code, kernel, images.pixels, settings, generator)
        return net, rate_factors(net, settings)

    return search_rates(build, images.pixels, images.labels, settings, seed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Family of graphs for a search of maximal learning rates, with the paper's r."""

    name: str
    title: str
    graphs: tuple[Graph, ...]
    search: SearchSettings
    side: int
    paper_r: float | None


def list_experiments(
    law: str,
    families: Mapping[str, Sequence[Graph]],
    *,
    dense: tuple[SearchSettings, int],
    convolutional: tuple[SearchSettings, int],
    only: Sequence[str] = (),
) -> list[Experiment]:
    """Return the experiments of a law in `experiments.toml`.

    Args:
        law: name of the law.
        families: graphs by their names in the file.
        dense: default search settings of graphs of dense layers, and the side of
            their images.
        convolutional: the same settings for graphs of convolutions.
        only: names of the wanted experiments; if empty, all.
    """
    listed = []
    for name, entry in read_toml("experiments")[law].items():
        graphs = tuple(families[entry["graphs"]])
        search, side = convolutional if any(kernel for _, kernel in graphs) else dense
        search = dataclasses.replace(search, **entry.get("search", {}))
        experiment = Experiment(
            name=name, title=entry["title"], graphs=graphs, search=search, side=side,
            paper_r=entry.get("paper_r"),
        )  # fmt: skip
        listed.append(experiment)
    return [experiment for experiment in listed if not only or experiment.name in only]


def measure_experiment(
    experiment: Experiment, images: SmallImages, pieces: Pieces, seed: int
) -> pd.DataFrame:
    """Return one row per graph: measured rate, its spread over seeds, and all predictions.

    Columns experiment, dataset, code, kernel, paths, those of `summarise`, then predictors.
    """
    images = images.pooled(experiment.side)
    search = experiment.search.within(len(images.labels))
    search = dataclasses.replace(search, classes=images.classes)
    cases = [
        {"code": code, "kernel": kernel, "seed": seed + index}
        for index, (code, kernel) in enumerate(experiment.graphs)
    ]
    searches = pieces.map("search", search_graph, cases, images=images, settings=search)
    rows = [
        {"experiment": experiment.name, "dataset": images.name, "code": str(code),
         "kernel": kernel or 0, "paths": code.n_paths, **summarise(searched)}
        for (code, kernel), searched in zip(experiment.graphs, searches, strict=True)
    ]  # fmt: skip
    [predicted] = pieces.map(
        "predicted-rates", predict, [{"graphs": experiment.graphs}], images=images, settings=search
    )
    return pd.concat([pd.DataFrame(rows), predicted], axis=1)


def predict(graphs: Sequence[Graph], images: SmallImages, settings: SearchSettings) -> pd.DataFrame:
    """Predict the learning rate of every (code, kernel side), up to a scale."""
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
    """Return the exact recursion's rate; a ReLU after the stem turns the stem into an edge."""
    variances = edge_variances(code, settings.rule)
    if settings.released:
        code, variances = with_stem(code), np.pad(variances, ((1, 0), (1, 0)))
        variances[1, 0] = 2.0
    update = update_of(Graphs.of([code]), variances[None], settings.order)
    return float(update.learning_rate[0])


def one_step_lr(
    code: DagCode, kernel: int | None, images: SmallImages, settings: SearchSettings
) -> float:
    """Return the rate at which one step moves the output vertex by 1 in mean square.

    The movement is measured to first order, on the first batch with cross-entropy. It is averaged
    over networks with the inits of all seeds.
    """
    moments = []
    batch = images.pixels[: settings.batch_size]
    labels = images.labels[: settings.batch_size]
    for seed in range(settings.seeds):
        generator = torch.Generator().manual_seed(seed)
        net = draw_net(code, kernel, batch, settings, generator).to(batch.device)
        gradients = gradients_of(net, F.cross_entropy(net(batch), labels))
        factors = rate_factors(net, settings)
        steps = [-factors[name] * gradient for name, gradient in gradients.items()]
        output = net.vertices(batch)[code.n_vertices - 1]
        (moved,) = first_order_updates([output], list(net.parameters()), steps)
        moments.append(float(moved.square().mean()))
    return float(np.mean(moments) ** -0.5)
