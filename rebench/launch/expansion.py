"""The trials of a sweep, from its file and the tables, recipes and data sets that it names."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rebench.data import data_spec
from rebench.errors import InputError
from rebench.machine import garbage_search_paused
from rebench.recipes import NoPathError, make_recipe
from rebench.runs import RecipeSpec, SweepSpec, Trial, choose_cells
from rebench.runs.spec import TableColumn
from rebench.spaces import Space, space_of

__all__ = ["Expansion", "expand_spec"]


# All cells and data sets of the benchmark, with five recipes and three seeds, make a million
# trials. Each takes a kilobyte of memory.
_MOST_TRIALS: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The trials of a sweep: without duplicates, in an order that never changes."""

    trials: tuple[Trial, ...]
    skipped: Mapping[str, int]
    """The number of trials that cannot be trained, by the reason."""
    duplicates: int


@garbage_search_paused()
def expand_spec(spec: SweepSpec) -> Expansion:
    """Return the trials of a sweep; raise for unknown names."""
    for dataset in spec.datasets:
        data_spec(dataset).part_sizes(spec.split)
    # Use the specs of the built recipes: the id of a trial must not depend on a recipe's spelling.
    recipes = [make_recipe(recipe).spec for recipe in spec.recipes]
    spec = spec.model_copy(update={"recipes": recipes})
    space = space_of(spec.space)
    chosen, repeated = choose_cells(spec.cells, functools.partial(_accuracies, space), space)
    _check_size(spec, len(chosen))
    trials: dict[str, Trial] = {}
    skipped: Counter[str] = Counter()
    asked = 0
    for family in spec.families(chosen):
        asked += len(family)
        reason = _no_rate(space, family[0].index, family[0].recipe)
        if reason is not None:
            skipped[reason] += len(family)
        else:
            trials.update((trial.trial_id, trial) for trial in family)
    duplicates = repeated + asked - skipped.total() - len(trials)
    return Expansion(trials=tuple(trials.values()), skipped=skipped, duplicates=duplicates)


def _check_size(spec: SweepSpec, cells: int) -> None:
    """Raise if the sweep has more than `_MOST_TRIALS` trials."""
    parts = {"cells": cells} | {
        name: len(getattr(spec, name)) for name in ("datasets", "recipes", "seeds")
    }
    if (trials := math.prod(parts.values())) > _MOST_TRIALS:
        told = ", ".join(f"{count:,} {name}" for name, count in parts.items())
        raise InputError(
            f"the sweep has {trials:,} trials ({told}), more than the maximum of {_MOST_TRIALS:,}: "
            "divide it into several sweeps"
        )


def _accuracies(space: Space, column: TableColumn) -> NDArray[np.float64]:
    if column.table is None:
        raise InputError(
            "choosing cells by accuracy needs a table: in cells.top or cells.stratified, give"
            " table = 'nb201' or table = 'FILE' (`rebench table ingest` and `rebench collect` write"
            " such files)"
        )
    from rebench.tables import open_table  # loads pandas

    table = open_table(column.table)
    if table.space is not space:
        raise InputError(
            f"{table.name} is a table of the space {table.space.name}, not {space.name}"
        )
    means = table.group(column.dataset, column.split, column.epochs).mean("accuracy")
    return table.measure.goodness(means)


_rule = functools.lru_cache(make_recipe)


# Trials of one cell follow each other.
@functools.lru_cache(maxsize=1024)
def _no_rate(space: Space, index: int, recipe: RecipeSpec) -> str | None:
    try:
        _rule(recipe).hyperparameters(space.graph(index))
    except NoPathError as error:
        return str(error)
    return None
