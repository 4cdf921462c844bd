"""Accuracies from a CSV or Parquet file: a long table, or means with a column per data set."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa

from cells import Cell
from rebench.errors import InputError
from rebench.tables.columns import MEAN_SEED

__all__ = ["read_long_file"]

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
    """Return the long table in a CSV or Parquet file.

    The columns are `index` or `arch`, dataset, split, epochs, seed, accuracy and perhaps loss; or
    `index` or `arch` and columns of means over seeds after 200 epochs such as
    ``cifar10_ori_test`` and ``imagenet16_120_x_test``. A mean gets the seed -1: its seeds are not
    known.
    """
    try:
        frame: pd.DataFrame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is not readable as {path.suffix[1:]}: {error}") from error
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
