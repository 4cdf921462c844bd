"""Export to a tabular blackbox of Syne Tune, in the format of its NAS-Bench-201."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import OP_NAMES, Cell
from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import MissingDataError
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.tables.layout import Key
from rebench.tables.table import Table

__all__ = ["export_syne_tune"]

_TASKS: Final = ("cifar10", "cifar100", "ImageNet16-120")
_OBJECTIVES: Final = (
    "valid_error", "train_error", "test_error", "runtime", "elapsed_time", "latency", "flops",
    "params",
)  # fmt: skip
_TRAINED: Final = slice(0, 5)  # objectives that differ between trials


@checked
def export_syne_tune(
    choice: Choice,
    out: Path,
    *,
    epochs: int | None = None,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write a folder that Syne Tune's ``blackbox_tabular.deserialize`` opens.

    The tasks are those of Syne Tune's NAS-Bench-201, and other data sets of the table. The seeds
    are those of the table; runs with unknown seeds take the places of seeds that a cell lacks.
    ``metric_valid_error`` is the error on the validation images if the table has it (for CIFAR-10
    after training on half of the images, as in the benchmark's searches), otherwise on the test
    images. With curves, it is the error on the images that the benchmark evaluated after every
    epoch: for trainings of 12 epochs and for CIFAR-10 the validation images, otherwise the test
    images. ``metric_test_error`` is the error on the test images (``ori-test``). With curves, every
    epoch of a training is a fidelity, otherwise only the last epoch. A missing trial has the mean
    of the cell's other trials, as in Syne Tune's NAS-Bench-201: its optimizers do not run on NaN.
    An objective that is unknown for all cells of a task is left out.

    Args:
        choice: the tables to export.
        out: the folder to write.
        epochs: the length of the trainings; by default, the longest length.
        force: replace `out` where it exists.
        on_progress: called with the number of cells that were written since the last call.
    """
    epochs = epochs or max(choice.trained_epochs)
    names = (*_TASKS, *(name for name in choice.datasets if name not in BENCHMARK))
    validated = {name: _validated(choice, name, epochs) for name in names}
    tasks = {name: key for name, key in validated.items() if key is not None}
    if not tasks or epochs not in choice.trained_epochs:
        raise MissingDataError(f"the tables have none of {', '.join(names)} at {epochs} epochs")
    # The tasks of a blackbox share their configurations.
    cells = np.flatnonzero(
        np.all([choice.which(key.dataset, epochs) >= 0 for key in tasks.values()], axis=0)
    )
    fidelities = np.arange(1, epochs + 1) if choice.has_curves else np.array([epochs])
    groups = [t.group(*key) for t in choice.tables for key in tasks.values() if key in t.keys]
    seeds = sorted({seed for group in groups for seed in group.seeds if seed >= 0})
    runs = max(len(seeds), *(int(group.n.max()) for group in groups))
    values = np.full((len(tasks), len(cells), runs, len(fidelities), len(_OBJECTIVES)), np.nan)
    for row, index in enumerate(cells.tolist()):
        for place, key in enumerate(tasks.values()):
            table = choice.table(index, key.dataset, epochs)
            assert table is not None, "the cell is one that a table answers for"
            _fill(values[place, row], choice, table, index, key, seeds)
        on_progress(1)
    absent = int(np.isnan(values[..., -1, 0]).sum())
    _impute(values)
    unknown = np.isnan(values).all(axis=(1, 2, 3)).any(axis=0)
    left_out = [name for name, lacks in zip(_OBJECTIVES, unknown, strict=True) if lacks]
    objectives = [name for name in _OBJECTIVES if name not in left_out]
    values = values[..., ~unknown]
    notes = (
        *(f"{name}: metric_valid_error is of {key.split}, trained on {key.dataset}"
          for name, key in tasks.items()),
        *([f"{absent} trials are missing; their values are means over the cell's other trials"]
          if absent else []),
        *([f"the tables do not have {', '.join(left_out)}"] if left_out else []),
        "fidelities are the epochs of one training" if choice.has_curves
        else "the only fidelity is the last epoch",
    )  # fmt: skip
    made = Exported(path=out, cells=len(cells), notes=notes)
    with written(choice, made, "Syne Tune, tabular blackbox", force=force) as unfinished:
        unfinished.mkdir()
        _write(unfinished, choice, list(tasks), objectives, cells, fidelities, values)
    return made


def _validated(choice: Choice, task: str, epochs: int) -> Key | None:
    """Return the training of a task, and the split of its validation error."""
    for trained in ("cifar10-valid", "cifar10") if task == "cifar10" else (task,):
        # The benchmark evaluated only one split after every epoch.
        usual = eval_order(trained, epochs)
        for valid in usual if choice.has_curves else ("x-valid", *usual):
            key = Key(trained, valid, epochs)
            if key in choice.keys:
                return key
    return None


