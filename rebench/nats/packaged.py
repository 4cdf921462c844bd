"""A cell's values as the objects of the ``nats_bench`` package, for its API and its file format.

If the table has no curves, a trial has its last epoch only, like many trials of the benchmark. The
package's code reads training metrics and some splits of every trial. If the table lacks them,
accuracy and loss are NaN, and times are absent (None, or NaN if another split has times).
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np
from nats_bench.api_utils import ArchResults, ResultsCount

from cells import Cell
from rebench.data import benchmark_data
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.spaces.nb201 import cost_model
from rebench.tables.layout import CurveArrays, Floats, Key
from rebench.tables.table import Table

__all__ = ["cell_states", "package_results"]

_COLUMNS: Final = ("accuracy", "loss", "epoch_seconds", "params_m", "mflops", "latency_s")
_COSTS: Final = slice(3, 5)
# Splits that `nats_bench` prints of each trial, in addition to training metrics.
_REQUIRED: Final = {"cifar10-valid": ("x-valid",), "cifar10": ("ori-test",)}
_REQUIRED_OF_OTHERS: Final = ("x-valid", "x-test")
# The format's value for a latency that was not measured.
_NO_LATENCY: Final = (-1.0,)


def package_results(
    index: int, choice: Choice, hp: str | None = None, *, only_end: bool = False
) -> dict[str, Any]:
    """Return a cell's ``ArchResults`` by number of epochs, as in ``arch2infos_dict``.

    Args:
        index: the cell.
        choice: the tables.
        hp: only this number of epochs.
        only_end: leave out curves and times, for a call that uses neither.
    """
    arch = str(Cell.from_index(index))
    packaged: dict[str, Any] = {}
    curves: dict[str, dict[tuple[Key, int], CurveArrays]] = {}
    for epochs in choice.epochs:
        if hp not in (None, str(epochs)):
            continue
        for dataset in choice.datasets:
            table = choice.table(index, dataset, epochs)
            if table is None:
                continue
            if table.name not in curves:
                curves[table.name] = {} if only_end else choice.curves(index, table)
            results = packaged.setdefault(str(epochs), ArchResults(index, arch))
            training = dataset, epochs
            trials = _trials(table, index, arch, training, curves[table.name], timed=not only_end)
            for seed, trial in sorted(trials.items()):
                results.update(dataset, seed, trial)
    for results in packaged.values():
        results.clear_params()
    return packaged


def cell_states(index: int, choice: Choice) -> dict[str, dict[str, Any]]:
    """Return a cell's results by number of epochs, in the package's file format."""
    states = {hp: results.state_dict() for hp, results in package_results(index, choice).items()}
    for state in states.values():
        for trial in state["all_results"].values():
            if trial["latency"] is None:
                trial["latency"] = list(_NO_LATENCY)
    return states


def _trials(
    table: Table,
    index: int,
    arch: str,
    training: tuple[str, int],
    curves: dict[tuple[Key, int], CurveArrays],
    *,
    timed: bool,
) -> dict[int, Any]:
    """Return the trials of one data set and number of epochs, by seed."""
    dataset, epochs = training
    trials: dict[int, Any] = {}
    for split in ("train", *eval_order(dataset, epochs)):
        key = Key(dataset, split, epochs)
        if key not in table.run_keys:
            continue
        group = table.group(*key)
        values = np.array([group.column(name)[index] for name in _COLUMNS]).T
        _fill_costs(values[:, _COSTS], dataset, index)
        if not timed:
            values[:, _COLUMNS.index("epoch_seconds")] = math.nan
        for place in group.present[index].nonzero()[0].tolist():
            seed = group.seeds[place]
            if seed not in trials:
                trials[seed] = _empty_trial(arch, table, key, seed, values[place])
            _fill(trials[seed], key, values[place], curves.get((key, seed)))
    for trial in trials.values():
        _fill_absent(trial, dataset, epochs)
    return trials


def _fill_costs(costs: Floats, dataset: str, index: int) -> None:
    """Fill missing costs of trials with the costs of the benchmark's network."""
    spec = benchmark_data(dataset)
    if spec is not None and np.isnan(costs).any():
        known = cost_model(spec).of(Cell.from_index(index))
        costs[np.isnan(costs).any(axis=1)] = known.params_m, known.mflops


def _empty_trial(arch: str, table: Table, key: Key, seed: int, values: Floats) -> Any:
    channels, cells_per_stage = table.skeleton
    spec = benchmark_data(key.dataset)
    config = {
        "channel": channels,
        "num_cells": cells_per_stage,
        "arch_str": arch,
        "class_num": None if spec is None else spec.classes,
    }
    *_, params, flops, latency_s = values.tolist()
    latency = None if math.isnan(latency_s) else [latency_s]
    name = f"{seed:04d}"
    return ResultsCount(key.dataset, None, {}, {}, params, flops, config, name, key.epochs, latency)


def _fill(trial: Any, key: Key, values: Floats, curve: CurveArrays | None) -> None:
    accuracy_at_end, loss_at_end, epoch_seconds, *_ = values.tolist()
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
    names = _epoch_names(key.split, key.epochs)
    trial.eval_acc1es.update((names[epoch], number) for epoch, number in accuracy.items())
    trial.eval_losses.update((names[epoch], number) for epoch, number in loss.items())
    trial.eval_times.update(zip(names, seconds, strict=False))


def _fill_absent(trial: Any, dataset: str, epochs: int) -> None:
    """Fill the required metrics and times that the table does not have with NaN."""
    if not trial.train_acc1es:
        trial.update_train_info({epochs - 1: math.nan}, None, {epochs - 1: math.nan}, None)
    for split in _REQUIRED.get(dataset, _REQUIRED_OF_OTHERS):
        if split not in trial.eval_names:
            names = _epoch_names(split, epochs)
            trial.eval_names.append(split)
            trial.eval_acc1es[names[-1]] = trial.eval_losses[names[-1]] = math.nan
    if trial.eval_times:  # the package's code then reads the times of every split
        for split in trial.eval_names:
            for name in _epoch_names(split, epochs):
                trial.eval_times.setdefault(name, math.nan)


@functools.cache
def _epoch_names(split: str, epochs: int) -> tuple[str, ...]:
    """Return the package's names of each epoch's evaluation on a split."""
    return tuple(f"{split}@{epoch}" for epoch in range(epochs))


def _known(values: Floats) -> dict[int, float]:
    return {epoch: value for epoch, value in enumerate(values.tolist()) if not math.isnan(value)}
