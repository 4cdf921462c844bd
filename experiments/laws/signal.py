"""Wide MLPs on graphs, by Monte Carlo: the signal at init, and the output's update in one step.

All graphs share the draws of their weights, so a draw costs one matrix product per pair of
vertices. Updates follow equation 1: z_v = sum_u W_vu a_u with a_u = relu(z_u), a_0 the input with
||a_0||^2 = n, W_vu ~ N(0, C_vu / n), readout N(0, 1/n^2), loss derivative 1.

Which in-degree rule of the init preserves the signal, in which order of a graph network?

Chen et al. (2024) mix two orders: **before** (equation 1), z_v = sum_u W_vu relu(z_u), activation
before the weights; **after** (the released code), h_v = sum_u relu(W_vu h_u). Equation 4 divides
the variance by the in-degree of an edge's source, the appendix by that of its target. Equation 4 is
about pre-activations. In the order "before" these are the vertices. In the order "after" they are
W_vu h_u on every edge, with twice the input's second moment in a chain.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from cells.dag import DagCode
from experiments.laws.bafu import first_order_updates
from experiments.laws.graphs import DEGREE_RULES, DegreeRule, Order, layer_variances
from rebench.recipes.recursion import Graphs

ORDERS: tuple[Order, ...] = ("before", "after")


class SecondMoments(NamedTuple):
    """Second moments of all graphs; nan for vertices and edges that do not exist."""

    vertices: torch.Tensor  # (graph, vertex), without the input
    pre_activations: torch.Tensor  # (graph, vertex), or (graph, target, source)


def sample_second_moments(
    codes: Sequence[DagCode],
    *,
    order: Order,
    rule: DegreeRule,
    scale_skips: bool,
    width: int,
    draws: int,
    generator: torch.Generator,
) -> SecondMoments:
    """Return second moments at init, divided by those of a chain; nan off all paths.

    Args:
        codes: graphs with equal numbers of vertices.
        order: whether the activation is before or after an edge's weights.
        rule: variance of layer edges.
        scale_skips: multiply the skips into a vertex of in-degree d by d^(-1/2).
        width: units per vertex.
        draws: number of networks; all graphs share their weights.
        generator: source of the random numbers.
    """
    read = Graphs.of(codes, scale_skips=scale_skips)
    gains = torch.from_numpy(layer_variances(read, rule)).float().sqrt()
    skips = torch.from_numpy(read.skips).float()
    graphs, size, _ = gains.shape
    total = torch.zeros(graphs, size)
    on_edges = torch.zeros(graphs, size, size)
    for _ in range(draws):
        start = torch.randn(1, width, generator=generator)
        z = [start.expand(graphs, -1)]
        for v in range(1, size):
            into = torch.zeros(graphs, width)
            for u in range(v):
                weight = torch.randn(width, width, generator=generator) / width**0.5
                if order == "before":
                    layer = z[u].clamp(min=0) @ weight.T * gains[:, v, u, None]
                else:
                    weighed = z[u] @ weight.T * gains[:, v, u, None]
                    on_edges[:, v, u] += weighed.square().mean(1) / start.square().mean() / 2
                    layer = weighed.clamp(min=0)
                into += layer + skips[:, v, u, None] * z[u]
            z.append(into)
        total += torch.stack([vertex.square().mean(1) for vertex in z], 1) / start.square().mean()
    moments = total / draws
    for index, code in enumerate(codes):
        live = code.live_vertices()
        moments[index, [v for v in range(size) if v not in live]] = torch.nan
    if order == "before":
        return SecondMoments(moments[:, 1:], moments[:, 1:])
    layers = torch.from_numpy(read.layers)
    return SecondMoments(moments[:, 1:], (on_edges / draws).where(layers, torch.nan))


def measure_signal(
    layered: Sequence[DagCode],
    skipped: Sequence[DagCode],
    *,
    width: int,
    draws: int,
    generator: torch.Generator,
) -> pd.DataFrame:
    """Compare second moments at init with those of a chain, for each rule.

    Columns edges, order, rule, of (pre-activations, or vertices if they differ from these),
    count, median, min, max, typical_factor.
    """
    rows = []
    cases = [("layers", layered, False), ("skips", skipped, False), ("scaled skips", skipped, True)]
    for (edges, codes, scale_skips), order, rule in itertools.product(cases, ORDERS, DEGREE_RULES):
        moments = sample_second_moments(
            codes, order=order, rule=rule, scale_skips=scale_skips,
            width=width, draws=draws, generator=generator,
        )  # fmt: skip
        kinds = {"pre-activations": moments.pre_activations}
        if order == "after":
            kinds["vertices"] = moments.vertices
        rows += [
            {"edges": edges, "order": order, "rule": rule, "of": of, **_spread(values)}
            for of, values in kinds.items()
        ]
    return pd.DataFrame(rows)


def _spread(values: torch.Tensor) -> dict[str, float]:
    finite = values[values.isfinite()].double().numpy()
    return {
        "count": len(finite),
        "median": float(np.median(finite)),
        "min": float(finite.min()),
        "max": float(finite.max()),
        "typical_factor": float(np.exp(np.sqrt(np.mean(np.log(finite) ** 2)))),
    }


def sample_dag_updates(
    codes: Sequence[DagCode],
    *,
    rule: DegreeRule,
    width: int,
    draws: int,
    generator: torch.Generator,
) -> pd.DataFrame:
    """Return the first-order E[dz^2] / eta^2 of the output vertex, one row per graph.

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
    """Return the mean squared output update of every graph under one draw of the weights.

    The step moves W_vu by its gradient, the loss gradient of z_v times a_u. Thus W_vu a_u moves by
    this gradient times ||a_u||^2, and the other updates follow to first order.
    """
    graphs, size, _ = gains.shape
    pairs = [(v, u) for v in range(1, size) for u in range(v) if bool(gains[:, v, u].any())]
    weight = {pair: torch.randn(width, width, generator=generator) / width**0.5 for pair in pairs}
    x = torch.randn(1, width, generator=generator)
    x *= width**0.5 / x.norm()
    shifts = torch.zeros(graphs, size, width, requires_grad=True)  # added to every vertex
    active = [x.expand(graphs, -1)]
    squares = torch.zeros(graphs, size, 1)
    for v in range(1, size):
        z = shifts[:, v]
        for u in (u for t, u in pairs if t == v):
            gain = gains[:, v, u, None]
            z = z + gain * (active[u] @ weight[v, u].T)
            squares[:, v] += (gain > 0) * active[u].detach().square().sum(1, keepdim=True)
        active.append(z.relu())
    readout = torch.randn(1, width, generator=generator) / width
    pulled = torch.autograd.grad((active[-1] * readout).sum(), shifts, retain_graph=True)[0]
    (moved,) = first_order_updates([z], [shifts], [pulled * squares])
    return moved.square().mean(1)
