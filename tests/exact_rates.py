"""What the exact recursion says of one graph."""

from __future__ import annotations

from cells import DagCode
from experiments.laws.graphs import Order, update_of
from rebench.recipes.recursion import Graphs, degree_gains


def exact_maximal_lr(
    graph: DagCode, rule: str = "target", *, order: Order = "before", **options: bool
) -> float:
    """The learning rate at which E dz^2 of the output vertex is 1 after one step.

    One data point with ||x||^2 / n = 1, residual 1, no normalisation; stem N(0, 2 / fan_in),
    readout N(0, 1 / n^2), n to infinity. `rule` says whose in-degree the init divides by, and
    `order` where the ReLU stands; behind the weights the init accounts for its mean. Infinite where
    no path leads to the output.
    """
    graphs = Graphs.of([graph], **options)
    gains = degree_gains(graphs, rule, relu_mean=order == "after")
    return float(update_of(graphs, gains, order).learning_rate[0])
