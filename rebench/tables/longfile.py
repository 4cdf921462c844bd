"""Accuracies from a CSV or Parquet file: a long table, or means with a column per data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cells import Cell
from rebench.errors import InputError
from rebench.tables.columns import MEAN_SEED, SPLITS
from rebench.tables.parquet import ParquetFile

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["long_rows", "read_csv", "read_long_file"]

_DATASETS: Final = {
    "cifar10_valid": "cifar10-valid",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "imagenet16_120": "ImageNet16-120",
}
# Columns of means as they are passed around, `-` or `_` between their words: name -> (data set,
# split). A plain "test" is the split that papers report, "cifar10 valid" that of half the images.
_MEAN_COLUMNS: Final = {
    **{
        f"{name}_{split.replace('-', '_')}": (dataset, split)
        for name, dataset in _DATASETS.items()
        for split in SPLITS
    },
    **{f"{name}_valid": (_DATASETS[name], "x-valid") for name in ("cifar100", "imagenet16_120")},
    **{f"{name}_test": (_DATASETS[name], "x-test") for name in ("cifar100", "imagenet16_120")},
    **{f"{name}_test": (_DATASETS[name], "ori-test") for name in ("cifar10", "cifar10_valid")},
    "cifar10_valid": ("cifar10-valid", "x-valid"),
}
_USUAL_EPOCHS: Final = 200


def read_long_file(path: Path, *, epochs: int | None = None) -> pd.DataFrame:
    """Return the long table in a CSV or Parquet file (see `long_rows`)."""
    if path.suffix == ".csv":
        return read_csv(path, epochs=epochs)
    return long_rows(ParquetFile(path).frame(), path, epochs=epochs)


def read_csv(path: Path, *, epochs: int | None = None) -> pd.DataFrame:
    """Return the long table in a CSV file (see `long_rows`)."""
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not readable as csv in UTF-8: {error}") from error
    return long_rows(frame, path, epochs=epochs)


def long_rows(frame: pd.DataFrame, path: Path, *, epochs: int | None = None) -> pd.DataFrame:
    """Return the long table that a file holds, long or wide.

    The columns are `index` or `arch`, dataset, split, epochs, seed, accuracy and perhaps loss; or
    `index` or `arch` and columns of means over seeds, such as ``cifar10_ori_test`` and
    ``imagenet16-120-test``. A mean gets the seed -1: its seeds are not known.

    Args:
        frame: what the file holds.
        path: its name, for messages.
        epochs: after how many epochs means were taken, 200 by default; of means only.
    """
    if frame.index.name == "arch":
        frame = frame.reset_index()
    if "index" not in frame.columns and "arch" in frame.columns:
        found = {text: Cell.find(text).index for text in frame["arch"].unique()}
        frame = frame.assign(index=frame["arch"].map(found))
    wide = [name for name in frame.columns if _words(name) in _MEAN_COLUMNS]
    if wide and "accuracy" not in frame.columns:
        return _melted(frame, wide, path, epochs or _USUAL_EPOCHS)
    if epochs is not None:
        raise InputError(f"{path} says itself after how many epochs: --epochs is for means alone")
    return frame


def _words(column: object) -> str:
    return str(column).lower().replace("-", "_")


def _melted(frame: pd.DataFrame, wide: list[str], path: Path, epochs: int) -> pd.DataFrame:
    import pandas as pd

    if "index" not in frame.columns:
        raise InputError(f"{path}: means need a column index or arch")
    parts = []
    for name in wide:
        dataset, split = _MEAN_COLUMNS[_words(name)]
        known = frame[frame[name].notna()]
        columns = {"index": known["index"], "dataset": dataset, "split": split, "epochs": epochs}
        parts.append(pd.DataFrame({**columns, "seed": MEAN_SEED, "accuracy": known[name]}))
    return pd.concat(parts, ignore_index=True)
