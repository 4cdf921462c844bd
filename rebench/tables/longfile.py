"""Accuracies from a CSV or Parquet file: a long table, or means with a column per data set."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd

from cells import Cell
from rebench.errors import InputError
from rebench.tables.columns import MEAN_SEED
from rebench.tables.parquet import ParquetFile

__all__ = ["long_rows", "read_csv", "read_long_file"]

# Columns of means after 200 epochs, as they are passed around: name -> (data set, split).
_MEAN_COLUMNS: Final = {
    f"{name}_{split.replace('-', '_')}": (dataset, split)
    for name, dataset in (
        ("cifar10_valid", "cifar10-valid"),
        ("cifar10", "cifar10"),
        ("cifar100", "cifar100"),
        ("imagenet16_120", "ImageNet16-120"),
    )
    for split in ("train", "x-valid", "x-test", "ori-test")
}


def read_long_file(path: Path) -> pd.DataFrame:
    """Return the long table in a CSV or Parquet file (see `long_rows`)."""
    if path.suffix == ".csv":
        return read_csv(path)
    return long_rows(ParquetFile(path).frame(), path)


def read_csv(path: Path) -> pd.DataFrame:
    """Return the long table in a CSV file (see `long_rows`)."""
    try:
        frame = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not readable as CSV in UTF-8: {error}") from error
    return long_rows(frame, path)


def long_rows(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the long table that a file holds, long or wide.

    The columns are `index` or `arch`, dataset, split, epochs, seed, accuracy and perhaps loss; or
    `index` or `arch` and columns of means over seeds after 200 epochs such as
    ``cifar10_ori_test`` and ``imagenet16_120_x_test``. A mean gets the seed -1: its seeds are not
    known.
    """
    if "index" not in frame.columns and "arch" in frame.columns:
        found = {text: Cell.find(text).index for text in frame["arch"].unique()}
        frame = frame.assign(index=frame["arch"].map(found))
    wide = [name for name in frame.columns if str(name).lower() in _MEAN_COLUMNS]
    if wide and "accuracy" not in frame.columns:
        frame = _melted(frame, wide, path)
    return frame


def _melted(frame: pd.DataFrame, wide: list[str], path: Path) -> pd.DataFrame:
    if "index" not in frame.columns:
        raise InputError(f"{path}: means need a column index or arch")
    parts = []
    for name in wide:
        dataset, split = _MEAN_COLUMNS[name.lower()]
        known = frame[frame[name].notna()]
        columns = {"index": known["index"], "dataset": dataset, "split": split, "epochs": 200}
        parts.append(pd.DataFrame({**columns, "seed": MEAN_SEED, "accuracy": known[name]}))
    means: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return means
