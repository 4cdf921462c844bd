"""Simulated accuracies with known true values, and generated tables of a few cells."""

from __future__ import annotations

import numpy as np
from generated_tables import synthetic_frame

from rebench.tables import Table


def synthetic_table(seed: int, **which) -> Table:
    """Return a table of generated values (see `synthetic_frame`)."""
    frame = synthetic_frame(seed, **which)
    return Table.from_frame(frame, name=f"synthetic-{seed}", origin="generated")


def world(n, rng, sd=0.25):
    """Return true accuracies as in the benchmark, and noise that is larger for bad cells."""
    true = 94.2 - rng.gamma(1.2, 2.5, n)
    return true, sd * (1 + (94.2 - true) / 4)


def runs(true, sd, seeds, rng, images=10_000):
    """Return accuracies of `seeds` runs on a test set of `images` images."""
    noisy = true[:, None] + rng.standard_normal((len(true), seeds)) * sd[:, None]
    return np.rint(noisy * images / 100) * 100 / images
