"""Export to a tabular blackbox of Syne Tune, in the format of its NAS-Bench-201."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import OP_NAMES, SPACE_SIZE
from cells.table import space_ops
from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import MissingDataError
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.tables.layout import Key

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
    names = [*_TASKS]
    names += [name for name in choice.datasets if name not in BENCHMARK]
    tasks: dict[str, Key] = {}
    answered = np.ones(SPACE_SIZE, dtype=bool)  # the tasks of a blackbox share their configurations
    held = set[int]()
    runs = 0
    for name in names:
        key = _validated(choice, name, epochs)
        if key is None:
            continue
        tasks[name] = key
        answered &= choice.which(key.dataset, epochs) >= 0
        for table in choice.tables:
            if key in table.keys:
                group = table.group(*key)
                held.update(group.seeds)
                runs = max(runs, int(group.n.max()))
    if not tasks or epochs not in choice.trained_epochs:
        raise MissingDataError(f"the tables have none of {', '.join(names)} at {epochs} epochs")
    cells = np.flatnonzero(answered)
    fidelities = np.array([epochs])
    if choice.has_curves:
        fidelities = np.arange(1, epochs + 1)
    seeds = sorted(seed for seed in held if seed >= 0)
    runs = max(runs, len(seeds))
    values = np.full((len(tasks), len(cells), runs, len(fidelities), len(_OBJECTIVES)), np.nan)
    for row, index in enumerate(cells.tolist()):
        for place, key in enumerate(tasks.values()):
            _fill(values[place, row], choice, index, key, seeds)
        on_progress(1)
    absent = int(np.isnan(values[..., -1, 0]).sum())
    _impute(values)
    unknown = np.isnan(values).all(axis=(1, 2, 3)).any(axis=0)
    left_out = np.array(_OBJECTIVES)[unknown].tolist()
    objectives = np.array(_OBJECTIVES)[~unknown].tolist()
    notes = _notes(tasks, absent, left_out, has_curves=choice.has_curves)
    made = Exported(path=out, cells=len(cells), notes=notes)
    with written(choice, made, "Syne Tune, tabular blackbox", force=force) as unfinished:
        unfinished.mkdir()
        _write(
            unfinished, choice, list(tasks), objectives, cells, fidelities, values[..., ~unknown]
        )
    return made


def _notes(
    tasks: dict[str, Key], absent: int, left_out: list[str], *, has_curves: bool
) -> tuple[str, ...]:
    notes = []
    for name, key in tasks.items():
        notes.append(f"{name}: metric_valid_error is of {key.split}, trained on {key.dataset}")
    if absent:
        notes.append(
            f"{absent} trials are missing; their values are means over the cell's other trials"
        )
    if left_out:
        notes.append(f"the tables do not have {', '.join(left_out)}")
    if has_curves:
        notes.append("fidelities are the epochs of one training")
    else:
        notes.append("the only fidelity is the last epoch")
    return tuple(notes)


def _validated(choice: Choice, task: str, epochs: int) -> Key | None:
    """Return the training of a task, and the split of its validation error."""
    trainings = ["cifar10-valid", "cifar10"] if task == "cifar10" else [task]
    for trained in trainings:
        # The benchmark evaluated only one split after every epoch.
        splits = eval_order(trained, epochs)
        if not choice.has_curves:
            splits = ("x-valid", *splits)
        for split in splits:
            key = Key(trained, split, epochs)
            if key in choice.keys:
                return key
    return None


def _fill(
    values: NDArray[np.float64], choice: Choice, index: int, task: Key, seeds: list[int]
) -> None:
    """Fill the values of one cell, [seeds, fidelities, objectives]."""
    table = choice.table(index, task.dataset, task.epochs)
    assert table is not None, "the cell is one that a table answers for"
    curves = choice.curves(index, table)
    timed = np.zeros((len(values), task.epochs))
    places = _places(table.group(*task).by_seed("accuracy", index), seeds, len(values))
    fidelities = values.shape[1]
    for error, split in enumerate((task.split, "train", "ori-test")):
        key = task._replace(split=split)
        if key not in table.keys:
            continue
        group = table.group(*key)
        epoch_seconds = group.by_seed("epoch_seconds", index)
        for seed, accuracy in group.by_seed("accuracy", index).items():
            if seed not in places:
                continue  # a run without the error of validation
            place = places[seed]
            curve = curves.get((key, seed))
            if curve is not None and fidelities == task.epochs:
                values[place, :, error] = 1 - curve.accuracy / 100
            values[place, -1, error] = 1 - accuracy / 100
            if error == 2:  # the test pass is not part of the search cost
                continue
            seconds = np.full(task.epochs, epoch_seconds.get(seed, np.nan))
            if curve is not None and curve.seconds is not None:
                seconds = curve.seconds
            if split != "train":
                seconds = np.nan_to_num(seconds)
            timed[place] += seconds
    timed[np.isnan(values[:, -1, 0])] = np.nan
    values[:, :, 3] = timed[:, -fidelities:]
    values[:, :, 4] = np.cumsum(timed, axis=1)[:, -fidelities:]
    cost = table.cost(index, task.dataset, task.epochs)
    values[:, :, 5] = np.nan if cost.latency_s is None else cost.latency_s
    values[:, :, 6] = cost.mflops
    values[:, :, 7] = cost.params_m


def _places(held: Collection[int], seeds: list[int], runs: int) -> dict[int, int]:
    """Return the place of each run of a cell; unknown seeds take the free places in order."""
    places: dict[int, int] = {}
    free = list(range(runs))
    for seed in sorted(held, reverse=True):  # the unknown seeds, which are below 0, come last
        place = seeds.index(seed) if seed >= 0 else free[0]
        places[seed] = place
        free.remove(place)
    return places


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
    ops = np.array(OP_NAMES)[space_ops()[cells]]
    # Syne Tune reads with fastparquet, which cannot read Snappy. So gzip is used, as in Syne Tune.
    pd.DataFrame(ops, columns=names).to_parquet(
        folder / "hyperparameters.parquet", index=False, compression="gzip"
    )
    np.save(folder / "objectives_evaluations.npy", values.astype(np.float32))
    np.save(folder / "fidelities_values.npy", fidelities)
    metadata: dict[str, Any] = {}
    if "elapsed_time" in objectives:
        metadata["metric_elapsed_time"] = "metric_elapsed_time"
    metadata |= {
        "metric_default": "metric_valid_error",
        "time_attr": "hp_epoch",
        "objectives_names": [f"metric_{name}" for name in objectives],
        "task_names": tasks,
        "rebench": marker(choice),
    }
    operation = _domain("Categorical", categories=list(OP_NAMES))
    epoch = _domain("Integer", lower=1, upper=int(fidelities[-1]) + 1)
    contents: dict[str, dict[str, Any]] = {
        "configspace.json": dict.fromkeys(names, operation),
        "fidelityspace.json": {"hp_epoch": epoch},
        "metadata.json": metadata,
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))


def _domain(kind: str, **arguments: object) -> dict[str, object]:
    """Return Syne Tune's description of the values of a setting."""
    return {
        "domain_cls": kind, "domain_kwargs": arguments,
        "sampler_cls": "Uniform", "sampler_kwargs": {},
    }  # fmt: skip
