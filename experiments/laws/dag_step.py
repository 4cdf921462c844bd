"""One step of gradient descent in wide MLPs on graphs: the update of the output, by Monte Carlo.

Equation 1 of Chen et al. (2024): z_v = sum_u W_vu a_u with a_u = relu(z_u), a_0 the input with
||a_0||^2 = n, W_vu ~ N(0, C_vu / n), readout N(0, 1/n^2), loss derivative 1. All graphs share
the draws of their weights, so a draw costs one matrix product per pair of vertices.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from cells.dag import DagCode
from experiments.laws.graphs import DegreeRule, layer_variances
from rebench.recipes.recursion import Graphs


def sample_dag_updates(
    codes: Sequence[DagCode],
    *,
    rule: DegreeRule,
    width: int,
    draws: int,
    generator: torch.Generator,
) -> pd.DataFrame:
    """The first-order E[dz^2] / eta^2 of the output vertex, one row per graph.

    Returns:
        Columns code, update (mean over draws and units), standard_error.
    """
    gains = torch.from_numpy(layer_variances(Graphs.of(codes), rule)).float().sqrt()
    sampled = torch.stack([_sample_draw(gains, width, generator) for _ in range(draws)])
    spread = sampled.std(0, correction=0) / max(1, draws - 1) ** 0.5
    return pd.DataFrame(
        {
            "code": [str(code) for code in codes],
            "update": sampled.mean(0).double().numpy(),
            "standard_error": spread.double().numpy(),
        }
    )


def _sample_draw(gains: torch.Tensor, width: int, generator: torch.Generator) -> torch.Tensor:
    """The mean squared output update of every graph under one draw of the weights."""
    graphs, size, _ = gains.shape
    pairs = [(v, u) for v in range(1, size) for u in range(v) if bool(gains[:, v, u].any())]
    weight = {pair: torch.randn(width, width, generator=generator) / width**0.5 for pair in pairs}
    x = torch.randn(1, width, generator=generator)
    x *= width**0.5 / x.norm()
    gain = {(v, u): gains[:, v, u, None] for v, u in pairs}

    activation = {0: x.expand(graphs, -1)}
    gate: dict[int, torch.Tensor] = {}
    for v in range(1, size):
        z = torch.zeros(graphs, width)
        for u in (u for t, u in pairs if t == v):
            z += gain[v, u] * (activation[u] @ weight[v, u].T)
        activation[v], gate[v] = z.clamp(min=0), (z > 0).float()

    last = size - 1
    backward = {last: torch.randn(1, width, generator=generator) / width * gate[last]}
    for u in range(last - 1, 0, -1):
        b = torch.zeros(graphs, width)
        for v in (t for t, s in pairs if s == u):
            b += gain[v, u] * (backward[v] @ weight[v, u])
        backward[u] = gate[u] * b

    tangent = {0: torch.zeros(graphs, width)}
    for v in range(1, size):
        dz = torch.zeros(graphs, width)
        for u in (u for t, u in pairs if t == v):
            passed = tangent[u] * gate[u] if u else tangent[u]
            norm2 = activation[u].square().sum(1, keepdim=True)
            dz += gain[v, u] * (passed @ weight[v, u].T) + (gain[v, u] > 0) * norm2 * backward[v]
        tangent[v] = dz
    return tangent[last].square().mean(1)
