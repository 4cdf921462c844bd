"""JAHS-Bench-201: random configurations of all cells at continuous rates, with other settings.

Bansal, Stoll, Janowski, Zela, Hutter (NeurIPS 2022). `metric_data.tar`, or its folder, holds for
each data set pickled frames with `features` and `labels`, a row per configuration and epoch. Its
operations are Op1..Op6 on the edges 1<-0, 2<-0, 3<-0, 2<-1, 3<-1, 3<-2 (sorted by source, unlike
architecture strings), and 0..4 are skip, none, 3x3, 1x1 and pooling: the lists ``EDGE_LIST`` and
``OP_NAMES`` of its code, version 1.1.0, where an edge is (from, to) and vertices count from 1.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cells import Cell
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, EDGES, NONE, SKIP
from rebench.errors import InputError, MissingDataError, UnsafeFileError
from rebench.safe_pickle import Column, bounded, read_frame, shown
from rebench.surfaces.catalogue import ARCHIVE
from rebench.sweep import RecipeSpec

__all__ = ["TASKS", "read_jahs"]

TASKS: Final = ("cifar10", "colorectal_histology", "fashion_mnist")

# What its package opens; the raw file holds the same configurations.
_SETS: Final = ("train_set.pkl.gz", "valid_set.pkl.gz", "test_set.pkl.gz")
_RAW: Final = "raw.pkl.gz"
# (target, source) of Op1..Op6, and the operations 0..4.
_EDGES: Final = ((1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (3, 2))
_OPS: Final = np.array([SKIP, NONE, CONV_3X3, CONV_1X1, AVG_POOL])
_ACTIVATIONS: Final = ("ReLU", "Hardswish", "Mish")
_SPLITS: Final = {"train-acc": "train", "valid-acc": "x-valid", "test-acc": "ori-test"}
# Lowest and highest of what is a number.
_BOUNDS: Final = {
    **{f"Op{edge}": (0, 4) for edge in range(1, 7)},
    "N": (1, 100), "W": (1, 4096), "epoch": (1, 100_000),
    "LearningRate": (1e-9, 100), "WeightDecay": (0, 100), "Resolution": (1e-3, 1),
}  # fmt: skip
_WHOLE: Final = (*(f"Op{edge}" for edge in range(1, 7)), "N", "W", "epoch")
_LARGEST_FILE: Final = 8 * 2**30
_LARGEST_UNPACKED: Final = 24 * 2**30
_SMALL: Final = 16 * 2**20
_LARGEST_RATIO: Final = 100
_PIECE: Final = 2**20


def read_jahs(source: Path) -> pd.DataFrame:
    """Return its configurations at their last epoch: a row each and split.

    A configuration's runs are numbered by `seed`, from 0: their seeds are not told.
    """
    parts = []
    for task in TASKS:
        rows = [_last_epochs(part) for part in _files(source, task)]
        if rows:
            parts.append(_long(pd.concat(rows, ignore_index=True), task))
    if not parts:
        raise MissingDataError(
            f"{source} holds neither {ARCHIVE} nor folders {', '.join(TASKS)} with "
            f"{', '.join(_SETS)} (`rebench benchmark fetch jahs-bench-201 FOLDER` fetches it)"
        )
    return pd.concat(parts, ignore_index=True)


class _Part(NamedTuple):
    """Where the bytes of one of a data set's files stand, and how to call them."""

    name: str
    path: Path
    start: int
    size: int


def _files(source: Path, task: str) -> Iterator[_Part]:
    """Yield a data set's files, from a folder or from the archive."""
    archive = source if source.is_file() else source / ARCHIVE
    for folder in (source / "metric_data" / task, source / task):
        if folder.is_dir():
            there = {path.name for path in folder.iterdir() if path.is_file()}
            for name in _chosen(there, str(folder)):
                yield _Part(str(folder / name), folder / name, 0, (folder / name).stat().st_size)
            return
    if archive.is_file():
        yield from _archived(archive, task)


def _archived(archive: Path, task: str) -> Iterator[_Part]:
    try:
        with bounded(str(archive)), tarfile.open(archive, "r:") as tar:
            there = {
                Path(entry.name).name: entry
                for entry in tar
                if entry.isreg() and Path(entry.name).parent.name == task
            }
    except (OSError, ValueError, tarfile.TarError) as error:
        raise InputError(f"{archive} is not an uncompressed tar, or damaged ({error})") from error
    for name in _chosen(there, f"{archive}:{task}") if there else ():
        entry = there[name]
        yield _Part(f"{archive}:{task}/{name}", archive, entry.offset_data, entry.size)


def _chosen(there: Collection[str], where: str) -> tuple[str, ...]:
    """Return which files to read: the three sets, or the raw one, which holds all of them."""
    lacking = [name for name in _SETS if name not in there]
    if not lacking:
        return _SETS
    if _RAW in there:
        return (_RAW,)
    raise MissingDataError(f"{where} lacks {', '.join(lacking)}")


