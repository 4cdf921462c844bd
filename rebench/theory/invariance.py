"""Does training see how its layers are scaled? Chizat & Netrapalli (2023), 3.2 and appendix B.1.

Weights are multiplied by factors that leave the network's function as it was: factors of product 1
in ReLU MLPs, any factor where batch normalisation follows. A factor a divides the gradient by a, so
that a rate set by contributions, C / ||grad||^2, moves the weights a times as far, and the next
function is the same again. One rate for all layers moves them 1/a as far.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from cells import Cell
from rebench.nets import TinyNet
from rebench.recipes.init import he_init, initialise
from rebench.theory.control import controlled_rates, draw_batches, shared_rates, take_step
from rebench.theory.deep import DeepNet, DeepPlan
from rebench.theory.images import SmallImages
from rebench.theory.pieces import Piece
from rebench.theory.result import Verdict, median_and_range

__all__ = [
    "InvarianceSettings",
    "draw_factors",
    "he_cell_net",
    "invariance_pieces",
    "invariance_verdicts",
    "rescaled",
    "train_rescaled",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InvarianceSettings:
    """An MLP and cells, and how they are trained; factors lie in 1 / largest .. largest."""

    width: int = 64
    depth: int = 8
    cells: tuple[int, ...] = (6111, 12345)
    draws: int = 3
    steps: int = 40
    batch_size: int = 32
    loss_drop: float = 0.02
    largest: float = 4.0


def he_cell_net(index: int, classes: int, generator: torch.Generator) -> TinyNet:
    """Return a small network of a cell in float64, in training mode, by He's init."""
    net = TinyNet(Cell.from_index(index), channels=4, cells_per_stage=1, classes=classes).double()
    initialise(net, {layer.name: he_init(layer) for layer in net.weight_layers()}, generator)
    return net.train()


def draw_factors(
    names: Sequence[str], largest: float, generator: torch.Generator
) -> dict[str, float]:
    """Return a factor for every name, in 1 / largest .. largest; their product is 1."""
    half = len(names) // 2
    drawn = (2 * torch.rand(half, generator=generator, dtype=torch.float64) - 1) * math.log(largest)
    logs = torch.cat([drawn, -drawn, torch.zeros(len(names) - 2 * half, dtype=torch.float64)])
    shuffled = logs[torch.randperm(len(names), generator=generator)]
    return dict(zip(names, shuffled.exp().tolist(), strict=True))


def rescaled(net: nn.Module, factors: Mapping[str, float]) -> nn.Module:
    """Return a copy of a network with the named parameters multiplied by their factors."""
    other = copy.deepcopy(net)
    with torch.no_grad():
        for name, factor in factors.items():
            other.get_parameter(name).mul_(factor)
    return other


def train_rescaled(
    net: nn.Module,
    factors: Mapping[str, float],
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
    loss_drop: float,
) -> pd.DataFrame:
    """Train a network as it is and rescaled, by equal contributions and by one rate.

    Returns:
        One row per rule and step: by how much the step lowers its batch's loss, `as_drawn` and
        `rescaled`.
    """
    frames = []
    for rule in ("equal contributions", "one rate"):
        as_drawn, other = (
            _drops(copied, batches, loss_drop, controlled=rule == "equal contributions")
            for copied in (copy.deepcopy(net), rescaled(net, factors))
        )
        frames.append(
            pd.DataFrame(
                {"rule": rule, "step": range(len(batches)), "as_drawn": as_drawn, "rescaled": other}
            )
        )
    return pd.concat(frames, ignore_index=True)


def _drops(
    net: nn.Module,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    loss_drop: float,
    *,
    controlled: bool,
) -> list[float]:
    drops = []
    rates: dict[str, float] = {}
    for x, labels in batches:
        value = F.cross_entropy(net(x), labels)
        equal, gradients = controlled_rates(net, value, loss_drop)
        if controlled:
            rates = equal
        rates = rates or shared_rates(gradients, loss_drop)
        take_step(net, rates, gradients)
        with torch.no_grad():
            drops.append(float(value.detach() - F.cross_entropy(net(x), labels)))
    return drops


def invariance_pieces(settings: InvarianceSettings, images: SmallImages, seed: int) -> list[Piece]:
    """Return the pieces of the measurement: one a network."""
    return [
        Piece(
            kind="invariance",
            settings={**dataclasses.asdict(settings), "cells": list(settings.cells),
                      "network": "MLP" if cell is None else cell, "seed": seed,
                      "data": images.name},
            compute=partial(_measure, settings, images, seed, cell),
        )
        for cell in (None, *settings.cells)
    ]  # fmt: skip


def _measure(
    settings: InvarianceSettings, images: SmallImages, seed: int, cell: int | None
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
            net = he_cell_net(cell, images.classes, generator)
            for module in net.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eps = 1e-30  # the usual one does not quite take a factor away
                    # A bias that the next normalisation takes away has a gradient of rounding
                    # errors alone, which an equal contribution would blow up.
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
    frame: pd.DataFrame, settings: InvarianceSettings, dataset: str, law: str
) -> list[Verdict]:
    """Return, for MLPs and for cells, how far rescaled layers change what a step does."""
    verdicts = []
    described = {
        "MLPs": f"{settings.depth} layers of width {settings.width}, factors of product 1",
        "cells with batch normalisation": f"cells {', '.join(map(str, settings.cells))}, "
        "normalisations not trained, a factor for every convolution before one",
    }
    for networks, said in described.items():
        part = frame[(frame["network"] == "MLP") == (networks == "MLPs")]
        ratios = {
            str(rule): runs["rescaled"] / runs["as_drawn"] for rule, runs in part.groupby("rule")
        }
        ours = median_and_range(ratios["equal contributions"])
        worst = float((ratios["equal contributions"] - 1).abs().max())
        held = "invariant" if worst < 1e-6 else "not invariant"
        verdicts.append(
            Verdict(
                law=law,
                quantity="loss drop per step with layers rescaled over that as drawn, equal "
                f"contributions, {networks}",
                paper=1.0,
                ours=ours,
                settings=f"{said}, each in 1/{settings.largest:g}-{settings.largest:g}; "
                f"{dataset}, {settings.steps} steps, drop {settings.loss_drop:g} a step, float64, "
                f"{settings.draws} draws, median and range",
                verdict=f"{held}: largest error {worst:.1g}; by one rate, for the same drop at the "
                f"first step: {median_and_range(ratios['one rate'])}",
            )
        )
    return verdicts
