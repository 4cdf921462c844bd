"""Learning rate of one graph by the exact recursion."""

from __future__ import annotations

from cells import DagCode
from experiments.laws.graphs import Order, update_of
from rebench.recipes.recursion import Graphs, degree_gains


def exact_maximal_lr(
    graph: DagCode, rule: str = "target", *, order: Order = "before", **options: bool
) -> float:
    """Return the learning rate at which E dz^2 of the output vertex is 1 after one step.

    There is one data point with ||x||^2 / n = 1 and residual 1, and no normalisation. The stem is
    N(0, 2 / fan_in), the readout N(0, 1 / n^2), and the width n infinite. `rule` names the vertex
    whose in-degree divides the init variance, `order` the position of the ReLU. If the ReLU is
    after the weights, the init accounts for its mean. The rate is infinite without a path.
    """
    graphs = Graphs.of([graph], **options)
    gains = degree_gains(graphs, rule, relu_mean=order == "after")
    return float(update_of(graphs, gains, order).learning_rate[0])
