"""Tables to Syne Tune's tabular blackbox, in the shape and words of its own NAS-Bench-201."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import OP_NAMES, SPACE_SIZE, Cell
from rebench.errors import MissingDataError
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.tables.layout import Key
from rebench.tables.table import Table

__all__ = ["export_syne_tune"]

_TASKS: Final = ("cifar10", "cifar100", "ImageNet16-120")
_OBJECTIVES: Final = (
    "valid_error", "train_error", "runtime", "elapsed_time", "latency", "flops", "params"
)  # fmt: skip
_EVALUATED: Final = "ori-test"


def export_syne_tune(
    choice: Choice,
    out: Path,
    *,
    epochs: int = 200,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write a folder that Syne Tune's ``blackbox_tabular.deserialize`` opens.

    Each of its seeds is one of the table's; a trial that a cell lacks is the mean of those it has,
    as in Syne Tune's own conversion. With curves there is a fidelity for every epoch of one
    training, without them one, the last. ``metric_valid_error`` is measured on the whole test set,
    as there.
    """
    tasks = [name for name in _TASKS if (choice.which(name, epochs) >= 0).any()]
    if not tasks:
        raise MissingDataError(f"the tables hold none of {', '.join(_TASKS)} at {epochs} epochs")
    # The tasks of a blackbox share their configurations.
    cells = np.flatnonzero(np.all([choice.which(name, epochs) >= 0 for name in tasks], axis=0))
    curves = all(table.has_curves for table in choice.tables)
    fidelities = np.arange(1, epochs + 1) if curves else np.array([epochs])
    seeds = max(len(_seeds(table, name, epochs)) for table in choice.tables for name in tasks)
    values = np.full((len(tasks), len(cells), seeds, len(fidelities), len(_OBJECTIVES)), np.nan)
    for row, index in enumerate(cells.tolist()):
        for place, name in enumerate(tasks):
            table = choice.table(index, name, epochs)
            assert table is not None, "the cell is one that a table answers for"
            _fill(values[place, row], table, index, name, epochs)
        on_progress(1)
    imputed = _impute(values)
    notes = (
        f"metric_valid_error is 1 - accuracy / 100 on {_EVALUATED}",
        f"{imputed} values of absent trials are the mean of the cell's others",
        "fidelities are the epochs of one training" if curves else "the last epoch is all there is",
    )
    form = "Syne Tune, tabular blackbox"
    with written(choice, out, form, cells=len(cells), force=force, notes=notes) as unfinished:
        unfinished.mkdir()
        _write(unfinished, choice, tasks, cells, fidelities, values, epochs)
    return Exported(path=out, cells=len(cells), missing=SPACE_SIZE - len(cells))


def _seeds(table: Table, dataset: str, epochs: int) -> tuple[int, ...]:
    key = Key(dataset, _EVALUATED, epochs)
    return table.group(*key).seeds if key in table.keys else ()


def _fill(values: NDArray[np.float64], table: Table, index: int, dataset: str, epochs: int) -> None:
    """Fill one cell's [seed, fidelity, objective]."""
    curves = table.curves(index) if table.has_curves else {}
    for split, error in ((_EVALUATED, 0), ("train", 1)):
        key = Key(dataset, split, epochs)
        if key not in table.keys:
            continue
        group = table.group(*key)
        for seed, number in enumerate(group.seeds):
            if not group.present[index, seed]:
                continue
            curve = curves.get((key, number))
            if curve is not None and values.shape[1] == epochs:
                values[seed, :, error] = 1 - curve.accuracy / 100
            values[seed, -1, error] = 1 - group.column("accuracy")[index, seed] / 100
            seconds = np.full(epochs, group.column("epoch_seconds")[index, seed])
            if curve is not None and curve.seconds is not None:
                seconds = curve.seconds
            both = np.array([seconds, np.cumsum(seconds)]).T[-values.shape[1] :]
            before = values[seed, :, 2:4]
            values[seed, :, 2:4] = np.where(np.isnan(before), 0, before) + both
    cost = table.cost(index, dataset, epochs)
    values[:, :, 4] = np.nan if cost.latency_s is None else cost.latency_s
    values[:, :, 5], values[:, :, 6] = cost.mflops, cost.params_m


def _impute(values: NDArray[np.float64]) -> int:
    """Replace the errors and times of absent trials by the mean of the cell's others."""
    trained = values[..., :4]
    absent = np.isnan(trained)
    count = (~absent).sum(axis=2, keepdims=True)
    total = np.where(absent, 0, trained).sum(axis=2, keepdims=True)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    values[..., :4] = np.where(absent, mean, trained)
    return int((absent & (count > 0)).sum())


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
    """Return how Syne Tune writes what a setting may be."""
    return {
        "domain_cls": kind, "domain_kwargs": arguments,
        "sampler_cls": "Uniform", "sampler_kwargs": {},
    }  # fmt: skip
