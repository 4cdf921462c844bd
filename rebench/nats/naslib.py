"""Export to the pickles of NASLib: one per data set, cells by architecture string."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cells import Cell
from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import InputError, MissingDataError
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.nats.fastpath import eval_order
from rebench.tables.layout import Key

__all__ = ["export_naslib"]

# Name of each data set's file in NASLib's folder ``data``.
_FILES: Final = {
    "cifar10-valid": "nb201_cifar10_full_training.pickle",
    "cifar100": "nb201_cifar100_full_training.pickle",
    "ImageNet16-120": "nb201_ImageNet16_full_training.pickle",
}


@checked
def export_naslib(
    choice: Choice,
    out: Path,
    *,
    epochs: int | None = None,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write a folder of NASLib's files: {architecture: {data set: metrics by epoch, cost_info}}.

    Metrics are means over seeds, on the split that the benchmark evaluated after every epoch
    (``x-valid`` for trainings of 12 epochs or on half of CIFAR-10, else ``ori-test``). If the
    tables lack this split, another of ``x-valid``, ``x-test`` and ``ori-test`` is used. A value at
    an epoch, a loss or a training metric that the tables do not have is NaN; an unknown latency or
    training time is None. `epochs` is the length of the trainings, by default the longest length.
    """
    epochs = epochs or max(choice.trained_epochs)
    other = sorted(set(choice.datasets) - set(BENCHMARK))
    if other:
        raise InputError(
            f"NASLib opens files of {', '.join(_FILES)} only; got {', '.join(other)}: name one of "
            f"these in its place, such as --dataset-as {other[0]}=cifar10-valid"
        )
    held: dict[str, NDArray[np.bool_]] = {}
    for name in _FILES:
        answered = choice.which(name, epochs) >= 0
        if answered.any():
            held[name] = answered
    if not held or epochs not in choice.trained_epochs:
        raise MissingDataError(f"the tables have none of {', '.join(_FILES)} at {epochs} epochs")
    files = np.sum(list(held.values()), axis=0)  # of each cell
    notes = []
    for name in _FILES:
        if name in held:
            split = _evaluated(choice, name, epochs)
            notes.append(f"{name}: eval_acc1es are of {split}; means over seeds")
        else:
            notes.append(f"no file for {name}: the tables lack it")
    made = Exported(path=out, cells=int(np.count_nonzero(files)), notes=tuple(notes))
    with written(choice, made, f"NASLib, {epochs} epochs", force=force) as unfinished:
        unfinished.mkdir()
        source = marker(choice)
        for name, answered in held.items():
            content = {}
            for index in np.flatnonzero(answered).tolist():
                arch = str(Cell.from_index(index))
                content[arch] = {name: _metrics(choice, index, name, epochs), "rebench": source}
                on_progress(1 / files[index])
            (unfinished / _FILES[name]).write_bytes(pickle.dumps(content, 4))
    return made


def _evaluated(choice: Choice, dataset: str, epochs: int) -> str:
    """Return the split for NASLib's ``eval``: the first of the benchmark's splits in the tables."""
    order = eval_order(dataset, epochs)
    for split in order:
        if Key(dataset, split, epochs) in choice.keys:
            return split
    return order[0]


def _metrics(choice: Choice, index: int, dataset: str, epochs: int) -> dict[str, Any]:
    table = choice.table(index, dataset, epochs)
    assert table is not None, "the cell is one that a table answers for"
    curves = choice.curves(index, table)
    found: dict[str, Any] = {}
    for word, split in (("train", "train"), ("eval", _evaluated(choice, dataset, epochs))):
        key = Key(dataset, split, epochs)
        group = table.group(*key) if key in table.keys else None
        of_key = [curve for (other, _), curve in curves.items() if other == key]
        for metric, plural in (("accuracy", "acc1es"), ("loss", "losses")):
            values = [math.nan] * epochs
            if of_key:
                values = np.mean([getattr(curve, metric) for curve in of_key], axis=0).tolist()
            if group is not None:
                values[-1] = float(group.mean(metric)[index])
            found[f"{word}_{plural}"] = values
    cost = table.cost(index, dataset, epochs)
    found["cost_info"] = {
        "flops": cost.mflops,
        "params": cost.params_m,
        "latency": cost.latency_s,
        "train_time": cost.train_seconds,
    }
    return found
