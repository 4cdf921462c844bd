"""Generated learning-rate surfaces whose truth is known: parabolas in the logarithm of the rate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cells import compile_space
from experiments.surface.grid import read_surface

RATES = tuple(0.0125 * 2.0**k for k in range(9))
SEEDS = (1, 2, 3)


def some_cells(n=60, seed=0):
    """Indices of cells with a path, of as many functional classes."""
    space = compile_space()
    first = np.flatnonzero((space.functional_class == np.arange(len(space))) & (space.n_paths > 0))
    return np.sort(np.random.default_rng(seed).permutation(first)[:n])


def surface_table(best_rates, cells, *, noise=0.3, bend=0.5, rng=None, rates=RATES, seeds=SEEDS):
    """A long table of cells whose accuracy falls by `bend` points an octave squared off the best.

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
    """Read the surface of a generated table."""
    return read_surface(surface_table(best_rates, cells, **options), dataset="made")


def trained(cells, rate, difference=0.0, recipe="topology-lr"):
    """Direct trainings at `rate` on cells whose surface is a parabola about 0.1 without noise."""
    rows = surface_table(0.1, cells, rates=(rate,), noise=0)
    accuracy = rows["accuracy"] + difference
    return rows.assign(recipe=recipe, rate=np.nan, learning_rate=rate, accuracy=accuracy)


def sample_table(best_rates, cells, n, *, noise=1.0, bend=2.0, seed=0):
    """Random configurations of cells, each at a rate of its own, as JAHS-Bench-201 has them.

    Accuracy falls by `bend` points an octave squared off the cell's best rate; width and
    augmentation add to it, and weight decay does nothing.
    """
    rng = np.random.default_rng(seed)
    which = rng.integers(len(cells), size=n)
    rates = 2.0 ** rng.uniform(np.log2(1e-3), 0, n)
    channels = rng.choice([4, 8, 16], n)
    augmentation = rng.choice(["trivial", "standard"], n)
    paths = compile_space().n_paths[cells][which]
    best = np.broadcast_to(best_rates, len(cells))[which]
    accuracy = 50 + 2 * paths + np.log2(channels) + (augmentation == "trivial")
    accuracy = accuracy - bend * np.log2(rates / best) ** 2 + noise * rng.standard_normal(n)
    return pd.DataFrame(
        {
            "index": np.asarray(cells)[which],
            "dataset": "cifar10",
            "split": "ori-test",
            "epochs": 200,
            "seed": 0,
            "recipe": [f"fixed(lr={rate!r})" for rate in rates.tolist()],
            "learning_rate": rates,
            "accuracy": np.clip(accuracy, 0, 100),
            "channels": channels,
            "augmentation": augmentation,
            "weight_decay": 10 ** rng.uniform(-5, -2, n),
        }
    )
