"""Measures of plan-h.md for two recipes: intervals over networks, and a jackknife over seeds."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from experiments.surface.reranked import DRAWS
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_tau import between_seeds, resampled, with_interval
from rebench.analysis.tau import Floats, Ints
from rebench.errors import InputError
from rebench.intervals import student_reach

__all__ = ["MEASURES", "measured"]

_BEST: Final = 5  # the best fifth


def _drop(tables: Sequence[Accuracies], sample: Ints) -> Floats:
    """Return seed tau minus tau of two recipes in samples of their networks."""
    first, second = tables
    seeds = (first.seeds, second.seeds)
    return between_seeds(first.runs, second.runs, sample, [100.0], seeds=seeds).drop[:, 0]


def _drop_of_overlap(tables: Sequence[Accuracies], sample: Ints) -> Floats:
    """Return seed overlap minus overlap of the best fifth of two recipes."""
    first, second = (_best_fifth(table, sample) for table in tables)
    crossed = [
        _shared(first[one], second[other])
        for one, other in itertools.product(first, second)
        if one != other
    ]
    by_recipe = []
    for own in (first, second):
        pairs = itertools.combinations(own.values(), 2)
        by_recipe.append(np.mean([_shared(one, other) for one, other in pairs], axis=0))
    found: Floats = np.mean(by_recipe, axis=0) - np.mean(crossed, axis=0)
    return found


def _best_fifth(table: Accuracies, sample: Ints) -> dict[int, Floats]:
    """Return for each seed which of the sampled networks are the best fifth, as 0 and 1."""
    size = round(sample.shape[1] / _BEST)
    best = {}
    for seed, run in zip(table.seeds, table.runs.T, strict=True):
        order = np.argsort(-run[sample], axis=1, kind="stable")
        best[seed] = np.zeros(sample.shape)
        np.put_along_axis(best[seed], order[:, :size], 1.0, axis=1)
    return best


def _shared(one: Floats, other: Floats) -> Floats:
    """Return the share of the best of one run that are the best of another run."""
    found: Floats = (one * other).sum(axis=1) / one.sum(axis=1)
    return found


def _accuracy(tables: Sequence[Accuracies], sample: Ints) -> Floats:
    """Return the mean accuracy of the second recipe minus that of the first."""
    first, second = (table.runs.mean(axis=1) for table in tables)
    found: Floats = (second - first)[sample].mean(axis=1)
    return found


def _difference(tables: Sequence[Accuracies], sample: Ints) -> Floats:
    """Return the drop between a third recipe and the second, minus that between the first two."""
    first, second, third = tables
    return _drop([third, second], sample) - _drop([first, second], sample)


MEASURES: Final[Mapping[str, Callable[[Sequence[Accuracies], Ints], Floats]]] = {
    "drop": _drop,
    "drop over seeds": _drop,  # the jackknife over seeds decides
    "drop of overlap": _drop_of_overlap,
    "accuracy": _accuracy,
    "difference of drops": _difference,
}


def measured(name: str, tables: Sequence[Accuracies]) -> dict[str, float]:
    """Return a measure with its interval (`_low`, `_high`) and its jackknife over seeds.

    The recipes must have the same networks, and a run of each network with each seed.
    """
    for table in tables:
        if not np.array_equal(table.cells, tables[0].cells) or np.isnan(table.runs).any():
            raise InputError(f"{table.name} lacks runs of networks of {tables[0].name}")
    classes = Paired.of(tables[0], tables[1]).classes
    sample = resampled(classes, DRAWS, np.random.default_rng(0))
    found = with_interval(name, MEASURES[name](tables, sample))
    half = _jackknife(MEASURES[name], tables, sample[:1])
    by_seed = {"by_seed_low": found[name] - half, "by_seed_high": found[name] + half}
    if name == "drop over seeds":
        found |= {f"{name}_low": by_seed["by_seed_low"], f"{name}_high": by_seed["by_seed_high"]}
    return {"n_cells": len(classes), **found, **by_seed}


def _jackknife(
    measure: Callable[[Sequence[Accuracies], Ints], Floats],
    tables: Sequence[Accuracies],
    cells: Ints,
) -> float:
    """Return half of a 95 % interval: each seed is left out of all recipes once."""
    seeds = tables[0].seeds
    if len(seeds) < 3 or any(table.seeds != seeds for table in tables):
        return np.nan
    without = [measure([_without(table, seed) for table in tables], cells)[0] for seed in seeds]
    error = np.sqrt((len(seeds) - 1) * np.var(without))
    return float(student_reach(len(seeds) - 1) * error)


def _without(table: Accuracies, seed: int) -> Accuracies:
    kept = [place for place, own in enumerate(table.seeds) if own != seed]
    seeds = tuple(table.seeds[place] for place in kept)
    return dataclasses.replace(table, seeds=seeds, runs=table.runs[:, kept], diverged=None)
