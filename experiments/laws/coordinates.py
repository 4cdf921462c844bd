"""The coordinate check of muP: how a few steps of training move each layer, over widths.

Under a recipe that transfers across width, the change of every layer's output is of the same size
at any width; under PyTorch's default init and one learning rate it grows.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from cells import DagCode
from experiments.laws.bafu import watch
from experiments.laws.dagnet import DagMLP
from experiments.laws.estimate import log_slope
from experiments.laws.images import training_images
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, listing, median_and_range, verdict
from rebench.data import data_spec
from rebench.errors import InputError
from rebench.recipes import Recipe, parse_recipe
from rebench.train import StackedSGD


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    """A recipe, an MLP on a graph at several widths, and a few steps on one batch."""

    recipe: str = "mup(base_width=64,base_lr=1.0)"
    graph: str = "2_02_002"
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    steps: int = 4
    seeds: int = 3
    batch_size: int = 128
    dataset: str = "digits"
    data_root: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.widths)) < 2 or min(self.widths) < 1:
            raise InputError(f"widths must be two or more positive numbers, got {self.widths}")


def coordinate_check(
    settings: CoordinateSettings, images: torch.Tensor, labels: torch.Tensor, classes: int = 10
) -> pd.DataFrame:
    """Train by plain SGD on one batch at every width, and measure after every step.

    Returns:
        Columns width, step, layer and change: the root mean square change of a layer's output
        since init, averaged over seeds.
    """
    rule, code = parse_recipe(settings.recipe), DagCode.parse(settings.graph)
    rows = []
    for width in sorted(set(settings.widths)):
        for seed in range(settings.seed, settings.seed + settings.seeds):
            with torch.random.fork_rng(devices=[]):  # PyTorch's own init is drawn over
                net = DagMLP(code, inputs=images[0].numel(), width=width, classes=classes).train()
            rule.apply_init(net, code, torch.Generator().manual_seed(seed))
            rows += [
                {"width": width, "step": step, "layer": layer, "change": change}
                for step, outputs in enumerate(
                    _changes(net, code, rule, images, labels, settings.steps), 1
                )
                for layer, change in outputs.items()
            ]
    by_point = pd.DataFrame(rows).groupby(["width", "step", "layer"], sort=False)
    return by_point["change"].mean().reset_index()


def width_slopes(changes: pd.DataFrame) -> pd.DataFrame:
    """The exponent of each layer's change in the width after the last step: layer, exponent."""
    last = changes[changes["step"] == changes["step"].max()]
    rows = [
        {"layer": layer, "exponent": log_slope(part["width"], part["change"])}
        for layer, part in last.groupby("layer", sort=False)
    ]
    return pd.DataFrame(rows)


def _changes(
    net: DagMLP,
    graph: DagCode,
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


def measure(settings: CoordinateSettings, pieces: Pieces) -> Measured:  # noqa: ARG001 - a law's signature
    """Check whether training moves each layer of an MLP alike at every width."""
    images, labels = training_images(settings.dataset, settings.batch_size, root=settings.data_root)
    changes = coordinate_check(settings, images, labels, data_spec(settings.dataset).classes)
    slopes = width_slopes(changes)
    slope = verdict(
        "coordinates.slope", median_and_range(slopes["exponent"]), s=settings,
        widths=listing(settings.widths),
        worst=slopes["layer"].iloc[int(slopes["exponent"].abs().argmax())],
    )  # fmt: skip
    return {"changes": changes, "exponents": slopes}, [slope]
