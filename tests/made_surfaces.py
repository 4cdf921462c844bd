"""Generated learning-rate surfaces with known best rates: parabolas in the log of the rate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cells import compile_space
from experiments.surface.grid import read_surface

RATES = tuple(0.0125 * 2.0**k for k in range(9))
SEEDS = (1, 2, 3)


def some_cells(n=60, seed=0):
    """Return indices of `n` cells with a path to the output; no two compute the same function."""
    space = compile_space()
    first = np.flatnonzero((space.functional_class == np.arange(len(space))) & (space.n_paths > 0))
    return np.sort(np.random.default_rng(seed).permutation(first)[:n])


def surface_table(best_rates, cells, *, noise=0.3, bend=0.5, rng=None, rates=RATES, seeds=SEEDS):
    """Return a long table; accuracy falls by `bend` times the squared octaves from the best rate.

    `best_rates` is one rate for all or [cells]; bend 0 makes the rate irrelevant.
    """
    rng = rng or np.random.default_rng(0)
    tops = 50 + 5 * rng.standard_normal(len(cells))
    rows = [
        {
            "index": int(cell),
            "dataset": "made",
            "split": "ori-test",
            "epochs": 10,
            "seed": seed,
            "recipe": f"fixed(lr={rate!r})",
            "rate": rate,
            "accuracy": top
            - bend * (np.log2(rate) - np.log2(best)) ** 2
            + noise * rng.standard_normal(),
        }
        for cell, top, best in zip(
            cells, tops, np.broadcast_to(best_rates, len(cells)), strict=True
        )
        for rate in rates
        for seed in seeds
    ]
    return pd.DataFrame(rows)


def made_surface(best_rates, cells, **options):
    """Generate a table of cells with these best rates, and return its surface."""
    return read_surface(surface_table(best_rates, cells, **options), dataset="made")


def trained(cells, rate, difference=0.0, recipe="topology-lr"):
    """Return direct trainings at `rate`, without noise, on cells with the best rate 0.1."""
    rows = surface_table(0.1, cells, rates=(rate,), noise=0)
    accuracy = rows["accuracy"] + difference
    return rows.assign(recipe=recipe, rate=np.nan, learning_rate=rate, accuracy=accuracy)
