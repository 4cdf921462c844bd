"""Tables completed for the benchmark authors' search scripts.

The scripts draw from all 15,625 cells. They read validation accuracy and training time after 12 or
200 epochs, for the benchmark's data sets. If a table lacks these values, `for_search` and
`with_chance` put other values in their place, and `renamed` gives a data set another name. The name
of the table then lists the changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pandas as pd

from cells import SPACE_SIZE
from rebench.arguments import checked
from rebench.data import BENCHMARK, data_spec
from rebench.errors import InputError, UnknownNameError
from rebench.tables.layout import Ints, Key
from rebench.tables.opening import open_table
from rebench.tables.table import Table
from rebench.tables.whole_space import constant_items, described, trained_cells

__all__ = ["for_search", "renamed", "with_chance"]

_TIMES: Final = "nb201"
# The numbers of epochs that the scripts use, as `hp`.
_ASKED: Final = (12, 200)
# The published accuracy of every cell without a path, where it is not 100 / classes.
_CHANCE: Final = {("cifar10-valid", "x-valid"): 9.712}
# Columns that all rows of a training share.
_SHARED: Final = (*Key._fields, "recipe", "channels", "cells_per_stage", "network", "train_split")
# The data set of a search, and the name of its training with validation.
_SEARCHED: Final = (
    ("cifar10", "cifar10-valid"), ("cifar100", "cifar100"), ("ImageNet16-120", "ImageNet16-120"),
)  # fmt: skip
# The test split of papers, where it is not the whole test set.
_USUAL_TEST: Final = {"cifar100": "x-test", "ImageNet16-120": "x-test"}


@checked
def renamed(table: Table, names: Mapping[str, str]) -> Table:
    """Return a table whose data sets have other names, such as those that a program knows.

    Args:
        table: the table; it keeps its curves.
        names: name of a data set in the table -> its new name.
    """
    held = dict.fromkeys(key.dataset for key in table.keys)
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


def with_chance(table: Table) -> tuple[Table, Ints]:
    """Return a table with the cells without a path at the accuracy of chance, and these cells.

    These 341 networks ignore their images, so they answer every image alike. The accuracy of chance
    is 100 / classes: `nb201` has it for all 341 on the test images of `cifar10` (10), on `cifar100`
    (1) and on `ImageNet16-120` (0.8333). The validation images of `cifar10-valid` are not balanced:
    the published accuracy of all 341 is 9.712. The loss is the natural logarithm of the number of
    classes. Times are medians over the table's cells.

    The table itself is returned if it lacks other cells, too.
    """
    missing = np.setdiff1d(np.arange(SPACE_SIZE), trained_cells(table))
    if not missing.size or not np.isin(missing, constant_items()).all():
        return table, missing[:0]
    rows = table.frame()
    parts = []
    for (dataset, split, _), own in rows.groupby(list(Key._fields), sort=False, observed=True):
        classes = _classes(str(dataset))
        if classes is None:
            continue
        seeds = own["seed"].unique()
        shared = [name for name in _SHARED if name in own]
        added = pd.DataFrame({"index": np.repeat(missing, len(seeds))}).assign(
            seed=np.tile(seeds, len(missing)),
            accuracy=_CHANCE.get((str(dataset), str(split)), 100 / classes),
            **own[shared].iloc[0],
        )
        if "loss" in own:
            added["loss"] = math.log(classes)
        for name in ("seconds", "epoch_seconds"):
            if name in own and own[name].notna().any():
                added[name] = own[name].median()
        for name in ("params_m", "mflops"):
            if name in own:
                added[name] = np.nan
        parts.append(described(added, table.skeleton))
    if not parts:
        return table, missing[:0]
    told = f"{len(missing)} cells without a path have the accuracy of chance"
    return table.with_rows(pd.concat([rows, *parts]), f"{table.name} ({told})"), missing


def _classes(dataset: str) -> int | None:
    name = BENCHMARK.get(dataset, (dataset.removesuffix("-valid"),))[0]
    try:
        return data_spec(name).classes
    except UnknownNameError:
        return None


def for_search(table: Table, elsewhere: Collection[Key] = ()) -> Table:
    """Return a table with all values that a search needs; missing values are replaced as follows.

    - Validation accuracy: the test accuracy, where the table has no ``x-valid``. A search on it is
      optimistic.
    - Training on all images of `cifar10`: that on half of them, ``cifar10-valid``. The package
      reads the latency of `cifar10`.
    - Training time: the time of the cell in `nb201`, in proportion to the epochs, where the table
      has no times of a data set of the benchmark.
    - Validation time: 0 seconds where it was not measured.
    - 12 and 200 epochs: the longest training, with its time, where a data set of the table has no
      trainings of this length.

    The name of the table lists the kinds that were used.

    Args:
        table: the table to complete; its curves are kept.
        elsewhere: the keys of another table; what it has is not replaced.
    """
    if _is_complete(table):
        return table
    rows = table.frame()
    used = []
    held = dict.fromkeys(key.dataset for key in table.keys)
    others = [(name, name) for name in held if name not in BENCHMARK]
    for dataset, training in (*_SEARCHED, *others):
        if not _select(rows, training, "x-valid").any():
            source = _tested(table, dataset, training)
            if source is None or any(key[:2] == (training, "x-valid") for key in elsewhere):
                continue
            rows = _validated(rows, source, training)
            used.append("validation of {} is {}".format(*source))
        for epochs in sorted(set(rows.loc[_select(rows, training, "x-valid"), "epochs"])):
            rows, note = _timed(rows, training, epochs)
            used += note
    halved = _select(rows, "cifar10-valid", "train") | _select(rows, "cifar10-valid", "ori-test")
    held |= dict.fromkeys(key.dataset for key in elsewhere)
    if "cifar10" not in held and halved.any():
        rows = pd.concat([rows, rows[halved].assign(dataset="cifar10")], ignore_index=True)
        used.append("cifar10 is cifar10-valid")
    rows, note = _lengthened(rows, {(key.dataset, key.epochs) for key in elsewhere})
    used += note
    if not used:
        return table
    return table.with_rows(rows, f"{table.name} ({'; '.join(dict.fromkeys(used))})")


def _is_complete(table: Table) -> bool:
    """Return whether a table has all trainings of searches, without reading its rows."""
    for _, training in _SEARCHED:
        for epochs in _ASKED:
            train = Key(training, "train", epochs)
            if not {train, train._replace(split="x-valid")} <= set(table.run_keys):
                return False
            if not np.isfinite(table.group(*train).column("seconds")).any():
                return False
    return True


def _select(rows: pd.DataFrame, dataset: str, split: str) -> pd.Series[bool]:
    return (rows["dataset"] == dataset) & (rows["split"] == split)


def _tested(table: Table, dataset: str, training: str) -> tuple[str, str] | None:
    """Return the data set and the test split that replace the validation of a training."""
    usual = _USUAL_TEST.get(dataset, "ori-test")
    held = {key[:2] for key in table.keys}
    for name in (training, dataset):
        for split in (usual, "ori-test", "x-test"):
            if (name, split) in held:
                return name, split
    return None


def _lengthened(
    rows: pd.DataFrame, elsewhere: Collection[tuple[str, int]]
) -> tuple[pd.DataFrame, list[str]]:
    """Add the longest training of each data set as its missing training of 12 or 200 epochs."""
    parts = [rows]
    used = []
    for dataset, own in rows.groupby("dataset", sort=False, observed=True):
        most = int(own["epochs"].max())
        lengths = set(own["epochs"])
        for asked in _ASKED:
            if asked in lengths or (dataset, asked) in elsewhere:
                continue
            # Without the trial, because its curve has another length.
            copied = own[own["epochs"] == most].drop(columns="trial_id", errors="ignore")
            copied = copied.assign(epochs=asked)
            if "epoch_seconds" in copied:
                copied["epoch_seconds"] *= most / asked
            parts.append(copied)
            used.append(f"{asked} epochs are {most}")
    return pd.concat(parts), used


def _validated(rows: pd.DataFrame, source: tuple[str, str], training: str) -> pd.DataFrame:
    """Add the longest training of `source` as `training`; its test accuracy is the validation."""
    dataset, tested = source
    own = rows[rows["dataset"] == dataset]
    longest = own[own["epochs"] == own["epochs"].max()].assign(dataset=training)
    valid = longest[longest["split"] == tested].assign(split="x-valid", measured_on=tested)
    parts = [rows, valid]
    if not (rows["dataset"] == training).any():
        parts.append(longest)
    return pd.concat(parts, ignore_index=True)


def _timed(rows: pd.DataFrame, training: str, epochs: int) -> tuple[pd.DataFrame, list[str]]:
    """Fill missing times of training and validation; return the rows, and names of substitutes."""
    for column in ("seconds", "epoch_seconds"):
        if column not in rows:
            rows = rows.assign(**{column: np.nan})
    at = rows["epochs"] == epochs
    valid = _select(rows, training, "x-valid") & at
    train = _select(rows, training, "train") & at
    used = []
    if not rows.loc[train, "seconds"].notna().any():
        known = open_table(_TIMES)
        longest = max((key.epochs for key in known.keys if key.dataset == training), default=0)
        if not longest:
            return rows, []
        if not train.any():
            added = rows[valid].assign(split="train", accuracy=np.nan)
            if "loss" in rows:
                added["loss"] = np.nan
            rows = pd.concat([rows, added], ignore_index=True)
            at = rows["epochs"] == epochs
            valid = _select(rows, training, "x-valid") & at
            train = _select(rows, training, "train") & at
        mean = known.group(*Key(training, "train", longest)).mean("seconds")
        seconds = mean[rows.loc[train, "index"]] * epochs / longest
        rows.loc[train, "seconds"] = seconds
        rows.loc[train, "epoch_seconds"] = seconds / epochs
        used.append(f"training times of {_TIMES}")
    if not rows.loc[valid, "seconds"].notna().any():
        rows.loc[valid, ["seconds", "epoch_seconds"]] = 0.0
        used.append("validation times are 0")
    return rows, used
