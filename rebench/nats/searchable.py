"""Tables completed for the benchmark authors' search scripts.

The scripts ask for validation accuracy and training time of 12 or 200 epochs, of every cell. A
table without them cannot answer. `for_search` takes other values in their place. This is done on
request only, and the name of the table then lists the substitutes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from rebench.arguments import checked
from rebench.errors import MissingDataError
from rebench.tables.layout import Key
from rebench.tables.opening import open_table
from rebench.tables.table import Table

__all__ = ["for_search"]

_TIMES: Final = "nb201"
_SHORT: Final = 12
# The data set of a search, the training that it looks at, and the test split of papers.
_SEARCHED: Final = (
    ("cifar10", "cifar10-valid", "ori-test"),
    ("cifar100", "cifar100", "x-test"),
    ("ImageNet16-120", "ImageNet16-120", "x-test"),
)


@checked
def for_search(table: Table) -> Table:
    """Return a table that answers every query of a search, by values of these kinds.

    - Validation accuracy: the test accuracy, where the table has no ``x-valid``. A search on it is
      optimistic.
    - Training time: that of the cell in `nb201`, in proportion to the epochs, where the table has
      no times.
    - Validation time: 0 seconds where it was not measured.
    - 12 epochs: the longest training, with its time, where the table has no trainings of 12 epochs.

    The name of the table lists the kinds that were used. Raise `MissingDataError` for a table
    without accuracies of CIFAR-10, CIFAR-100 or ImageNet16-120.
    """
    rows, used = table.frame(), []
    longest = {key.dataset: 0 for key in table.keys}
    for key in table.keys:
        longest[key.dataset] = max(longest[key.dataset], key.epochs)
    trained = []
    for dataset, training, split in _SEARCHED:
        if not (valid := _select(rows, training, "x-valid")).any():
            tested = _test_split(table, dataset, split)
            if tested is None:
                continue
            found = rows[_select(rows, dataset, tested) & (rows["epochs"] == longest[dataset])]
            rows = pd.concat([rows, found.assign(dataset=training, split="x-valid")])
            used.append(f"validation of {dataset} is {tested}")
            valid = _select(rows, training, "x-valid")
        trained.append(training)
        for epochs in sorted(set(rows.loc[valid, "epochs"])):
            rows, note = _timed(rows, training, epochs)
            used += note
    if not trained:
        names = ", ".join(name for name, *_ in _SEARCHED)
        held = ", ".join(sorted(longest))
        raise MissingDataError(f"{table.name} has no accuracy of {names}; it has {held}")
    if _SHORT not in set(rows["epochs"]):
        most = int(rows["epochs"].max())
        short = rows[rows["epochs"] == most].assign(epochs=_SHORT)
        if "epoch_seconds" in short:
            short["epoch_seconds"] *= most / _SHORT
        rows = pd.concat([rows, short])
        used.append(f"{_SHORT} epochs are {most}")
    if not used:
        return table
    name = f"{table.name} ({'; '.join(dict.fromkeys(used))})"
    return Table.from_frame(rows.reset_index(drop=True), name=name, origin=table.origin)


def _select(rows: pd.DataFrame, dataset: str, split: str) -> pd.Series[bool]:
    return (rows["dataset"] == dataset) & (rows["split"] == split)


def _test_split(table: Table, dataset: str, usual: str) -> str | None:
    """Return the test split that replaces validation: the usual split of papers, or another."""
    held = {key.split for key in table.keys if key.dataset == dataset}
    return next((split for split in (usual, "ori-test", "x-test") if split in held), None)


def _timed(rows: pd.DataFrame, training: str, epochs: int) -> tuple[pd.DataFrame, list[str]]:
    """Give each validated run a time of training and of validation; name the substitutes."""
    for column in ("seconds", "epoch_seconds"):
        if column not in rows:
            rows = rows.assign(**{column: np.nan})
    at = rows["epochs"] == epochs
    valid, train = (_select(rows, training, split) & at for split in ("x-valid", "train"))
    used = []
    if not rows.loc[train, "seconds"].notna().any():
        known = open_table(_TIMES)
        longest = max(key.epochs for key in known.keys if key.dataset == training)
        mean = known.group(*Key(training, "train", longest)).mean("seconds")
        timed = rows[valid].assign(split="train", accuracy=np.nan)
        timed["seconds"] = mean[timed["index"]] * epochs / longest
        timed["epoch_seconds"] = timed["seconds"] / epochs
        timed = timed.assign(**{name: np.nan for name in ("loss",) if name in rows})
        rows = pd.concat([rows[~train], timed], ignore_index=True)
        valid = _select(rows, training, "x-valid") & (rows["epochs"] == epochs)
        used.append(f"training times of {_TIMES}")
    if not rows.loc[valid, "seconds"].notna().any():
        rows.loc[valid, ["seconds", "epoch_seconds"]] = 0.0
        used.append("validation times are 0")
    return rows, used
