"""What papers report on NAS-Bench-201, as quoted facts: each with its source and where it was read.

One-shot methods train a weight-sharing network, so they cannot be replayed on a table. None of
these numbers is a measurement of ours, and where public tables disagree, both are here. Where the
cell that a method ends at is known, it can be looked up in any table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from cells import Cell
from rebench.extensions import entries
from rebench.search.tabular import SearchTable

__all__ = [
    "PROXY_SOURCE",
    "PROXY_SPEARMAN",
    "REPORTED",
    "REPORTED_DATASETS",
    "Kind",
    "Reported",
    "look_up",
    "reported_frame",
]

Kind: TypeAlias = Literal["one-shot", "replayed", "reference"]
Spread: TypeAlias = tuple[float, float | None]

REPORTED_DATASETS: Final = ("cifar10", "cifar100", "ImageNet16-120")

_NB201: Final = "NAS-Bench-201 (Dong and Yang, ICLR 2020)"


class Reported(NamedTuple):
    """Test accuracy (percent, mean and spread over runs) that is reported for a method.

    `source` is who measured it, `read_in` the public table that it was read in. `cell` is the
    architecture it ends at, where it is known and always the same; `kind` tells weight sharing,
    which is not re-run here, from algorithms that `rebench.search` replays.
    """

    method: str
    kind: Kind
    read_in: str
    accuracies: Sequence[Spread]
    cell: str | None = None
    source: str = _NB201

    def accuracy(self, dataset: str) -> Spread:
        """Mean and spread for a data set; the spread is None where it is not known."""
        return self.accuracies[REPORTED_DATASETS.index(dataset)]


_READ: Final = entries(__file__, "literature.toml")
REPORTED: Final = tuple(
    Reported(**row | {"accuracies": [(mean, *(std or [None])) for mean, *std in row["accuracies"]]})
    for row in _READ["reported"]
)
PROXY_SOURCE: Final[str] = _READ["proxies"]["source"]
PROXY_SPEARMAN: Final[Mapping[str, Mapping[str, float]]] = _READ["proxies"]["spearman"]


def reported_frame(dataset: str) -> pd.DataFrame:
    """The reported accuracies for a data set, with the source of every row."""
    rows = [
        (row.method, row.kind, *row.accuracy(dataset), row.source, row.read_in) for row in REPORTED
    ]
    columns = ["method", "kind", "reported", "std", "source", "read in"]
    return pd.DataFrame(rows, columns=columns)


def look_up(tables: Sequence[SearchTable]) -> pd.DataFrame:
    """Return the reported cells with their accuracy and rank in each table (None: not in it)."""
    rows = []
    for entry in REPORTED:
        if entry.cell is None:
            continue
        index = Cell.parse(entry.cell).index
        for table in tables:
            found = index in table.space.indices
            value = float(table.final[table.space.position(index)]) if found else None
            rank = int((table.final > value).sum()) + 1 if value is not None else None
            reported = entry.accuracy(table.dataset)[0]
            rows.append((entry.method, index, table.name, reported, value, rank, entry.source))
    columns = ["method", "cell", "table", "reported", "accuracy", "rank", "source"]
    return pd.DataFrame(rows, columns=columns).astype({"rank": "Int64"})