def _fill(
    values: NDArray[np.float64],
    choice: Choice,
    table: Table,
    index: int,
    task: Key,
    seeds: list[int],
) -> None:
    """Fill the values of one cell, [seeds, fidelities, objectives]."""
    curves = choice.curves(index, table)
    timed = np.zeros((len(values), task.epochs))
    places = _places(table.group(*task).by_seed("accuracy", index), seeds, len(values))
    for error, split in enumerate((task.split, "train", "ori-test")):
        key = task._replace(split=split)
        if key not in table.keys:
            continue
        group = table.group(*key)
        for column in np.flatnonzero(group.present[index]).tolist():
            if group.seeds[column] not in places:
                continue  # a run without the error of validation
            seed = places[group.seeds[column]]
            curve = curves.get((key, group.seeds[column]))
            if curve is not None and values.shape[1] == task.epochs:
                values[seed, :, error] = 1 - curve.accuracy / 100
            values[seed, -1, error] = 1 - group.column("accuracy")[index, column] / 100
            if error < 2:  # the test pass is not part of the search cost
                seconds = np.full(task.epochs, group.column("epoch_seconds")[index, column])
                if curve is not None and curve.seconds is not None:
                    seconds = curve.seconds
                timed[seed] += np.nan_to_num(seconds) if split != "train" else seconds
    timed[np.isnan(values[:, -1, 0])] = np.nan
    values[:, :, 3] = timed[:, -values.shape[1] :]
    values[:, :, 4] = np.cumsum(timed, axis=1)[:, -values.shape[1] :]
    cost = table.cost(index, task.dataset, task.epochs)
    values[:, :, 5] = np.nan if cost.latency_s is None else cost.latency_s
    values[:, :, 6], values[:, :, 7] = cost.mflops, cost.params_m


def _places(held: Collection[int], seeds: list[int], runs: int) -> dict[int, int]:
    """Return the place of each run of a cell; unknown seeds take the free places in order."""
    places = {seed: seeds.index(seed) for seed in held if seed >= 0}
    free = (place for place in range(runs) if place not in places.values())
    unknown = sorted((seed for seed in held if seed < 0), reverse=True)
    return places | dict(zip(unknown, free, strict=False))


def _impute(values: NDArray[np.float64]) -> None:
    """Replace errors and times of missing trials by the mean over the cell's other trials."""
    trained = values[..., _TRAINED]
    mean = np.ma.masked_invalid(trained).mean(axis=2, keepdims=True).filled(np.nan)
    values[..., _TRAINED] = np.where(np.isnan(trained), mean, trained)


def _write(
    folder: Path,
    choice: Choice,
    tasks: list[str],
    objectives: list[str],
    cells: NDArray[np.int64],
    fidelities: NDArray[np.int64],
    values: NDArray[np.float64],
) -> None:
    names = [f"hp_x{edge}" for edge in range(6)]
    ops = [[OP_NAMES[op] for op in Cell.from_index(index).ops] for index in cells.tolist()]
    # Syne Tune reads with fastparquet, which cannot read Snappy. So gzip is used, as in Syne Tune.
    pd.DataFrame(ops, columns=names).to_parquet(
        folder / "hyperparameters.parquet", index=False, compression="gzip"
    )
    np.save(folder / "objectives_evaluations.npy", values.astype(np.float32))
    np.save(folder / "fidelities_values.npy", fidelities)
    elapsed = {}
    if "elapsed_time" in objectives:
        elapsed["metric_elapsed_time"] = "metric_elapsed_time"
    operation = _domain("Categorical", categories=list(OP_NAMES))
    contents: dict[str, dict[str, Any]] = {
        "configspace.json": dict.fromkeys(names, operation),
        "fidelityspace.json": {
            "hp_epoch": _domain("Integer", lower=1, upper=int(fidelities[-1]) + 1)
        },
        "metadata.json": {
            **elapsed,
            "metric_default": "metric_valid_error",
            "time_attr": "hp_epoch",
            "objectives_names": [f"metric_{name}" for name in objectives],
            "task_names": tasks,
            "rebench": marker(choice),
        },
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))


def _domain(kind: str, **arguments: object) -> dict[str, object]:
    """Return Syne Tune's description of the values of a setting."""
    return {
        "domain_cls": kind, "domain_kwargs": arguments,
        "sampler_cls": "Uniform", "sampler_kwargs": {},
    }  # fmt: skip
