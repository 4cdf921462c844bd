"""NAS-Bench-Macro: 6,561 networks on CIFAR-10, with three trainings of each different network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pandas as pd

from rebench.data.safe_pickle import shown
from rebench.errors import MissingDataError, UnsafeFileError
from rebench.nats.catalogue import PUBLISHED
from rebench.nats.ingest import Ingested, ingested
from rebench.spaces import space_of
from rebench.tables.checks import check_values
from rebench.tables.columns import unknown_seed
from rebench.tables.layout import write_rows
from rebench.tables.meaning import Meaning
from rebench.tables.parquet import ParquetFile
from rebench.tables.release import Release

__all__ = ["fetch_macro", "read_macro"]

_NAME: Final = "macro"
_RUNS: Final = 3
_EQUAL: Final = (
    "equal networks, which have an identity at another place of a stage, have the same published"
    " values: 3,969 different networks were trained"
)
_LARGEST_BYTES: Final = 4 * 2**20


def fetch_macro(folder: Path, url: str | None = None) -> Ingested:
    """Download the published file and write the table; a table that exists is not changed.

    Args:
        folder: folder of the new table, ``macro.parquet``.
        url: address of the file; by default that of the public repository. Its SHA-256 is checked.
    """
    import pooch  # slow to import, needed only here

    out = folder / f"{_NAME}.parquet"
    if out.exists():
        return ingested(out, ParquetFile(out).frame(), space=_NAME)
    known = PUBLISHED[_NAME]
    address = url or known.url
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file = Path(pooch.retrieve(address, known_hash=f"sha256:{known.sha256}", path=folder))
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{_NAME}: {address} could not be fetched: {error}") from error
    rows = read_macro(file)
    file.unlink()
    about = Release(
        title="NAS-Bench-Macro: 6,561 networks of eight layers on CIFAR-10",
        source=(f"{address}, sha256 {known.sha256}",),
        licence=known.licence,
        cite=(known.cite,),
        notes=(_EQUAL,),
    )
    write_rows(out, rows, {**about.metadata, **Meaning(space=space_of(_NAME)).metadata})
    return ingested(out, rows, space=_NAME)


def read_macro(file: Path) -> pd.DataFrame:
    """Return the accuracies in the published JSON file as long rows; seeds are not known."""
    data = file.read_bytes()
    if len(data) > _LARGEST_BYTES:
        raise UnsafeFileError(f"{file} is larger than {_LARGEST_BYTES} bytes; refused")
    held = json.loads(data)
    space = space_of(_NAME)
    if type(held) is not dict or len(held) != space.size:
        raise UnsafeFileError(f"{file}: expected a dict of {space.size} networks")
    columns: dict[str, list[Any]] = {"index": [], "seed": [], "accuracy": []}
    costs: dict[str, list[Any]] = {"params_m": [], "mflops": []}
    for label, network in held.items():
        runs = network["test_acc"]
        if type(runs) is not list or len(runs) != _RUNS:
            raise UnsafeFileError(f"{file}: {label}: expected three accuracies, got {shown(runs)}")
        columns["index"] += [space.find(label)] * _RUNS
        columns["seed"] += [unknown_seed(run) for run in range(1, _RUNS + 1)]
        columns["accuracy"] += runs
        costs["params_m"] += [network["params"] / 1e6] * _RUNS
        costs["mflops"] += [network["flops"] / 1e6] * _RUNS
    rows = pd.DataFrame({**columns, **costs}).assign(dataset="cifar10", split="ori-test", epochs=50)
    return check_values(rows, str(file), Meaning(space=space))
