"""Tables to Syne Tune's tabular blackbox, in the shape and words of its own NAS-Bench-201."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import OP_NAMES, SPACE_SIZE, Cell
from rebench.data import BENCHMARK
from rebench.errors import InputError, MissingDataError
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
_TRAINED: Final = slice(0, 5)  # what each trial has of its own


class _Task(NamedTuple):
    """A task: the training that stands behind it, and the split that is its validation."""

    name: str
    trained: str
    valid: str


def export_syne_tune(
    choice: Choice,
    out: Path,
    *,
    epochs: int = 200,
    impute: bool = False,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write a folder that Syne Tune's ``blackbox_tabular.deserialize`` opens.

    Each of its seeds is one of the table's. ``metric_valid_error`` is of the validation images
    wherever the table has them (for CIFAR-10 after training on half of it, as the benchmark's own
    searches see it), and of the test images elsewhere; ``metric_test_error`` is of the test images.
    With curves of it there is a fidelity for every epoch of one training, else one, the last.

    Args:
        choice: which tables answer.
        out: the folder to write.
        epochs: the length of the trainings.
        impute: give a trial that a cell lacks the mean of those it has; otherwise it stays NaN.
        force: replace `out` where it exists.
        on_progress: called with how many cells were written since the last call.
    """
    other = sorted(set(choice.datasets) - set(BENCHMARK))
    if other:
        raise InputError(f"Syne Tune's tasks are {', '.join(_TASKS)}; got {', '.join(other)}, too")
    tasks = [task for name in _TASKS if (task := _task(choice, name, epochs))]
    if not tasks:
        raise MissingDataError(f"the tables hold none of {', '.join(_TASKS)} at {epochs} epochs")
    # The tasks of a blackbox share their configurations.
    cells = np.flatnonzero(
        np.all([choice.which(task.trained, epochs) >= 0 for task in tasks], axis=0)
    )
    curves = all(table.has_curves for table in choice.tables)
    fidelities = np.arange(1, epochs + 1) if curves else np.array([epochs])
    seeds = sorted({s for t in choice.tables for task in tasks for s in _seeds(t, task, epochs)})
    values = np.full(
        (len(tasks), len(cells), len(seeds), len(fidelities), len(_OBJECTIVES)), np.nan
    )
    for row, index in enumerate(cells.tolist()):
        for place, task in enumerate(tasks):
            table = choice.table(index, task.trained, epochs)
            assert table is not None, "the cell is one that a table answers for"
            _fill(values[place, row], table, index, task, epochs, seeds)
        on_progress(1)
    absent = int(np.isnan(values[..., -1, 0]).sum())
    if impute:
        _impute(values)
    notes = (
        *(f"{task.name}: metric_valid_error is of {task.valid}, trained on {task.trained}"
          for task in tasks),
        f"{absent} trials are absent: " + ("the mean of the cell's others" if impute else "NaN"),
        "fidelities are the epochs of one training" if curves else "the last epoch is all there is",
    )  # fmt: skip
    form = "Syne Tune, tabular blackbox"
    with written(choice, out, form, cells=len(cells), force=force, notes=notes) as unfinished:
        unfinished.mkdir()
        names = [task.name for task in tasks]
        _write(unfinished, choice, names, cells, fidelities, values, epochs)
    return Exported(path=out, cells=len(cells), missing=SPACE_SIZE - len(cells))


def _task(choice: Choice, name: str, epochs: int) -> _Task | None:
    held = {key for table in choice.tables for key in table.keys}
    trainings = ("cifar10-valid", "cifar10") if name == "cifar10" else (name,)
    for trained in trainings:
        # Epoch by epoch the benchmark evaluated one split alone.
        usual = eval_order(trained, epochs)
        for valid in usual if all(t.has_curves for t in choice.tables) else ("x-valid", *usual):
            if Key(trained, valid, epochs) in held:
                return _Task(name, trained, valid)
    return None


