"""A cell's values as the objects of the ``nats_bench`` package, for its API and its file format.

Without a table's curves a trial has its last epoch only, as many trials of the benchmark do.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np
from nats_bench.api_utils import ArchResults, ResultsCount

from cells import Cell
from rebench.datasets import benchmark_data
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.tables import Table
from rebench.tables.layout import CurveArrays, Key

__all__ = ["epoch_names", "package_results"]

_COLUMNS: Final = ("accuracy", "loss", "epoch_seconds", "params_m", "mflops", "latency_s")


def package_results(index: int, choice: Choice) -> dict[str, Any]:
    """Return a cell's ``ArchResults`` by number of epochs, as ``arch2infos_dict`` holds them."""
    found: dict[str, Any] = {}
    curves: dict[str, dict[tuple[Key, int], CurveArrays]] = {}
    for epochs in choice.epochs:
        results = ArchResults(index, str(Cell.from_index(index)))
        for dataset in choice.datasets:
            table = choice.table(index, dataset, epochs)
            if table is None:
                continue
            if table.name not in curves:
                curves[table.name] = table.curves(index) if table.has_curves else {}
            for seed, trial in _trials(table, index, dataset, epochs, curves[table.name]):
                results.update(dataset, seed, trial)
        if results.dataset_seed:
            results.clear_params()
            found[str(epochs)] = results
    return found


def _trials(
    table: Table,
    index: int,
    dataset: str,
    epochs: int,
    curves: dict[tuple[Key, int], CurveArrays],
) -> list[tuple[int, Any]]:
    trials: dict[int, Any] = {}
    for split in ("train", *eval_order(dataset, epochs)):
        key = Key(dataset, split, epochs)
        if key not in table.keys:
            continue
        group = table.group(*key)
        columns = [group.column(name)[index].tolist() for name in _COLUMNS]
        for place in np.flatnonzero(group.present[index]).tolist():
            seed = group.seeds[place]
            value = dict(zip(_COLUMNS, (column[place] for column in columns), strict=True))
            if seed not in trials:
                trials[seed] = _empty_trial(table, index, key, seed, value)
            _fill(trials[seed], key, value, curves.get((key, seed)))
    return sorted(trials.items())


def _empty_trial(table: Table, index: int, key: Key, seed: int, value: dict[str, float]) -> Any:
    channels, cells_per_stage = table.skeleton
    spec = benchmark_data(key.dataset)
    config = {
        "channel": channels,
        "num_cells": cells_per_stage,
        "arch_str": str(Cell.from_index(index)),
        "class_num": None if spec is None else spec.classes,
    }
    latency = None if math.isnan(value["latency_s"]) else [value["latency_s"]]
    params, flops = value["params_m"], value["mflops"]
    if spec is not None and math.isnan(params + flops):
        known = spec.cost_model().of(Cell.from_index(index))
        params, flops = known.params_m, known.mflops
    return ResultsCount(
        key.dataset, None, {}, {}, params, flops, config, f"{seed:04d}", key.epochs, latency
    )


def _fill(trial: Any, key: Key, value: dict[str, float], curve: CurveArrays | None) -> None:
    last = key.epochs - 1
    accuracy, loss = {last: value["accuracy"]}, {last: value["loss"]}
    if curve is not None:
        accuracy, loss = _known(curve.accuracy) | accuracy, _known(curve.loss) | loss
    if curve is not None and curve.seconds is not None:
        seconds: list[float] = curve.seconds.tolist()
    else:
        known = not math.isnan(value["epoch_seconds"])
        seconds = [value["epoch_seconds"]] * key.epochs if known else []
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
