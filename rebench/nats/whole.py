"""The package's two questions about every cell at once: the best of them, and how many trials.

They are answered from arrays where every cell has what is asked for; the others are put to the
package's own objects, one by one, for their answer or their error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cells import SPACE_SIZE
from rebench.datasets import BENCHMARK
from rebench.nats.choice import Choice
from rebench.nats.fastpath import Values

__all__ = ["Answers", "best_cell", "trial_counts"]


@dataclass(frozen=True, slots=True)
class Answers:
    """What an API answers from: tables, the package's objects by cell, arrays by table."""

    choice: Choice
    results: Mapping[int, Mapping[str, Any]]
    values: Callable[[int, str, int], Values]


def best_cell(
    answers: Answers,
    dataset: str,
    split: str,
    limits: tuple[float | None, float | None],
    hp: Any,
) -> tuple[int, float] | None:
    """Return index and mean accuracy of the best cell within limits on MFLOPs and parameters."""
    split = "x-valid" if split == "valid" else split
    accuracy: NDArray[np.float64] = np.full(SPACE_SIZE, np.nan)
    plain = np.zeros(SPACE_SIZE, dtype=bool)
    for cells, values in _held(answers, dataset, hp):
        found = values.mean_accuracy(split)
        for limit, costs in zip(limits, (values.flops, values.params), strict=True):
            if limit is not None:
                found = np.where(costs > limit, np.nan, found)
        accuracy[cells] = found[cells]
        plain[cells] = values.is_plain(split)[cells]
    for index in answers.choice.cells[~plain[answers.choice.cells]].tolist():
        accuracy[index] = _of_one(answers.results[index][hp], dataset, split, limits)
    if np.isnan(accuracy).all():
        return None
    best = int(np.nanargmax(accuracy))
    return best, float(accuracy[best])


def trial_counts(answers: Answers, dataset: str, hp: str) -> dict[int, int]:
    """Return how many cells have how many trials of a data set."""
    choice = answers.choice
    if dataset not in (*BENCHMARK, *choice.datasets):
        raise ValueError(f"{dataset} not in {list(BENCHMARK)}")
    trained = np.zeros(SPACE_SIZE, dtype=bool)
    for name in choice.datasets:
        for cells, _ in _held(answers, name, hp):
            trained |= cells
    if not trained[choice.cells].all():
        raise KeyError(hp)
    counts = np.zeros(SPACE_SIZE, dtype=np.int64)
    for cells, values in _held(answers, dataset, hp):
        counts[cells] = values.n[cells]
    trials, cells_with = np.unique(counts[choice.cells], return_counts=True)
    return dict(zip(trials.tolist(), cells_with.tolist(), strict=True))


def _held(answers: Answers, dataset: str, hp: Any) -> list[tuple[NDArray[np.bool_], Values]]:
    """Return the cells that each table answers for, with its arrays; none for another `hp`."""
    if hp not in [str(epochs) for epochs in answers.choice.epochs]:
        return []
    which = answers.choice.which(dataset, int(hp))
    numbers = [n for n in range(len(answers.choice.tables)) if (which == n).any()]
    return [(which == n, answers.values(n, dataset, int(hp))) for n in numbers]


def _of_one(
    results: Any, dataset: str, split: str, limits: tuple[float | None, float | None]
) -> float:
    costs = results.get_compute_costs(dataset)
    for limit, cost in zip(limits, (costs["flops"], costs["params"]), strict=True):
        if limit is not None and cost > limit:
            return np.nan
    return results.get_metrics(dataset, split)["accuracy"]
