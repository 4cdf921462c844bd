"""Power to detect a drop, by the numbers of cells and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from rebench.analysis.paired import Accuracies
from rebench.analysis.ranking import TauSamples, between_seeds
from rebench.analysis.seed_noise import Rng, SeedNoise
from rebench.errors import InputError

__all__ = ["power"]

# Number of simulated cells for the calibration of the size of the change.
_MANY: Final = 4000
_HALVINGS: Final = 12


def power(
    table: Accuracies,
    drop: float,
    *,
    cells: Sequence[int] = (30, 60, 120, 240, 480, 960),
    seeds: Sequence[int] = (2, 3, 5),
    top_percent: float = 100.0,
    draws: int = 200,
    level: float = 0.95,
    rng: Rng = None,
) -> pd.DataFrame:
    """Return the power to detect a drop of `drop`, by the numbers of cells and seeds.

    Simulated tables have true accuracies and noise like `table`, which must have several seeds. The
    second recipe changes all true accuracies at random, so strongly that the drop among the top K %
    of many cells is `drop`. A change counts as detected if the drop exceeds the `level` quantile of
    the drops without a change. There are `draws` tables with a change, and `draws` without.

    Returns:
        A row per number of cells and of seeds: `cells`, `seeds`, `runs` (of both recipes
        together), `seed_tau` (mean of the tables without a change) and `power`.
    """
    rng = np.random.default_rng(rng)
    model = SeedNoise.fit(table.runs)

    def simulated(n: int, k: int, change: float, tables: int) -> TauSamples:
        picked = rng.integers(0, len(model.means), size=tables * n)
        true, sd = model.true_means(1, rng)[0][picked], model.run_sd[picked, None]
        moved = rng.standard_normal(len(true)) * true.std() + true.mean()
        after = np.sqrt(1 - change) * true + np.sqrt(change) * moved
        before, retrained = (
            own[:, None] + sd * rng.standard_normal((len(own), k)) for own in (true, after)
        )
        sample = np.arange(tables * n).reshape(tables, n)
        return between_seeds(before, retrained, sample, [top_percent])

    low, high = 0.0, 1.0
    most = float(simulated(_MANY, 2, high, 4).drop.mean())
    if not 0 < drop < most:
        raise InputError(
            f"drop must be above 0 and below {most:.2f}, the drop between unrelated rankings, got "
            f"{drop:g}"
        )
    for _ in range(_HALVINGS):
        change = (low + high) / 2
        enough = simulated(_MANY, 2, change, 4).drop.mean() > drop
        low, high = (low, change) if enough else (change, high)
    rows = []
    for n in cells:
        for k in seeds:
            null = simulated(n, k, 0.0, draws)
            limit = np.nanquantile(null.drop, level)
            shown = simulated(n, k, change, draws).drop > limit
            row = {"cells": n, "seeds": k, "runs": 2 * n * k}
            rows.append(row | {"seed_tau": float(np.nanmean(null.seed_tau)), "power": shown.mean()})
    return pd.DataFrame(rows)
