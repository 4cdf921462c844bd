"""Power of `rank` to detect a drop, by the numbers of cells and seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.drop import exchanged
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.result_table import LEVEL
from rebench.analysis.seed_noise import Rng, SeedNoise
from rebench.analysis.seed_tau import TauSamples, between_seeds
from rebench.analysis.tau import Floats
from rebench.errors import InputError

__all__ = ["power"]

# Numbers of simulated tables and cells for the calibration of the size of the change.
_CALIBRATED: Final = (4, 4000)
# Permutations of each simulated test.
_PERMUTATIONS: Final = 99
_HALVINGS: Final = 12
_SURE: Final = 0.99


def power(
    table: Accuracies,
    drop: float,
    *,
    cells: Sequence[int] = (30, 60, 120, 240, 480, 960),
    seeds: Sequence[int] = (2, 3, 5),
    top_percent: float = 100.0,
    tested: Sequence[float] = TOP_PERCENT,
    draws: int = 100,
    rng: Rng = None,
) -> pd.DataFrame:
    """Return the power to detect a drop of `drop`, by the numbers of cells and seeds.

    Simulated tables have true accuracies and noise like `table`, which must have several seeds. The
    second recipe changes all true accuracies at random, so strongly that the drop among the top K %
    of many cells is `drop`. The power is the share of `draws` pairs of tables in which the p-value
    of `rank_curve` at this K, adjusted for all `tested` values of K, is at most 0.05. Where it is
    at least 0.99 with fewer cells, it is set to 1 without a simulation.

    Returns:
        A row per number of cells and of seeds: `cells`, `seeds`, `runs` (of both recipes
        together), `seed_tau` (of many cells) and `power`.
    """
    rng = np.random.default_rng(rng)
    model = SeedNoise.fit(table.runs)

    def simulated(n: int, k: int) -> Callable[[float], tuple[Floats, Floats]]:
        picked = rng.integers(0, len(model.means), size=n)
        true = model.take(picked).true_means(1, rng)[0]
        moved = rng.standard_normal(n) * true.std() + true.mean()
        noise = model.run_sd[picked, None] * rng.standard_normal((2, n, k))

        def tables(change: float) -> tuple[Floats, Floats]:
            after = np.sqrt(1 - change) * true + np.sqrt(change) * moved
            return true[:, None] + noise[0], after[:, None] + noise[1]

        return tables

    sample = np.arange(math.prod(_CALIBRATED)).reshape(_CALIBRATED)
    # Below K = 100, a third seed selects the cells.
    calibrated = simulated(sample.size, 2 if top_percent == 100 else 3)

    def agreement(change: float) -> TauSamples:
        paired = Paired.of_values(*calibrated(change))
        (first, mine), (second, its) = paired.columns
        return between_seeds(
            first,
            second,
            sample,
            [top_percent],
            seeds=(mine, its),
            choosers=paired.choosers,
            chosen_draws=len(sample),
        )

    low, high = 0.0, 1.0
    most = float(agreement(high).drop.mean())
    if not 0 < drop < most:
        raise InputError(
            f"drop must be above 0 and below {most:.2f}, the drop between unrelated rankings, got "
            f"{drop:g}"
        )
    for _ in range(_HALVINGS):
        change = (low + high) / 2
        low, high = (low, change) if agreement(change).drop.mean() > drop else (change, high)
    seed_tau = float(agreement(change).seed_tau.mean())

    family = [top_percent, *(percent for percent in tested if percent != top_percent)]

    def detected(n: int, k: int) -> bool:
        paired = Paired.of_values(*simulated(n, k)(change))
        p_values, *_ = exchanged(paired, family, draws=_PERMUTATIONS, rng=rng)
        return bool(p_values[1, 0] <= LEVEL)

    found: dict[tuple[int, int], float] = {}
    for n, k in itertools.product(cells, seeds):
        # With more cells the power is not lower: after a power of nearly 1, none is simulated.
        sure = any(share >= _SURE and few <= n and own == k for (few, own), share in found.items())
        found[n, k] = 1.0 if sure else float(np.mean([detected(n, k) for _ in range(draws)]))
    return pd.DataFrame(
        {"cells": n, "seeds": k, "runs": 2 * n * k, "seed_tau": seed_tau, "power": share}
        for (n, k), share in found.items()
    )