def _last_epochs(part: _Part) -> pd.DataFrame:
    """Return what a file says of its configurations after their last epoch, checked."""
    what = part.name
    with part.path.open("rb") as stream:
        stream.seek(part.start)
        data = _unpacked(what, stream, part.size)
    with bounded(what, most_bytes=4 * len(data) + 2**30):
        frame = read_frame(data, what)
        columns = {name: _numbers(frame, ("features", name), what) for name in _BOUNDS}
        columns |= {name: _percent(frame, ("labels", name), what) for name in _SPLITS}
        columns["Activation"] = _texts(frame, "Activation", _ACTIVATIONS, what)
        _texts(frame, "Optimizer", ("SGD",), what)
        augmented = _column(frame, ("features", "TrivialAugment"), what)
        if not all(type(one) is bool for one in augmented.tolist()):
            raise UnsafeFileError(f"{what}: TrivialAugment must be True or False")
        columns["TrivialAugment"] = augmented.astype(bool)
        rows = pd.DataFrame(columns)
        setting = [name for name in rows if name != "epoch" and name not in _SPLITS]
        last = rows.groupby(setting, sort=False)["epoch"].transform("max")
        kept: pd.DataFrame = rows[rows["epoch"] == last]
        return kept


def _long(runs: pd.DataFrame, task: str) -> pd.DataFrame:
    ops = _OPS[runs[[f"Op{edge}" for edge in range(1, 7)]].to_numpy(dtype=np.int64)]
    ordered = ops[:, [_EDGES.index(edge) for edge in EDGES]]
    distinct, which = np.unique(ordered, axis=0, return_inverse=True)
    cells = [Cell(tuple(int(op) for op in row)) for row in distinct]  # type: ignore[arg-type]  # six
    which = which.reshape(-1)
    rates = runs["LearningRate"].to_numpy()
    shared = pd.DataFrame(
        {
            "index": np.array([cell.index for cell in cells])[which],
            "arch": np.array([str(cell) for cell in cells], dtype=object)[which],
            "dataset": task,
            "train_split": "jahs",
            "epochs": runs["epoch"].to_numpy(dtype=np.int64),
            "recipe": [
                RecipeSpec(name="fixed", parameters={"lr": rate}).label for rate in rates.tolist()
            ],
            "learning_rate": rates,
            "batch_size": 256,
            "weight_decay": runs["WeightDecay"].to_numpy(),
            "channels": runs["W"].to_numpy(dtype=np.int64),
            "cells_per_stage": runs["N"].to_numpy(dtype=np.int64),
            "resolution": runs["Resolution"].to_numpy(),
            "activation": runs["Activation"].to_numpy(),
            "augmentation": np.where(runs["TrivialAugment"], "trivial", "standard").astype(object),
        }
    )
    shared["seed"] = shared.groupby(list(shared.columns), sort=False).cumcount()
    rows: pd.DataFrame = pd.concat(
        [
            shared.assign(split=split, accuracy=runs[name].to_numpy())
            for name, split in _SPLITS.items()
        ],
        ignore_index=True,
    )
    return rows


def _unpacked(what: str, stream: BinaryIO, size: int) -> bytes:
    """Return what a gzip file holds, as long as it is no larger than such files are."""
    if size > _LARGEST_FILE:
        raise UnsafeFileError(f"{what}: claims {size} bytes; refused")
    most = min(_LARGEST_UNPACKED, max(_SMALL, _LARGEST_RATIO * size))
    unpacked, machine = bytearray(), zlib.decompressobj(wbits=31)
    try:
        while size and not machine.eof:
            packed = stream.read(min(_PIECE, size))
            size -= len(packed)
            if not packed:
                break
            while packed and not machine.eof:
                unpacked += machine.decompress(packed, _PIECE)
                packed = machine.unconsumed_tail
                if len(unpacked) > most:
                    raise UnsafeFileError(f"{what}: unpacks to more than {most} bytes; refused")
    except zlib.error as error:
        raise UnsafeFileError(f"{what}: not a gzip file, or damaged ({error})") from error
    if not machine.eof:
        raise UnsafeFileError(f"{what}: the file is truncated; fetch it again")
    return bytes(unpacked)


def _column(frame: dict[Column, NDArray[Any]], name: Column, what: str) -> NDArray[Any]:
    if name not in frame:
        raise UnsafeFileError(f"{what}: no column {' '.join(name)}")
    return frame[name]


def _numbers(frame: dict[Column, NDArray[Any]], name: Column, what: str) -> NDArray[np.float64]:
    values = _floats(_column(frame, name, what), name, what)
    low, high = _BOUNDS[name[1]]
    wrong = ~((values >= low) & (values <= high))
    if name[1] in _WHOLE:
        wrong |= values % 1 != 0
    if wrong.any():
        kind = "a whole number" if name[1] in _WHOLE else "a number"
        raise UnsafeFileError(
            f"{what}: {name[1]} must be {kind} from {low:g} to {high:g}, got {values[wrong][0]}"
        )
    return values


def _percent(frame: dict[Column, NDArray[Any]], name: Column, what: str) -> NDArray[np.float64]:
    values = _floats(_column(frame, name, what), name, what)
    # An accuracy that is not a number is that of a run which diverged.
    wrong = (values < 0) | (values > 100)
    if wrong.any():
        raise UnsafeFileError(
            f"{what}: {name[1]} must be from 0 to 100 percent, got {values[wrong][0]}"
        )
    return values


def _floats(column: NDArray[Any], name: Column, what: str) -> NDArray[np.float64]:
    numeric = column.dtype.kind in "iuf" or all(type(one) in (int, float) for one in column)
    if not numeric:
        raise UnsafeFileError(f"{what}: {' '.join(name)} is not a column of numbers")
    return column.astype(np.float64)


def _texts(
    frame: dict[Column, NDArray[Any]], name: str, valid: tuple[str, ...], what: str
) -> NDArray[Any]:
    column = _column(frame, ("features", name), what)
    wrong = next((one for one in column if type(one) is not str or one not in valid), None)
    if wrong is not None:
        raise UnsafeFileError(f"{what}: {name} {shown(wrong)}; valid: {', '.join(valid)}")
    return column
