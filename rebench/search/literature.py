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

_ALL_SKIP: Final = "1_11_111"
_NB201: Final = "NAS-Bench-201 (Dong and Yang, ICLR 2020)"
_RELIZO: Final = "ReLIZO (Wang et al., NeurIPS 2024), table of NAS-Bench-201"
_EEEA: Final = "paper of EEEA-Net, table 9"
_RMI: Final = "README of the code of RMI-NAS, results on NAS-Bench-201"


class Reported(NamedTuple):
    """Test accuracy (percent, mean and spread over runs) that is reported for a method.

    `source` is who measured it, `read_in` the public table that it was read in. `cell` is the
    architecture it ends at, where it is known and always the same; `kind` tells weight sharing,
    which is not re-run here, from algorithms that `rebench.search` replays.
    """

    method: str
    kind: Kind
    read_in: str
    accuracies: tuple[Spread, Spread, Spread]
    cell: str | None = None
    source: str = _NB201

    def accuracy(self, dataset: str) -> Spread:
        """Mean and spread for a data set; the spread is None where it is not known."""
        return self.accuracies[REPORTED_DATASETS.index(dataset)]


# The cell of both DARTS rows has these accuracies in the benchmark's own table as well.
_DARTS: Final = ((54.30, 0.0), (15.61, 0.0), (16.32, 0.0))

REPORTED: Final = (
    Reported("RSPS", "one-shot", _RELIZO, ((84.07, 3.61), (52.31, 5.77), (26.28, 3.09))),
    Reported("RSPS", "one-shot", _EEEA, ((87.66, 1.69), (46.60, 6.57), (30.78, 6.12))),
    Reported("DARTS-V1", "one-shot", _RELIZO, _DARTS, _ALL_SKIP),
    Reported("DARTS-V2", "one-shot", _RELIZO, _DARTS, _ALL_SKIP),
    Reported("GDAS", "one-shot", _RELIZO, ((93.61, 0.09), (70.70, 0.30), (41.71, 0.98))),
    Reported("SETN", "one-shot", _RELIZO, ((87.64, 0.0), (59.05, 0.24), (32.52, 0.21))),
    Reported("ENAS", "one-shot", _RELIZO, ((53.89, 0.58), (13.96, 2.33), (14.84, 2.10))),
    Reported("reinforce", "replayed", _RMI, ((93.85, 0.37), (71.71, 1.09), (45.24, 1.18))),
    Reported("reinforce", "replayed", _EEEA, ((93.85, 0.37), (70.17, 1.61), (43.16, 2.28))),
    Reported("ResNet", "reference", _EEEA, ((93.97, None), (70.86, None), (43.63, None))),
)


# Spearman's correlation with the 200-epoch accuracy over all cells: 16 channels, 5 cells a stage,
# PyTorch's init, one batch of 64 images.
PROXY_SOURCE: Final = (
    "code of Abdelfattah et al. (ICLR 2021), table in notebooks/nasbench201_correlations.ipynb of "
    "github.com/SamsungLabs/zero-cost-nas"
)
PROXY_SPEARMAN: Final[Mapping[str, Mapping[str, float]]] = {
    "cifar10": {"grad-norm": 0.594, "snip": 0.596, "synflow": 0.737},
    "cifar100": {"grad-norm": 0.637, "snip": 0.637, "synflow": 0.763},
    "ImageNet16-120": {"grad-norm": 0.578, "snip": 0.578, "synflow": 0.751},
}


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