def _seeds(table: Table, task: _Task, epochs: int) -> tuple[int, ...]:
    key = Key(task.trained, task.valid, epochs)
    return table.group(*key).seeds if key in table.keys else ()


def _fill(
    values: NDArray[np.float64],
    table: Table,
    index: int,
    task: _Task,
    epochs: int,
    seeds: list[int],
) -> None:
    """Fill one cell's [seed, fidelity, objective]."""
    curves = table.curves(index) if table.has_curves else {}
    timed = np.zeros((len(seeds), epochs))
    for split, errors in ((task.valid, [0]), ("train", [1]), ("ori-test", [2])):
        key = Key(task.trained, split, epochs)
        if key not in table.keys:
            continue
        group = table.group(*key)
        for number in np.array(group.seeds)[group.present[index]].tolist():
            seed, column = seeds.index(number), group.seeds.index(number)
            curve = curves.get((key, number))
            for error in errors:
                if curve is not None and values.shape[1] == epochs:
                    values[seed, :, error] = 1 - curve.accuracy / 100
                values[seed, -1, error] = 1 - group.column("accuracy")[index, column] / 100
            if split in (task.valid, "train"):
                seconds = np.full(epochs, group.column("epoch_seconds")[index, column])
                if curve is not None and curve.seconds is not None:
                    seconds = curve.seconds
                timed[seed] += np.nan_to_num(seconds) if split != "train" else seconds
    timed[np.isnan(values[:, -1, 0])] = np.nan
    values[:, :, 3] = timed[:, -values.shape[1] :]
    values[:, :, 4] = np.cumsum(timed, axis=1)[:, -values.shape[1] :]
    cost = table.cost(index, task.trained, epochs)
    values[:, :, 5] = np.nan if cost.latency_s is None else cost.latency_s
    values[:, :, 6], values[:, :, 7] = cost.mflops, cost.params_m


def _impute(values: NDArray[np.float64]) -> None:
    """Replace the errors and times of absent trials by the mean of the cell's others."""
    trained = values[..., _TRAINED]
    absent = np.isnan(trained)
    count = (~absent).sum(axis=2, keepdims=True)
    total = np.where(absent, 0, trained).sum(axis=2, keepdims=True)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    values[..., _TRAINED] = np.where(absent, mean, trained)


def _write(
    folder: Path,
    choice: Choice,
    tasks: list[str],
    cells: NDArray[np.int64],
    fidelities: NDArray[np.int64],
    values: NDArray[np.float64],
    epochs: int,
) -> None:
    names = [f"hp_x{edge}" for edge in range(6)]
    ops = [[OP_NAMES[op] for op in Cell.from_index(index).ops] for index in cells.tolist()]
    # Syne Tune reads with fastparquet, which takes no Snappy: gzip, as Syne Tune writes it.
    pd.DataFrame(ops, columns=names).to_parquet(
        folder / "hyperparameters.parquet", index=False, compression="gzip"
    )
    np.save(folder / "objectives_evaluations.npy", values.astype(np.float32))
    np.save(folder / "fidelities_values.npy", fidelities)
    operation = _domain("Categorical", categories=list(OP_NAMES))
    contents: dict[str, dict[str, Any]] = {
        "configspace.json": dict.fromkeys(names, operation),
        "fidelityspace.json": {"hp_epoch": _domain("Integer", lower=1, upper=epochs + 1)},
        "metadata.json": {
            "metric_elapsed_time": "metric_elapsed_time",
            "metric_default": "metric_valid_error",
            "time_attr": "hp_epoch",
            "objectives_names": [f"metric_{name}" for name in _OBJECTIVES],
            "task_names": tasks,
            "rebench": marker(choice),
        },
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))


def _domain(kind: str, **arguments: object) -> dict[str, object]:
    """How Syne Tune writes what a setting may be."""
    return {
        "domain_cls": kind, "domain_kwargs": arguments,
        "sampler_cls": "Uniform", "sampler_kwargs": {},
    }  # fmt: skip
