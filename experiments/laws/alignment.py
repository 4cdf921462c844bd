"""Backward-aligned feature updates, measured: the identity, alignment with depth, invariance.

Chizat & Netrapalli (2023) have three claims. The formula for the aligned update is exact at cuts
(`bafu`). Alignment decays with depth in MLPs, but not in ResNets with branch scale c / sqrt(L)
(`speed`). Training with rates from contributions does not depend on the scale of layers (3.2 and
appendix B.1).

The third claim is tested with weights that are multiplied by factors without changing the network's
function: in ReLU MLPs factors whose product is 1, before batch normalisation any factor. A factor a
divides the gradient by a. A rate from contributions, C / ||grad||^2, multiplies the step by a, so
the next function is equal again. One rate for all layers multiplies the step by 1/a.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from experiments.laws.bafu import gradients_of, measure_feature_updates
from experiments.laws.cells import CellNetwork, draw_cell
from experiments.laws.conv_step import DeepNet, DeepPlan
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.result import (
    Measured,
    Verdict,
    listing,
    median_and_quartiles,
    median_and_range,
    span,
    text,
    verdict,
)
from experiments.laws.speed import depth_exponent, measure_speeds

SMALL_CELL = CellNetwork(channels=4)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvarianceSettings:
    """Settings of an MLP, of cells and of their training.

    Weights are multiplied by factors between 1 / largest and largest.
    """

    width: int = 64
    depth: int = 8
    cells: tuple[int, ...] = (6111, 12345)
    draws: int = 3
    steps: int = 40
    batch_size: int = 32
    loss_drop: float = 0.02
    largest: float = 4.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentSettings:
    """Sizes of the networks.

    A branch of `branches`, (constant, power), has the scale b = constant * L^power at depth L. The
    MLP has one branch of scale 1.
    """

    width: int = 200
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    branches: tuple[tuple[float, float], ...] = (
        (1.0, 0.0), (1.0, -1.0), (0.5, -0.5), (1.0, -0.5), (2.0, -0.5), (1.0, -0.25),
    )  # fmt: skip
    draws: int = 24
    cells: tuple[int, ...] = (11, 6111, 12345)
    training_steps: int = 10
    invariance: InvarianceSettings = dataclasses.field(default_factory=InvarianceSettings)
    dataset: str | None = None
    data_root: Path | None = None
    seed: int = 0


def measure(settings: AlignmentSettings, pieces: Pieces) -> Measured:
    """Measure the speed formula, the cosine by depth, and training with rescaled weights."""
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root).pooled(8)
    [identity] = pieces.map(
        "identity", _identity, [{"cells": settings.cells, "steps": settings.training_steps}],
        images=images, seed=settings.seed,
    )  # fmt: skip
    branches = {branch_name(*branch): branch for branch in settings.branches}
    speeds = measure_speeds(
        pieces, branches, settings.depths,
        width=settings.width, draws=settings.draws, seed=settings.seed,
    ).rename(columns={"network": "branch"})  # fmt: skip
    published = speeds[["branch", "depth", "layer", "cosine", "limit"]]
    scaled = measure_invariance(settings.invariance, images, settings.seed, pieces)
    by_layer = published.groupby(["branch", "depth", "layer"], sort=False).mean().reset_index()
    tables = {"identity": identity, "alignment": by_layer, "invariance": scaled}
    verdicts = [
        *_identity_verdicts(identity, images.name),
        *_alignment_verdicts(published, settings, rng),
        *invariance_verdicts(scaled, settings.invariance, images.name),
    ]
    return tables, verdicts


def branch_name(constant: float, power: float) -> str:
    """Return the name of networks with branches b = constant * L^power; b = 1 is an MLP."""
    return "MLP" if (constant, power) == (1.0, 0.0) else f"ResNet, b = {constant:g} L^{power:g}"


def _identity(cells: tuple[int, ...], steps: int, images: SmallImages, seed: int) -> pd.DataFrame:
    """Measure the ratio of the aligned update to its formula, at init and after training.

    Rows with `cut` are of modules through which all paths lead; the others are edges of cells.
    """
    x = images.pixels[:8].double().expand(-1, 3, -1, -1)
    labels = images.labels[:8]
    rows = []
    for index in cells:
        generator = torch.Generator().manual_seed(seed + index)
        net = draw_cell(index, SMALL_CELL, generator, images.classes, torch.float64)
        sgd = torch.optim.SGD(net.parameters(), lr=0.05)
        cuts = ["stem", *[f"cells.{i}" for i in range(5)], "lastact", "classifier"]
        inside = [layer.name for layer in net.weight_layers() if layer.edge and layer.computed]
        for step in (0, steps):
            for _ in range(step):
                sgd.zero_grad()
                F.cross_entropy(net(x), labels).backward()  # type: ignore[no-untyped-call]
                sgd.step()
            frame = measure_feature_updates(
                net, x, lambda out: F.cross_entropy(out, labels), [*cuts, *inside], 0.05
            )
            frame["cut"] = [True] * len(cuts) + [False] * len(inside)
            frame.insert(0, "cell", index)
            frame.insert(1, "step", step)
            rows.append(frame)
    listed = pd.concat(rows, ignore_index=True)
    listed["ratio"] = listed["aligned"] / listed["formula"]
    return listed


def _identity_verdicts(identity: pd.DataFrame, dataset: str) -> Iterator[Verdict]:
    cut = identity.loc[identity["cut"], "ratio"]
    inside = identity.loc[~identity["cut"], "ratio"]
    worst = float((cut - 1).abs().max())
    yield verdict(
        "bafu.cut", median_and_range(cut), count=len(cut), dataset=dataset, worst=worst,
        holds="holds: largest error" if worst < 1e-9 else "error",
    )  # fmt: skip
    off = ((inside - 1).abs() > 0.05).mean()
    yield verdict(
        "bafu.edge", median_and_range(inside), count=len(inside), dataset=dataset, off=off
    )


def _alignment_verdicts(
    published: pd.DataFrame, settings: AlignmentSettings, rng: np.random.Generator
) -> Iterator[Verdict]:
    """Fit the exponent in depth of the last layer's cosine, for every kind of branch.

    The last verdict compares the cosines of MLPs with the paper's bound.
    """
    last = published[published["layer"] == published["depth"]]
    papers = {-0.5: 0.0, 0.0: -0.5}  # branch's power -> exponent of the cosine
    for constant, power in settings.branches:
        network = branch_name(constant, power)
        part = last[last["branch"] == network]
        deepest = part[part["depth"] == part["depth"].max()]
        yield depth_exponent(
            "bafu.alignment", part, "cosine", rng, width=settings.width,
            paper=papers.get(power), network=network, depth=deepest["depth"].iloc[0],
            cosine=deepest["cosine"].mean(), limit=deepest["limit"].iloc[0],
        )  # fmt: skip
    cosines = last[last["branch"] == "MLP"].groupby("depth")["cosine"].mean()
    ratios = cosines * np.sqrt(8 * cosines.index.to_numpy(dtype=np.float64)) / 3
    yield verdict(
        "bafu.bound", median_and_range(ratios), s=settings, depths=span(settings.depths),
        above=(ratios >= 1).sum(), count=len(ratios), limit=math.sqrt(4 / 3),
    )  # fmt: skip


def draw_factors(
    names: Sequence[str], largest: float, generator: torch.Generator
) -> dict[str, float]:
    """Draw a factor for every name, in 1 / largest .. largest; their product is 1."""
    half = len(names) // 2
    drawn = (2 * torch.rand(half, generator=generator, dtype=torch.float64) - 1) * math.log(largest)
    logs = torch.cat([drawn, -drawn, torch.zeros(len(names) - 2 * half, dtype=torch.float64)])
    shuffled = logs[torch.randperm(len(names), generator=generator)]
    return dict(zip(names, shuffled.exp().tolist(), strict=True))


def rescaled(net: nn.Module, factors: Mapping[str, float]) -> nn.Module:
    """Copy a network and multiply the named parameters by their factors."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        for name, factor in factors.items():
            other.get_parameter(name).mul_(factor)
    return other


