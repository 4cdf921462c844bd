"""Small tables that the tests of search share, made from closed formulas and a seed."""

from __future__ import annotations

import numpy as np

from rebench.search import Fidelity, SearchTable, Space


def smooth_table(space: Space | None = None, *, noise: float = 0.0, seed: int = 0) -> SearchTable:
    """A table whose accuracy adds up over edges, so that its one optimum is all 3x3 convolutions.

    The 12-epoch signal is the final accuracy less 20, plus noise; a run costs 10 s and 1 s more
    per convolution, 200 epochs 200/12 of it.
    """
    space = space or Space.whole()
    worth = np.array([0.0, 3.0, 5.0, 7.0, 2.0])[space.ops].sum(1)
    final = 50.0 + worth
    generator = np.random.default_rng(seed)
    shown = [final[:, None] + generator.normal(0, noise, (len(space), 2)) for _ in range(2)]
    seconds = 10.0 + np.isin(space.ops, (2, 3)).sum(1)
    return SearchTable(
        name="smooth",
        dataset="cifar10",
        space=space,
        fidelities=(
            Fidelity(epochs=12, accuracy=shown[0] - 20, seconds=seconds),
            Fidelity(epochs=200, accuracy=shown[1], seconds=seconds * 200 / 12),
        ),
        final=final,
        searched_on="12 epochs",
        reported="200 epochs",
    )
