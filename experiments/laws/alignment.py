"""Backward-aligned feature updates, measured: the identity, alignment with depth, invariance.

Chizat & Netrapalli (2023): the identity at cuts; the alignment of MLPs decays with depth, that of
ResNets with branch scale c / sqrt(L) does not, in their networks (`speed`); and training by
contributions does not see how layers are scaled (`invariance`).
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from experiments.laws.bafu import measure_feature_updates
from experiments.laws.cells import draw_cell
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.invariance import (
    SMALL_CELL,
    InvarianceSettings,
    invariance_verdicts,
    measure_invariance,
)
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict, median_and_range, span, verdict
from experiments.laws.speed import depth_exponent, measure_speeds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentSettings:
    """Sizes; branches are b = constant * L^power, below 1 but for the MLP's of 1."""

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
    """Measure the identity, the alignment with depth, and invariance."""
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
    """What networks with branches of b = constant * L^power are called; a branch of 1 is an MLP."""
    return "MLP" if (constant, power) == (1.0, 0.0) else f"ResNet, b = {constant:g} L^{power:g}"


def _identity(cells: tuple[int, ...], steps: int, images: SmallImages, seed: int) -> pd.DataFrame:
    """Aligned update over formula, at init and after training, at cuts and inside cells."""
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


def _identity_verdicts(identity: pd.DataFrame, dataset: str) -> list[Verdict]:
    cut = identity.loc[identity["cut"], "ratio"]
    inside = identity.loc[~identity["cut"], "ratio"]
    worst = float((cut - 1).abs().max())
    return [
        verdict(
            "bafu.cut", median_and_range(cut), count=len(cut), dataset=dataset, worst=worst,
            holds="holds: largest error" if worst < 1e-9 else "error",
        ),
        verdict(
            "bafu.edge", median_and_range(inside), count=len(inside), dataset=dataset,
            off=((inside - 1).abs() > 0.05).mean(),
        ),
    ]  # fmt: skip


def _alignment_verdicts(
    published: pd.DataFrame, settings: AlignmentSettings, rng: np.random.Generator
) -> list[Verdict]:
    """The exponent in depth of the last layer's cosine for every branch, and MLPs' bound."""
    last = published[published["layer"] == published["depth"]]
    papers = {-0.5: 0.0, 0.0: -0.5}  # by the branch's power; of an MLP the cosine decays
    verdicts = []
    for constant, power in settings.branches:
        network = branch_name(constant, power)
        part = last[last["branch"] == network]
        deepest = part[part["depth"] == part["depth"].max()]
        verdicts.append(
            depth_exponent(
                "bafu.alignment", part, "cosine", rng, width=settings.width,
                paper=papers.get(power), network=network, depth=deepest["depth"].iloc[0],
                cosine=deepest["cosine"].mean(), limit=deepest["limit"].iloc[0],
            )
        )  # fmt: skip
    cosines = last[last["branch"] == "MLP"].groupby("depth")["cosine"].mean()
    ratios = cosines * np.sqrt(8 * cosines.index.to_numpy(dtype=np.float64)) / 3
    bound = verdict(
        "bafu.bound", median_and_range(ratios), s=settings, depths=span(settings.depths),
        above=(ratios >= 1).sum(), count=len(ratios), limit=math.sqrt(4 / 3),
    )  # fmt: skip
    return [*verdicts, bound]
