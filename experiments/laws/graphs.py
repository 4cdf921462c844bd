"""Graphs for the measurements of laws, with their init and the exact recursion of one step.

The exact recursion of `rebench.recipes` has the ReLU before the weights, z_v = sum W relu(z_u), the
paper's equation 1. Here the ReLU may also follow the weights, h_v = sum relu(W h_u), as in the
paper's code. The derivation is in `docs/explanation/recursion.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from cells.dag import LAYER, NO_EDGE, DagCode
from rebench.errors import InputError, UnknownNameError
from rebench.recipes.recursion import (
    ExactUpdate,
    Graphs,
    carried_by_skips,
    degree_gains,
    exact_update,
)

Array: TypeAlias = npt.NDArray[np.float64]
Order: TypeAlias = Literal["before", "after"]
Side: TypeAlias = Literal["target", "source", "none"]
DegreeRule: TypeAlias = Literal["target", "source", "none", "target-mean", "source-mean"]
DEGREE_RULES: tuple[DegreeRule, ...] = ("target", "source", "none", "target-mean", "source-mean")


def all_layer_graphs(n_vertices: int) -> list[DagCode]:
    """Return the codes of all graphs with only layer edges that connect input and output."""
    targets = range(1, n_vertices)
    groups = [list(itertools.product((NO_EDGE, LAYER), repeat=target)) for target in targets]
    codes = (DagCode(operations) for operations in itertools.product(*groups))
    return [code for code in codes if code.n_paths]


def random_graphs(
    count: int,
    n_vertices: int,
    rng: np.random.Generator,
    operations: Sequence[int] = (NO_EDGE, LAYER),
    *,
    pruned: bool = True,
) -> list[DagCode]:
    """Draw `count` different connected graphs with a layer, uniform over their codes.

    Args:
        count: number of graphs.
        n_vertices: number of vertices, including input and output.
        rng: source of the random numbers.
        operations: possible operations of an edge.
        pruned: whether to remove dead edges; the graphs then differ without their dead edges.
    """
    codes: dict[DagCode, None] = {}
    for _ in range(1000 * count):
        if len(codes) == count:
            return list(codes)
        groups = tuple(
            tuple(int(op) for op in rng.choice(operations, target))
            for target in range(1, n_vertices)
        )
        code = DagCode(groups)
        if code.n_paths and any(code.depth_polynomial()[1:]):
            codes.setdefault(code.pruned() if pruned else code)
    raise InputError(f"no {count} different connected graphs of {n_vertices} vertices were found")


def chain(depth: int) -> DagCode:
    """Return the graph of one path with `depth` layers."""
    return DagCode(tuple((NO_EDGE,) * (target - 1) + (LAYER,) for target in range(1, depth + 1)))


def with_stem(code: DagCode) -> DagCode:
    """Return the graph with one more layer before vertex 0, a trained input layer."""
    return DagCode(((LAYER,), *((NO_EDGE, *group) for group in code.operations)))


def layer_variances(graphs: Graphs, rule: DegreeRule) -> Array:
    """Return C of every layer edge (graph, target, source), weights being N(0, C / fan_in).

    Args:
        graphs: graphs; their dead edges are ignored.
        rule: `target` and `source` divide 2 by the in-degree d of that end, `none` keeps 2.
            `target-mean` and `source-mean` divide by d + d (d - 1) / pi, the sum of d outputs of
            ReLUs, whose mean is not 0.
    """
    if rule not in DEGREE_RULES:
        raise UnknownNameError("degree rule", rule, DEGREE_RULES)
    side, _, mean = rule.partition("-")
    gains = degree_gains(graphs, cast("Side", side), relu_mean=bool(mean))
    return np.where(graphs.layers, gains, 0.0)


def edge_variances(code: DagCode, rule: DegreeRule | Literal["coded"]) -> Array:
    """Return C of every layer edge (target, source) of one graph.

    `coded` is the released code's rule: 2 over the in-degree of the source, dead edges counted.
    """
    graphs = Graphs.of([code])
    if rule != "coded":
        return layer_variances(graphs, rule)[0]
    degrees = np.maximum((1, *code.in_degrees()), 1)
    return np.where(graphs.layers[0], 2 / degrees, 0.0)


def update_of(graphs: Graphs, gains: Array, order: Order) -> ExactUpdate:
    """Follow second moments through all `graphs`, with weights N(0, gains / fan_in)."""
    return exact_update(graphs, gains) if order == "before" else _after(graphs, gains)


def _after(graphs: Graphs, gains: Array) -> ExactUpdate:
    carried = carried_by_skips(graphs)
    layers, n = graphs.layers, graphs.layers.shape[1]
    weights = layers * gains
    spread, mean = np.zeros(gains.shape[:2]), np.zeros(gains.shape[:2])  # input of each vertex
    forward = np.zeros_like(spread)
    spread[:, 0] = 2.0
    for v in range(n):
        if v:
            incoming = weights[:, v] * forward
            spread[:, v] = incoming.sum(axis=1) * (0.5 - 0.5 / np.pi)
            mean[:, v] = np.sqrt(incoming / (2 * np.pi)).sum(axis=1)
        forward[:, v] = (carried[:, v] ** 2 * spread).sum(axis=1) + (
            (carried[:, v] * mean).sum(axis=1) ** 2
        )

    back, backward = np.zeros_like(spread), np.zeros_like(spread)
    back[:, -1] = 1.0
    for v in reversed(range(n)):
        back[:, v] += (weights[:, :, v] * backward).sum(axis=1) / 2
        backward[:, v] = (carried[:, :, v] ** 2 * back).sum(axis=1)
    # E H_v H_w of the gradients by two vertices.
    shared = (carried.transpose(0, 2, 1) * back[:, None, :]) @ carried

    total, square, noise = np.zeros_like(spread), np.zeros_like(spread), np.zeros_like(spread)
    updates, own = np.zeros_like(spread), np.zeros_like(spread)
    total[:, 0] = 2.0  # no ReLU follows the stem, so nothing is halved
    for v in range(n):
        if v:
            share = layers[:, v] * forward + weights[:, v] * own
            total[:, v] = share.sum(axis=1, where=layers[:, v])
            square[:, v] = (share**2).sum(axis=1, where=layers[:, v])
            noise[:, v] = (weights[:, v] * updates).sum(axis=1) / 2
        reach = carried[:, v] * total
        own[:, v] = (carried[:, v] * reach).sum(axis=1) / 2
        alone = square * np.einsum("gvv->gv", shared) / 4 + noise
        updates[:, v] = (carried[:, v] ** 2 * alone).sum(axis=1) + (
            np.einsum("gv,gvw,gw->g", reach, shared, reach) / 4
        )
    return ExactUpdate(forward=forward, backward=backward, updates=updates)
