"""A cell's values as the objects of the ``nats_bench`` package, for its API and its file format.

Without a table's curves a trial has its last epoch only, as many trials of the benchmark do.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from nats_bench.api_utils import ArchResults, ResultsCount

from cells import Cell
from rebench.datasets import benchmark_data
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.tables import Table
from rebench.tables.layout import CurveArrays, Floats, Key

__all__ = ["Measured", "epoch_names", "measured", "package_measured", "package_results"]

_COLUMNS: Final = ("accuracy", "loss", "epoch_seconds", "params_m", "mflops", "latency_s")
_COSTS: Final = slice(3, 5)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a table holds of one trial on one split."""

    key: Key
    seed: int
    skeleton: tuple[int, int]
    values: Floats  # as `_COLUMNS`
    curve: CurveArrays | None

    @property
    def arrays(self) -> list[Floats]:
        """All its numbers."""
        if self.curve is None:
            return [self.values]
        curve = [self.curve.accuracy, self.curve.loss, self.curve.seconds]
        return [self.values, *(array for array in curve if array is not None)]

    def replaced(self, arrays: Sequence[Floats]) -> Measured:
        """Return the same with other numbers, in the order of `arrays`."""
        values, *rest = arrays
        curve = None
        if rest:
            accuracy, loss, *seconds = rest
            curve = CurveArrays(accuracy=accuracy, loss=loss, seconds=next(iter(seconds), None))
        return dataclasses.replace(self, values=values, curve=curve)


def package_results(index: int, choice: Choice) -> dict[str, Any]:
    """Return a cell's ``ArchResults`` by number of epochs, as ``arch2infos_dict`` holds them."""
    return package_measured(index, str(Cell.from_index(index)), measured(index, choice))


def package_measured(index: int, arch: str, found: Sequence[Measured]) -> dict[str, Any]:
    """Return ``ArchResults`` of an architecture by number of epochs."""
    packaged: dict[str, Any] = {}
    for (epochs, dataset), rows in itertools.groupby(
        found, key=lambda row: (row.key.epochs, row.key.dataset)
    ):
        trials: dict[int, Any] = {}
        for row in rows:
            if row.seed not in trials:
                trials[row.seed] = _empty_trial(arch, row)
            _fill(trials[row.seed], row)
        results = packaged.setdefault(str(epochs), ArchResults(index, arch))
        for seed, trial in sorted(trials.items()):
            results.update(dataset, seed, trial)
    for results in packaged.values():
        results.clear_params()
    return packaged


def measured(index: int, choice: Choice) -> list[Measured]:
    """Return what the tables that answer for a cell hold of it, by epochs, data set and split."""
    found: list[Measured] = []
    curves: dict[str, dict[tuple[Key, int], CurveArrays]] = {}
    for epochs, dataset in itertools.product(choice.epochs, choice.datasets):
        table = choice.table(index, dataset, epochs)
        if table is None:
            continue
        if table.name not in curves:
            curves[table.name] = table.curves(index) if table.has_curves else {}
        found += _of_table(table, index, dataset, epochs, curves[table.name])
    return found


def _of_table(
    table: Table,
    index: int,
    dataset: str,
    epochs: int,
    curves: dict[tuple[Key, int], CurveArrays],
) -> Iterator[Measured]:
    for split in ("train", *eval_order(dataset, epochs)):
        key = Key(dataset, split, epochs)
        if key not in table.keys:
            continue
        group = table.group(*key)
        values = np.array([group.column(name)[index] for name in _COLUMNS]).T
        if np.isnan(values[:, _COSTS]).any():
            _fill_costs(values[:, _COSTS], dataset, index)
        for place in group.present[index].nonzero()[0].tolist():
            seed = group.seeds[place]
            yield Measured(
                key=key,
                seed=seed,
                skeleton=table.skeleton,
                values=values[place],
                curve=curves.get((key, seed)),
            )


def _fill_costs(costs: Floats, dataset: str, index: int) -> None:
    """Give every trial that lacks a cost those of the benchmark's network."""
    spec = benchmark_data(dataset)
    if spec is not None:
        known = spec.cost_model().of(Cell.from_index(index))
        costs[np.isnan(costs).any(axis=1)] = known.params_m, known.mflops


def _empty_trial(arch: str, row: Measured) -> Any:
    channels, cells_per_stage = row.skeleton
    spec = benchmark_data(row.key.dataset)
    config = {
        "channel": channels,
        "num_cells": cells_per_stage,
        "arch_str": arch,
        "class_num": None if spec is None else spec.classes,
    }
    *_, params, flops, latency_s = row.values.tolist()
    latency = None if math.isnan(latency_s) else [latency_s]
    seed, epochs = f"{row.seed:04d}", row.key.epochs
    return ResultsCount(row.key.dataset, None, {}, {}, params, flops, config, seed, epochs, latency)


def _fill(trial: Any, row: Measured) -> None:
    key, curve = row.key, row.curve
    accuracy_at_end, loss_at_end, epoch_seconds, *_ = row.values.tolist()
    last = key.epochs - 1
    accuracy, loss = {last: accuracy_at_end}, {last: loss_at_end}
    if curve is not None:
        accuracy, loss = _known(curve.accuracy) | accuracy, _known(curve.loss) | loss
    if curve is not None and curve.seconds is not None:
        seconds: list[float] = curve.seconds.tolist()
    else:
        seconds = [] if math.isnan(epoch_seconds) else [epoch_seconds] * key.epochs
    if key.split == "train":
        trial.update_train_info(accuracy, None, loss, dict(enumerate(seconds)) or None)
        return
    trial.eval_names.append(key.split)
    names = epoch_names(key.split, key.epochs)
    trial.eval_acc1es.update((names[epoch], number) for epoch, number in accuracy.items())
    trial.eval_losses.update((names[epoch], number) for epoch, number in loss.items())
    trial.eval_times.update(zip(names, seconds, strict=False))


@functools.cache
def epoch_names(split: str, epochs: int) -> tuple[str, ...]:
    """Return what the package calls each epoch's evaluation on a split."""
    return tuple(f"{split}@{epoch}" for epoch in range(epochs))


def _known(values: np.ndarray[Any, Any]) -> dict[int, float]:
    return {epoch: value for epoch, value in enumerate(values.tolist()) if not math.isnan(value)}
