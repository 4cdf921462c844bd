"""Graphs that the laws are measured on, random ones and every connected one; their init."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from cells.dag import LAYER, NO_EDGE, DagCode
from rebench.errors import InputError, UnknownNameError
from rebench.recipes.recursion import Graphs, degree_gains

Side: TypeAlias = Literal["target", "source", "none"]
DegreeRule: TypeAlias = Literal["target", "source", "none", "target-mean", "source-mean"]
DEGREE_RULES: tuple[DegreeRule, ...] = ("target", "source", "none", "target-mean", "source-mean")


def all_layer_graphs(n_vertices: int) -> list[DagCode]:
    """Every graph of layer edges alone that connects input and output, as coded."""
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
        count: how many.
        n_vertices: input and output included.
        rng: what draws them.
        operations: what an edge may be.
        pruned: without their dead edges, and different without them; else as they are coded.
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
    """The graph of one path with `depth` layers."""
    return DagCode(tuple((NO_EDGE,) * (target - 1) + (LAYER,) for target in range(1, depth + 1)))


def with_stem(code: DagCode) -> DagCode:
    """The graph with one more layer before vertex 0: an input layer that is trained."""
    return DagCode(((LAYER,), *((NO_EDGE, *group) for group in code.operations)))


def layer_variances(graphs: Graphs, rule: DegreeRule) -> npt.NDArray[np.float64]:
    """C of every layer edge (graph, target, source), weights being N(0, C / fan_in).

    Args:
        graphs: read without their dead edges.
        rule: `target` and `source` divide 2 by the in-degree of that end, `none` keeps 2,
            `target-mean` and `source-mean` by d + d (d - 1) / pi, which is what d terms add up to
            that are outputs of ReLUs, whose mean is not 0.
    """
    if rule not in DEGREE_RULES:
        raise UnknownNameError("degree rule", rule, DEGREE_RULES)
    side, _, mean = rule.partition("-")
    gains = degree_gains(graphs, cast("Side", side), relu_mean=bool(mean))
    return np.where(graphs.layers, gains, 0.0)


def edge_variances(code: DagCode, rule: DegreeRule | Literal["coded"]) -> npt.NDArray[np.float64]:
    """C of every layer edge (target, source) of one graph.

    `coded` is the released code's rule: 2 over the in-degree of the source, dead edges counted.
    """
    graphs = Graphs.of([code])
    if rule != "coded":
        return layer_variances(graphs, rule)[0]
    degrees = np.maximum((1, *code.in_degrees()), 1)
    return np.where(graphs.layers[0], 2 / degrees, 0.0)
