"""Tables that training with other seeds by the same recipe might have given.

A table and its copy are two trainings of the same networks: both add noise of the same size to the
true accuracies. True accuracies are drawn given two values: the accuracy in the table, and a
prediction from networks with similar operations and paths. Without the prediction, similar cells
would get unrelated errors, and a copy would have more local optima than a training with other
seeds. Cells that are the same trainable network share their true accuracy, and cells that have the
runs of another cell (`SearchTable.trained`) have them in every copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from cells.classes import trainable_networks
from rebench.analysis.equal_cells import EqualCells
from rebench.analysis.seed_noise import pooled, pooled_sd
from rebench.errors import InputError
from rebench.search.search_space import SearchSpace
from rebench.search.tabular import Floats, Ints, SearchTable
from rebench.tables.seed_effects import TIE_WIDTH, centred, means_of

__all__ = ["rerun_tables"]

# With fewer networks that two cells share, their differences say little about seed noise.
_FEWEST_CLASSES: Final = 10
# A resampled accuracy this many standard deviations above the best mean is an error of the model.
_FARTHEST_SD: Final = 5
# Prediction by kernel ridge regression on `SearchSpace.features`. On the published tables, more
# landmarks or another width do not change the number of local optima of the copies.
_LANDMARKS: Final = 1000
_KERNEL_WIDTH: Final = 16.0
_PENALTIES: Final = 10.0 ** np.arange(-4, 4)
# The scale of predictions is logarithmic beyond this many standard deviations below the best cell.
_LINEAR_SD: Final = 5


class _Trainings(NamedTuple):
    """Accuracies of separate runs, and the row of each cell among them."""

    accuracy: Floats
    """[trainings, seeds]."""
    space: SearchSpace
    """One cell for each row."""
    of_cell: Ints
    """[cells]."""


class _Noise(NamedTuple):
    """Accuracies of cells, [cells], and their noise."""

    means: Floats
    counts: Floats
    """Number of runs of each mean."""
    run_sd: Floats
    """Standard deviation of one run."""
    source: str


def rerun_tables(table: SearchTable, count: int, rng: np.random.Generator) -> list[SearchTable]:
    """Draw tables that training with other seeds by the same recipe might have given.

    The noise of an accuracy is estimated from the runs of each cell, or, where each cell has one
    value, from the cells that are the same network (`rebench.analysis.equal_cells`). Where this
    value is a mean over seeds, the noise is therefore that of a mean. A signal of unknown noise is
    left unchanged; a final accuracy of unknown noise is an error. So is a table in which failed
    trainings make some cells so noisy that they would become the best.
    """
    trainings = _trainings(table.tested, table)
    noise = _noise(trainings)
    if noise is None:
        raise InputError(
            f"{table.name} has one value per cell and fewer than {_FEWEST_CLASSES} networks with "
            "two equal cells, so its seed noise is unknown; give a table with several seeds, or "
            "compare with reruns=0"
        )
    tested = _rerun(trainings, noise, count, rng)
    best = noise.means.argmax()
    highest = max((float(np.nanmax(drawn)) for drawn in tested), default=0.0)
    if highest > noise.means[best] + _FARTHEST_SD * noise.run_sd[best]:
        raise InputError(
            f"{table.name} cannot be resampled with other seeds: some of its cells are so noisy "
            f"that one would reach {highest:.1f} %, but its best cell has {table.best:.1f} %; name "
            "another table first, or compare with reruns=0"
        )
    levels = []
    for level in table.fidelities:
        if np.array_equal(level.accuracy, table.tested, equal_nan=True):
            levels.append(tested)
            continue
        trainings = _trainings(level.accuracy, table)
        if (known := _noise(trainings)) is not None:
            levels.append(_rerun(trainings, known, count, rng))
        else:
            levels.append([level.accuracy] * count)
    return [
        replace(
            table,
            name=f"{table.name} rerun {number + 1}",
            reported=f"{table.reported}; noise from {noise.source}",
            tested=tested[number],
            fidelities=tuple(
                replace(level, accuracy=drawn[number])
                for level, drawn in zip(table.fidelities, levels, strict=True)
            ),
        )
        for number in range(count)
    ]


def _trainings(accuracy: Floats, table: SearchTable) -> _Trainings:
    """Return accuracies [cells, seeds] of a table without repeated runs."""
    cells = table.space.indices
    trained = cells if table.trained is None else table.trained
    _, first, of_cell = np.unique(trained, return_index=True, return_inverse=True)
    # If the signal is from another table, equal cells can have different signals.
    if not np.array_equal(accuracy, accuracy[first][of_cell], equal_nan=True):
        first = of_cell = np.arange(len(cells))
    kept = np.sort(first)
    return _Trainings(
        accuracy=accuracy[kept],
        space=SearchSpace.of(cells[kept].tolist()),
        of_cell=np.searchsorted(kept, first)[of_cell],
    )


def _noise(trainings: _Trainings) -> _Noise | None:
    """Return the noise of accuracies; None if it is unknown."""
    accuracy, space = trainings.accuracy, trainings.space
    counts = np.isfinite(accuracy).sum(axis=1).astype(np.float64)
    if (counts >= 2).any():
        runs = centred(accuracy)
        return _Noise(means_of(runs), counts, pooled_sd(runs), "the runs of each cell")
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
    return _Noise(values, counts, run_sd, "cells that are the same network")


def _rerun(
    trainings: _Trainings, noise: _Noise, count: int, rng: np.random.Generator
) -> list[Floats]:
    """Draw accuracies [cells, seeds], without those that are missing."""
    shape = trainings.accuracy.shape
    missing = np.where(np.isfinite(trainings.accuracy), 0.0, np.nan)
    drawn = (
        true[:, None] + rng.standard_normal(shape) * noise.run_sd[:, None] + missing
        for true in _true_accuracies(noise, trainings.space, count, rng)
    )
    return [accuracy[trainings.of_cell] for accuracy in drawn]


def _true_accuracies(
    noise: _Noise, space: SearchSpace, count: int, rng: np.random.Generator
) -> Floats:
    """Draw true accuracies, [count, cells], given the measured ones and those of similar networks.

    The true value of a network is normal around its prediction, and the true values of equal cells
    are normal around that of their network. Both variances are estimated as mean squares minus the
    variance of the noise. The second is 0 unless equal cells differ more than runs of one cell.
    """
    network = trainable_networks(space.indices)
    members = np.bincount(network)

    def mean(values: Floats) -> Floats:
        return np.bincount(network, values) / members

    measured, error = mean(noise.means), noise.run_sd**2 / noise.counts
    free = 2 - 2 / members[network]  # doubled, because `pooled` takes weights of at least 1
    squares = 2 * (noise.means - measured[network]) ** 2 - free * error
    between = np.maximum(pooled(squares, np.maximum(free, 1e-9), measured[network]), 0)

    # Good cells differ less than bad ones. So the scale of predictions is the logarithm of the
    # distance to the best.
    best = noise.means.argmax()
    top = measured.max() + _LINEAR_SD * np.sqrt(error[best])
    values = -np.log(top - measured)
    features = np.stack([mean(each) for each in space.features.T], axis=1)
    predicted = _predicted(features, values, rng)
    slope = np.exp(np.minimum(predicted, values.max()))
    variance = slope**2 * mean(error + between) / members
    spread = pooled((values - predicted) ** 2 - variance, np.ones(len(values)), predicted)
    centre, sd = _posterior(values, variance, predicted, np.maximum(spread, 0))
    shared = top - np.exp(-(centre + sd * rng.standard_normal((count, len(values)))))
    centre, sd = _posterior(noise.means, error, shared[:, network], between)
    return centre + sd * rng.standard_normal(centre.shape)


def _posterior(
    measured: Floats, error: Floats, expected: Floats, spread: Floats
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of a true value, from the variances `error`, `spread`."""
    weight = spread / (spread + error)
    return expected + weight * (measured - expected), np.sqrt(weight * error)


def _predicted(features: Floats, values: Floats, rng: np.random.Generator) -> Floats:
    """Predict the value of each network from the others: leave-one-out kernel ridge regression."""
    landmarks = features[rng.permutation(len(features))[:_LANDMARKS]]
    kernel = np.exp(-cdist(features, landmarks, "sqeuclidean") / _KERNEL_WIDTH)
    sizes, axes = np.linalg.eigh(kernel.T @ kernel)
    parts, mean = kernel @ axes, values.mean()
    along, squares = parts.T @ (values - mean), parts**2
    errors = []
    for penalty in _PENALTIES:
        shrunk = 1 / (np.maximum(sizes, 0) + penalty)
        fitted = mean + parts @ (shrunk * along)
        errors.append((values - fitted) / np.maximum(1 - squares @ shrunk, 1e-6))
    return values - min(errors, key=lambda error: float((error**2).mean()))
