"""Simulated accuracies with known true values, and generated tables of a few cells."""

from __future__ import annotations

import numpy as np
from generated_tables import synthetic_frame

from rebench.analysis import Accuracies
from rebench.tables import Table


def synthetic_table(seed: int, **which) -> Table:
    """Return a table of generated values (see `synthetic_frame`)."""
    frame = synthetic_frame(seed, **which)
    return Table.from_frame(frame, name=f"synthetic-{seed}", origin="generated")


def table_of(runs, name="table", **columns) -> Accuracies:
    """Return runs [cells, seeds] as a table; cells and seeds have the numbers from 0."""
    runs = np.asarray(runs, dtype=float)
    usual = {"cells": np.arange(len(runs)), "seeds": tuple(range(runs.shape[1]))}
    return Accuracies(name=name, runs=runs, **usual | columns)


def two_tables(n, seeds, rng, *, change=0.0, sd=(0.3, 0.3)):
    """Return the runs of the same cells in two tables, by the number of seeds of each.

    The true accuracies have the standard deviation 2. In the second table they differ by `change`.
    """
    true = rng.normal(90, 2, (n, 1))
    before = true + sd[0] * rng.standard_normal((n, seeds[0]))
    moved = true + change * rng.standard_normal((n, 1)) if change else true
    return before, moved + sd[1] * rng.standard_normal((n, seeds[1]))


def world(n, rng, sd=0.25):
    """Return true accuracies as in the benchmark, and noise that is larger for bad cells."""
    true = 94.2 - rng.gamma(1.2, 2.5, n)
    return true, sd * (1 + (94.2 - true) / 4)


def runs(true, sd, seeds, rng, images=10_000):
    """Return accuracies of `seeds` runs on a test set of `images` images."""
    noisy = true[:, None] + rng.standard_normal((len(true), seeds)) * sd[:, None]
    return np.rint(noisy * images / 100) * 100 / images
