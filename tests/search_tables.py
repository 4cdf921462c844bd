"""Small tables for the tests of search, made from closed formulas and a seed."""

from __future__ import annotations

import functools

import numpy as np
from generated_tables import final_accuracy
from scipy import stats

from cells.table import compile_space
from rebench.data import data_spec
from rebench.search import Fidelity, SearchSpace, SearchTable
from rebench.spaces.nb201 import cost_model


def smooth_table(
    space: SearchSpace | None = None, *, noise: float = 0.0, seed: int = 0
) -> SearchTable:
    """Return a table with accuracy additive over edges; the only optimum is all 3x3 convolutions.

    The 12-epoch accuracy is the final accuracy minus 20, plus noise. A run of 12 epochs costs 10 s
    plus 1 s for each convolution; a run of 200 epochs costs 200/12 times as much.
    """
    space = space or SearchSpace.whole()
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
        tested=final[:, None],
        searched_on="12 epochs",
        reported="200 epochs",
    )


# Correlation of the 12-epoch signal of `calibrated_table` with the final accuracy, by data set. It
# was chosen only by the accuracy at which random search ends. The results of all other algorithms
# are then predictions.
CORRELATION = {"cifar10": 0.93, "cifar100": 0.905, "ImageNet16-120": 0.87}

# Simulated seconds of a 12-epoch run with its validation pass, of cells 0 and 11, as `nats_bench`
# counts them. Times of other cells are interpolated linearly in FLOPs.
_SECONDS = {
    "cifar10": (89.20, 153.70),
    "cifar100": (173.82, 299.92),
    "ImageNet16-120": (526.12, 907.94),
}


@functools.cache
def calibrated_table(dataset: str, seed: int = 0) -> SearchTable:
    """Return a table of published final accuracies, with generated signal and validation.

    The signal is a Gaussian copula of the final accuracy: its normal score times the correlation,
    plus noise. Three tenths of the noise variance differ between seeds.
    """
    final = final_accuracy(dataset)
    generator = np.random.default_rng(seed)
    score = stats.norm.ppf((stats.rankdata(final) - 0.5) / len(final))
    rho = CORRELATION[dataset]
    noise = 1 - rho**2
    shown = rho * score + np.sqrt(0.7 * noise) * generator.normal(size=len(final))
    seeds = [shown + np.sqrt(0.3 * noise) * generator.normal(size=len(final)) for _ in range(2)]
    flops = cost_model(data_spec(dataset)).flops(compile_space().ops).astype(float)
    first, other = _SECONDS[dataset]
    seconds = first + (other - first) * (flops - flops[0]) / (flops[11] - flops[0])
    long = final[:, None] - 2.5 + generator.normal(0, 0.25, (len(final), 3))
    return SearchTable(
        name="calibrated",
        dataset=dataset,
        space=SearchSpace.whole(),
        fidelities=(
            Fidelity(epochs=12, accuracy=65 + 8 * np.stack(seeds, 1), seconds=seconds),
            Fidelity(epochs=200, accuracy=long, seconds=seconds * 200 / 12),
        ),
        tested=final[:, None],
        searched_on="generated 12-epoch validation",
        reported="published 200-epoch means",
    )
