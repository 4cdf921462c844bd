"""Tables completed for the benchmark authors' search scripts.

The scripts read validation accuracy and training time after 12 or 200 epochs, for the benchmark's
data sets. If a table lacks these values, `for_search` puts other values in their place, and
`renamed` gives a data set another name. This is done on request only, and the name of the table
then lists the changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.tables.layout import FrameSource, Key
from rebench.tables.opening import open_table
from rebench.tables.table import Table

__all__ = ["for_search", "renamed"]

_TIMES: Final = "nb201"
# The numbers of epochs that the scripts use, as `hp`.
_ASKED: Final = (12, 200)
# The data set of a search, the name of its training with validation, and the test split of papers.
_SEARCHED: Final = (
    ("cifar10", "cifar10-valid", "ori-test"),
    ("cifar100", "cifar100", "x-test"),
    ("ImageNet16-120", "ImageNet16-120", "x-test"),
)


@checked
def renamed(table: Table, names: Mapping[str, str]) -> Table:
    """Return a table whose data sets have other names, such as those that a program knows.

    Args:
        table: the table; it keeps its curves.
        names: name of a data set in the table -> its new name.
    """
    held = list(dict.fromkeys(key.dataset for key in table.keys))
    for name in names:
        if name not in held:
            raise UnknownNameError(f"data set of {table.name}", name, held)
    called = [names.get(name, name) for name in held]
    if len(set(called)) < len(held):
        raise InputError(f"{table.name}: two data sets would have one name: {', '.join(called)}")
    rows = table.frame()
    rows = rows.assign(dataset=rows["dataset"].astype(object).replace(dict(names)))
    told = "; ".join(f"{ours} is called {theirs}" for ours, theirs in names.items())
    return table.with_rows(rows, f"{table.name} ({told})")


@checked
def for_search(table: Table) -> Table:
    """Return a table with all values that a search needs; missing values are replaced as follows.

    - Validation accuracy: the test accuracy, where the table has no ``x-valid``. A search on it is
      optimistic.
    - Training time: the time of the cell in `nb201`, in proportion to the epochs, where the table
      has no times.
    - Validation time: 0 seconds where it was not measured.
    - 12 and 200 epochs: the longest training, with its time, where a data set of the table has no
      trainings of this length.

    The name of the table lists the kinds that were used. For a data set that is not in the
    benchmark, the table must have times.
    """
    rows, used, trained = table.frame(), [], []
    held = dict.fromkeys(key.dataset for key in table.keys)
    others = [(name, name, "ori-test") for name in held if name not in BENCHMARK]
    for dataset, training, split in (*_SEARCHED, *others):
        if not _select(rows, training, "x-valid").any():
            tested = _test_split(table, dataset, split)
            if tested is None:
                continue
            rows = _validated(rows, dataset, training, tested)
            used.append(f"validation of {dataset} is {tested}")
        trained.append(training)
        for epochs in sorted(set(rows.loc[_select(rows, training, "x-valid"), "epochs"])):
            rows, note = _timed(rows, training, epochs)
            used += note
    if not trained:
        told = "; ".join(map(str, table.keys))
        if _test_split(table, "cifar10-valid", "ori-test"):
            raise MissingDataError(
                f"{table.name} has no validation accuracy of cifar10-valid; it has {told}. Test "
                "accuracy can replace it under the name cifar10: give the data set this name with "
                "dataset_as (--dataset-as)"
            )
        raise MissingDataError(f"{table.name} has no accuracy of validation or test; it has {told}")
    rows, note = _lengthened(rows)
    used += note
    if not used:
        return table
    name = f"{table.name} ({'; '.join(dict.fromkeys(used))})"
    return Table(FrameSource(rows, name=name, origin=table.origin))


def _select(rows: pd.DataFrame, dataset: str, split: str) -> pd.Series[bool]:
    return (rows["dataset"] == dataset) & (rows["split"] == split)


def _test_split(table: Table, dataset: str, usual: str) -> str | None:
    """Return the test split that replaces validation: the usual split of papers, or another."""
    held = {key.split for key in table.keys if key.dataset == dataset}
    return next((split for split in (usual, "ori-test", "x-test") if split in held), None)


def _lengthened(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Add the longest training of each data set as its missing training of 12 or 200 epochs."""
    parts, used = [rows], []
    for _, own in rows.groupby("dataset", sort=False):
        most, held_epochs = int(own["epochs"].max()), set(own["epochs"])
        for asked in (epochs for epochs in _ASKED if epochs not in held_epochs):
            copied = own[own["epochs"] == most].assign(epochs=asked)
            if "epoch_seconds" in copied:
                copied["epoch_seconds"] *= most / asked
            parts.append(copied)
            used.append(f"{asked} epochs are {most}")
    return pd.concat(parts), used


def _validated(rows: pd.DataFrame, dataset: str, training: str, tested: str) -> pd.DataFrame:
    """Add the longest training of `dataset` as `training`; its test accuracy is the validation."""
    own = rows[rows["dataset"] == dataset]
    longest = own[own["epochs"] == own["epochs"].max()].assign(dataset=training)
    valid = longest[longest["split"] == tested].assign(split="x-valid")
    train = longest[(longest["split"] == "train") & (dataset != training)]
    return pd.concat([rows, train, valid], ignore_index=True)


def _timed(rows: pd.DataFrame, training: str, epochs: int) -> tuple[pd.DataFrame, list[str]]:
    """Fill missing times of training and validation; return the rows, and names of substitutes."""
    for column in ("seconds", "epoch_seconds"):
        if column not in rows:
            rows = rows.assign(**{column: np.nan})
    at = rows["epochs"] == epochs
    valid, train = (_select(rows, training, split) & at for split in ("x-valid", "train"))
    used = []
    if not rows.loc[train, "seconds"].notna().any():
        known = open_table(_TIMES)
        longest = max((key.epochs for key in known.keys if key.dataset == training), default=0)
        if not longest:
            raise MissingDataError(
                f"the training times of {training} are not known: give the table a row of the "
                f"split train with `seconds` for each run"
            )
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
