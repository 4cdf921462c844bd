"""Tables that training with other seeds by the same recipe might have given."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from rebench.analysis.concordance import TIE_WIDTH
from rebench.analysis.equal_cells import EqualCells
from rebench.analysis.seed_noise import SeedNoise, pooled
from rebench.errors import InputError
from rebench.search.search_space import SearchSpace
from rebench.search.tabular import Floats, SearchTable

__all__ = ["rerun_tables"]

# With fewer networks that two cells share, their differences say little about seed noise.
_FEWEST_CLASSES: Final = 10
# A resampled accuracy this many standard deviations above the best mean is an error of the model.
_FARTHEST_SD: Final = 10


def rerun_tables(table: SearchTable, count: int, rng: np.random.Generator) -> list[SearchTable]:
    """Draw tables that training with other seeds by the same recipe might have given.

    The noise of an accuracy is estimated from the runs of each cell, or, where each cell has one
    value, from the cells that are the same network (`rebench.analysis.equal_cells`). True values
    are drawn from the cells' posteriors, then a noisy run for each run of the cell. A signal of
    unknown noise is left unchanged; a final accuracy of unknown noise is an error. So is a table in
    which failed trainings make some cells so noisy that they would become the best.
    """
    noise = _noise(table.tested, table.space)
    if noise is None:
        raise InputError(
            f"{table.name} has one value per cell and fewer than {_FEWEST_CLASSES} networks with "
            "two equal cells, so its seed noise is unknown; give a table with several seeds, or "
            "compare with reruns=0"
        )
    tested = _rerun(table.tested, noise[0], count, rng)
    best = noise[0].means.argmax()
    highest = max((float(np.nanmax(drawn)) for drawn in tested), default=0.0)
    if highest > noise[0].means[best] + _FARTHEST_SD * noise[0].run_sd[best]:
        raise InputError(
            f"{table.name} cannot be resampled with other seeds: some of its cells are so noisy "
            f"that one would reach {highest:.1f} %, but its best cell has {table.best:.1f} %; name "
            "another table first, or compare with reruns=0"
        )
    levels = []
    for level in table.fidelities:
        if np.array_equal(level.accuracy, table.tested, equal_nan=True):
            levels.append(tested)
        elif (known := _noise(level.accuracy, table.space)) is not None:
            levels.append(_rerun(level.accuracy, known[0], count, rng))
        else:
            levels.append([level.accuracy] * count)
    return [
        replace(
            table,
            name=f"{table.name} rerun {number + 1}",
            reported=f"{table.reported}; noise from {noise[1]}",
            tested=tested[number],
            fidelities=tuple(
                replace(level, accuracy=drawn[number])
                for level, drawn in zip(table.fidelities, levels, strict=True)
            ),
        )
        for number in range(count)
    ]


def _noise(accuracy: Floats, space: SearchSpace) -> tuple[SeedNoise, str] | None:
    """Return a model of the noise of accuracies [cells, seeds], and its source; None if unknown."""
    if (np.isfinite(accuracy).sum(axis=1) >= 2).any():
        return SeedNoise.fit(accuracy), "the runs of each cell"
    equal = EqualCells.among(space.indices)
    if equal.n_classes < _FEWEST_CLASSES:
        return None
    values = np.nanmean(accuracy, axis=1)
    sizes = np.bincount(equal.classes)
    means = np.bincount(equal.classes, weights=values[equal.rows]) / sizes
    # In a class of n cells, squared deviations from the mean sum to n - 1 variances. Squares and
    # weights are doubled, because `pooled` takes weights of at least 1.
    squares, weights = np.zeros((2, len(values)))
    squares[equal.rows] = 2 * (values[equal.rows] - means[equal.classes]) ** 2
    weights[equal.rows] = 2 - 2 / sizes[equal.classes]
    # Cells are pooled by the mean of their class, because extreme values have large deviations.
    by = values.copy()
    by[equal.rows] = means[equal.classes]
    run_sd = np.maximum(np.sqrt(pooled(squares, weights, by)), TIE_WIDTH)
    model = SeedNoise.of(values, np.ones(len(values), dtype=np.int64), run_sd)
    return model, "cells that are the same network"


def _rerun(
    accuracy: Floats, noise: SeedNoise, count: int, rng: np.random.Generator
) -> list[Floats]:
    """Draw accuracies [cells, seeds], without those that are missing."""
    missing = np.where(np.isfinite(accuracy), 0.0, np.nan)
    return [
        true[:, None] + rng.standard_normal(accuracy.shape) * noise.run_sd[:, None] + missing
        for true in noise.true_means(count, rng)
    ]
