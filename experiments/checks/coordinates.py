#!/usr/bin/env python
"""Check whether a recipe changes every layer equally at any width (coordinate check of muP).

Run: ``experiments/checks/coordinates.py ["mup(base_width=64,base_lr=1.0)"] [--widths 64 128 256]``.
The network is an MLP on a graph. If a recipe transfers across width, training changes every layer's
output equally at any width: exponents are 0. With PyTorch's init and one rate the change grows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

sys.path.insert(0, str(Path(__file__).parents[2]))

from cells import DagCode
from experiments.laws.bafu import watch
from experiments.laws.dagnet import DagMLP
from experiments.laws.estimate import log_slope
from experiments.laws.images import training_images
from rebench.recipes import parse_recipe
from rebench.train import StackedSGD

STEPS = 4
SEEDS = 3
BATCH = 128


def exponents(
    recipe: str, graph: str, widths: Sequence[int], images: torch.Tensor, labels: torch.Tensor
) -> pd.Series:
    """Fit the exponent in width of each layer's output change under plain SGD on one batch.

    The change is the root mean square since init after the last step, averaged over seeds.
    """
    rows = []
    for width in widths:
        for seed in range(SEEDS):
            with torch.random.fork_rng(devices=[]):  # PyTorch's own init is replaced
                net = DagMLP(DagCode.parse(graph), inputs=images[0].numel(), width=width).train()
            rows.append({"width": width, **changes(net, recipe, images, labels, seed)})
    means = pd.DataFrame(rows).groupby("width").mean()
    return means.apply(lambda change: log_slope(means.index, change))


def changes(
    net: DagMLP, recipe: str, images: torch.Tensor, labels: torch.Tensor, seed: int
) -> dict[str, float]:
    """Return the change of every layer's output by training."""
    rule = parse_recipe(recipe)
    rule.apply_init(net, net.code, torch.Generator().manual_seed(seed))
    values = rule.hyperparameters(net.code)
    if rule.needs != "graph":
        values = rule.measure(net, net.code, images, labels, torch.Generator().manual_seed(0))
    sgd = StackedSGD(net)
    sgd.set_rates([values.learning_rate], [values.layer_multipliers])
    seen = []
    for _ in range(STEPS + 1):
        with watch(net, [layer.name for layer in net.weight_layers() if layer.computed]) as outputs:
            F.cross_entropy(net(images), labels).backward()
        seen.append({name: output.detach() for name, output in outputs.items()})
        sgd.step()
    return {name: float((seen[-1][name] - z).square().mean().sqrt()) for name, z in seen[0].items()}


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="mup(base_width=64,base_lr=1.0)")
    parser.add_argument("--graph", default="2_02_002")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-root", type=Path)
    asked = parser.parse_args()
    if len(set(asked.widths)) < 2 or min(asked.widths) < 1:
        parser.error(f"widths must be two or more positive numbers, got {asked.widths}")
    images, labels = training_images(asked.dataset, BATCH, root=asked.data_root)
    found = exponents(asked.recipe, asked.graph, asked.widths, images, labels)
    print(found.round(3).to_string())


if __name__ == "__main__":
    main()
