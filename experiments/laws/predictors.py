"""What predicts a maximal learning rate: equation 8 in its versions, and the baselines beside it.

A correlation alone says little: it cannot see a wrong slope or a wrong scale, and a rule that
counts paths correlates too. Every predictor is scored by r, by slope and by typical factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import DagCode, moment
from experiments.laws.bafu import first_order_updates
from experiments.laws.graph_lr import SearchSettings, draw_net, rate_factors
from experiments.laws.graphs import edge_variances, with_stem
from experiments.laws.images import SmallImages
from experiments.laws.recursion import update_of
from rebench.recipes.recursion import Graphs

# Depths of paths as layers of the graph; as the code of the cells counts; and its MLPs' and CNNs'.
OFFSETS = (0, 1, 3)


def predict(
    graphs: Sequence[tuple[DagCode, int | None]], images: SmallImages, settings: SearchSettings
) -> pd.DataFrame:
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
