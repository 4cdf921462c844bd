"""Read CSV and Parquet files by others: a long table, or means with a column per data set."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rebench.data import BENCHMARK
from rebench.errors import InputError
from rebench.printable import without_formulas
from rebench.runs import atomic_file
from rebench.tables.checks import item_indices, scaled
from rebench.tables.columns import MEAN_SEED, SPLITS, in_words
from rebench.tables.foreign import Naming
from rebench.tables.parquet import ParquetFile, check_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TEXTS", "read_csv", "read_long_file", "write_csv"]

_DATASETS: Final = {name.lower().replace("-", "_"): name for name in BENCHMARK}
# Common names of columns of mean accuracies (words joined by `-` or `_`): name -> (data set,
# split). "test" is the split that papers report; "cifar10 valid" is the result of training on half
# of the images.
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
# Suffixes of text files; the separator between values is detected.
TEXTS: Final = (".csv", ".tsv")
# The mark that `without_formulas` writes before a text.
_NO_FORMULA: Final = r"^'(?=[=+\-@\t\r\n])"


def read_long_file(
    path: Path,
    *,
    epochs: int | None = None,
    fractions: bool = False,
    naming: Naming | None = None,
) -> pd.DataFrame:
    """Return the long table in a long or wide CSV or Parquet file by others.

    Without `naming`, the columns are `index` or `arch`, dataset, split, epochs, seed, accuracy and
    perhaps loss; or `index` or `arch` and columns of means over seeds, such as ``cifar10_ori_test``
    and ``imagenet16-120-test``. A mean gets the seed -1: its seeds are not known.

    Args:
        path: the file.
        epochs: the number of epochs of all rows, if the file has no such column; means: 200.
        fractions: whether accuracies are shares of 1, not percent.
        naming: the names of the columns in the file, and values for all rows.
    """
    frame = read_csv(path) if path.suffix in TEXTS else ParquetFile(path).frame()
    if naming or ("item" in frame.columns and "arch" not in frame.columns):
        rows = (naming or Naming()).rows(frame, str(path))
    else:
        rows = _rows(frame, str(path), epochs)
    if "accuracy" not in rows.columns or ("item" in rows.columns and "arch" not in rows.columns):
        return rows
    return scaled(rows, str(path), fractions=fractions)


def read_csv(path: Path) -> pd.DataFrame:
    """Return the content of a CSV file."""
    import pandas as pd

    text = path.read_bytes().removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    if not text.strip():
        raise InputError(f"{path} is empty")
    header = text.partition(b"\n")[0].decode("utf-8", "replace").strip()
    separator = next((mark for mark in ",;\t" if mark in header), ",")
    check_names(header.split(separator), str(path))
    try:
        # Pandas 2 needs this option to read the last digits of a number exactly.
        exact: dict[str, Any] = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(text), sep=separator, **exact)
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a valid CSV file in UTF-8: {error}") from error
    if b"'" in text:
        frame = frame.replace(_NO_FORMULA, "", regex=True)
    return frame


def write_csv(
    frames: Iterable[pd.DataFrame], path: Path, on_rows: Callable[[int], object] = lambda _: None
) -> int:
    """Write frames as one CSV file.

    Returns the number of rows, and calls `on_rows` with the number of rows so far.
    """
    rows = 0
    with atomic_file(path) as unfinished, unfinished.open("wb") as file:
        for frame in frames:
            text = without_formulas(frame).to_csv(index=False, header=not rows)
            file.write(text.encode())
            rows += len(frame)
            on_rows(rows)
    return rows


def _rows(frame: pd.DataFrame, name: str, epochs: int | None) -> pd.DataFrame:
    """Return the rows of a file called `name` with our names of columns."""
    if "index" not in frame.columns and "arch" in frame.columns:
        frame = frame.assign(index=item_indices(frame["arch"], name))
    words = {column: in_words(column) for column in frame.columns}
    means = {column: _MEAN_COLUMNS[own] for column, own in words.items() if own in _MEAN_COLUMNS}
    if means and "accuracy" not in frame.columns:
        return _melted(frame, means, name, epochs or _USUAL_EPOCHS)
    if epochs is not None and "epochs" in frame.columns:
        raise InputError(f"{name} has a column epochs: remove --epochs")
    return frame if epochs is None else frame.assign(epochs=epochs)


def _melted(
    frame: pd.DataFrame, means: Mapping[str, tuple[str, str]], name: str, epochs: int
) -> pd.DataFrame:
    import pandas as pd

    if "index" not in frame.columns:
        raise InputError(f"{name}: a file of means needs a column index or arch")
    parts = []
    for column, (dataset, split) in means.items():
        known = frame[frame[column].notna()]
        columns = {"index": known["index"], "dataset": dataset, "split": split, "epochs": epochs}
        parts.append(pd.DataFrame({**columns, "seed": MEAN_SEED, "accuracy": known[column]}))
    return pd.concat(parts, ignore_index=True)