def controlled_rates(gradients: Mapping[str, torch.Tensor], loss_drop: float) -> dict[str, float]:
    """Return rates at which all weights contribute equally to a first-order loss drop.

    C_l = eta_l ||grad_l||^2 = loss_drop / L.
    """
    squares = {name: float(grad.double().square().sum()) for name, grad in gradients.items()}
    reached = {name: square for name, square in squares.items() if square > 0}
    return {name: loss_drop / (len(reached) * square) for name, square in reached.items()}


def shared_rates(gradients: Mapping[str, torch.Tensor], loss_drop: float) -> dict[str, float]:
    """Return one rate for all weights that gives the same first-order loss drop."""
    squares = sum(float(gradient.square().sum()) for gradient in gradients.values())
    return dict.fromkeys(gradients, loss_drop / squares)


def draw_batches(
    count: int, size: int, steps: int, generator: torch.Generator
) -> list[torch.Tensor]:
    """Return the images of each step: one pass over many images, several over few."""
    batches: list[torch.Tensor] = []
    while len(batches) < steps:
        order = torch.randperm(count, generator=generator)
        batches += torch.split(order, size)[: max(1, count // size)]
    return batches[:steps]


def train_rescaled(
    net: nn.Module,
    factors: Mapping[str, float],
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
    loss_drop: float,
) -> pd.DataFrame:
    """Train a network as drawn and with rescaled weights, by two rules for the rates.

    The rules are equal contributions of all weights, and one rate for all weights.

    Returns:
        One row per rule and step: the loss drop of the step on its batch, `as_drawn` and
        `rescaled`.
    """
    frames = []
    for rule, controlled in (("equal contributions", True), ("one rate", False)):
        drops = {
            "as_drawn": _drops(net, batches, loss_drop, controlled=controlled),
            "rescaled": _drops(rescaled(net, factors), batches, loss_drop, controlled=controlled),
        }
        frames.append(pd.DataFrame({"rule": rule, "step": range(len(batches)), **drops}))
    return pd.concat(frames, ignore_index=True)


def _drops(
    net: nn.Module,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    loss_drop: float,
    *,
    controlled: bool,
) -> list[float]:
    """Train a copy; return the loss drop of each step on its batch."""
    net = copy.deepcopy(net)
    drops = []
    rates: dict[str, float] = {}
    for x, labels in batches:
        value = F.cross_entropy(net(x), labels)
        gradients = gradients_of(net, value)
        if controlled:
            rates = controlled_rates(gradients, loss_drop)
        rates = rates or shared_rates(gradients, loss_drop)
        with torch.no_grad():
            for name, gradient in gradients.items():
                net.get_parameter(name).sub_(gradient, alpha=rates.get(name, 0.0))
            drops.append(float(value.detach() - F.cross_entropy(net(x), labels)))
    return drops


def measure_invariance(
    settings: InvarianceSettings, images: SmallImages, seed: int, pieces: Pieces
) -> pd.DataFrame:
    """Measure the loss drops of steps, as drawn and rescaled: one piece per network."""
    cases = [{"cell": cell} for cell in (None, *settings.cells)]
    frames = pieces.map("invariance", _measure, cases, settings=settings, images=images, seed=seed)
    return pd.concat(frames, ignore_index=True)


def _measure(
    cell: int | None, settings: InvarianceSettings, images: SmallImages, seed: int
) -> pd.DataFrame:
    frames = []
    for draw in range(settings.draws):
        generator = torch.Generator().manual_seed(seed * 7919 + draw)
        pixels = images.pixels.double()
        net: nn.Module
        if cell is None:
            net = DeepNet(
                DeepPlan(width=settings.width, depth=settings.depth), generator,
                in_features=pixels[0].numel(), classes=images.classes,
            ).double()  # fmt: skip
            names = [name for name, _ in net.named_parameters()]
        else:
            pixels = pixels.expand(-1, 3, -1, -1)
            net = draw_cell(cell, SMALL_CELL, generator, images.classes, torch.float64)
            for module in net.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eps = 1e-30  # the usual value does not fully cancel a factor
                    # A bias before a normalisation has a gradient of rounding errors only,
                    # which an equal contribution would enlarge.
                    module.requires_grad_(False)
            names = [
                layer.parameter
                for layer in net.weight_layers()
                if layer.followed_by_norm and layer.computed
            ]
        factors = draw_factors(names, settings.largest, generator)
        batches = [
            (pixels[batch], images.labels[batch])
            for batch in draw_batches(len(pixels), settings.batch_size, settings.steps, generator)
        ]
        frame = train_rescaled(net, factors, batches, settings.loss_drop)
        frame.insert(0, "network", "MLP" if cell is None else f"cell {cell}")
        frame.insert(1, "draw", draw)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def invariance_verdicts(
    frame: pd.DataFrame, settings: InvarianceSettings, dataset: str
) -> Iterator[Verdict]:
    """Compare the loss drops of steps with the requested drop, and between rescaled networks."""
    for networks in ("MLPs", "cells with batch normalisation"):
        part = frame[(frame["network"] == "MLP") == (networks == "MLPs")]
        ratios = {
            str(rule): runs["rescaled"] / runs["as_drawn"] for rule, runs in part.groupby("rule")
        }
        equal = part.loc[part["rule"] == "equal contributions", "as_drawn"]
        drop = median_and_quartiles(equal / settings.loss_drop)
        worst = float((ratios["equal contributions"] - 1).abs().max())
        shared = {"networks": networks, "dataset": dataset, "s": settings}
        held = "reached" if abs(drop.value - 1) < 0.15 else "not reached"
        yield verdict("bafu.drop", drop, **shared, held=held)
        yield verdict(
            "bafu.rescaled", median_and_range(ratios["equal contributions"]), **shared,
            said=text("bafu.networks", networks, s=settings, cells=listing(settings.cells)),
            held="invariant" if worst < 1e-6 else "not invariant", worst=worst,
            one_rate=median_and_range(ratios["one rate"]),
        )  # fmt: skip
