"""The coordinate check of muP: how a few steps of training move each layer, over widths.

Under a recipe that transfers across width, the change of every layer's output is of the same size
at any width; under PyTorch's default init and one learning rate it grows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from rebench.nets import LayeredNet
from rebench.recipes import Architecture, Recipe
from rebench.theory.bafu import watch
from rebench.train import StackedSGD

__all__ = ["Coordinate", "coordinate_check", "width_slopes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """Root mean square change of one layer's output since init, averaged over seeds."""

    width: int
    step: int
    layer: str
    change: float


def coordinate_check(
    build: Callable[[int], LayeredNet],
    graph: Architecture,
    rule: Recipe,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    widths: Sequence[int] = (64, 128, 256, 512, 1024),
    steps: int = 4,
    seeds: Sequence[int] = (0, 1, 2),
) -> list[Coordinate]:
    """Train `build(width)` by plain SGD on one batch, and measure after every step."""
    found = []
    for width in widths:
        changes: dict[tuple[int, str], list[float]] = {}
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):  # PyTorch's own init is drawn over
                net = build(width).train()
            rule.apply_init(net, graph, torch.Generator().manual_seed(seed))
            for step, outputs in enumerate(_changes(net, graph, rule, images, labels, steps), 1):
                for layer, change in outputs.items():
                    changes.setdefault((step, layer), []).append(change)
        found += [
            Coordinate(width=width, step=step, layer=layer, change=sum(values) / len(values))
            for (step, layer), values in changes.items()
        ]
    return found


def width_slopes(found: Sequence[Coordinate]) -> dict[str, float]:
    """Return, by layer, the exponent of its change in the width after the last step."""
    last = max(coordinate.step for coordinate in found)
    slopes = {}
    for layer in dict.fromkeys(coordinate.layer for coordinate in found):
        points = {
            math.log(coordinate.width): math.log(coordinate.change)
            for coordinate in found
            if coordinate.layer == layer and coordinate.step == last
        }
        slopes[layer] = statistics.linear_regression(list(points), list(points.values())).slope
    return slopes


def _changes(
    net: LayeredNet,
    graph: Architecture,
    rule: Recipe,
    images: torch.Tensor,
    labels: torch.Tensor,
    steps: int,
) -> list[dict[str, float]]:
    layers = [layer for layer in net.weight_layers() if layer.computed]
    values = rule.hyperparameters(graph)
    if rule.needs != "graph":
        values = rule.measure(net, graph, images, labels, torch.Generator().manual_seed(0))
    sgd = StackedSGD(net)
    sgd.set_rates([values.learning_rate], [values.layer_multipliers])
    changes: list[dict[str, float]] = []
    first: dict[str, torch.Tensor] = {}
    for step in range(steps + 1):
        with watch(net, [layer.name for layer in layers]) as outputs:
            loss = F.cross_entropy(net(images), labels)
        first = first or {name: z.detach() for name, z in outputs.items()}
        if step:
            changes.append(
                {
                    name: float((outputs[name].detach() - z).square().mean().sqrt())
                    for name, z in first.items()
                }
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        sgd.step()
    return changes
