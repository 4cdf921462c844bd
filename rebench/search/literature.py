"""One-shot methods as published facts: what they report on NAS-Bench-201, and from where.

These methods train a weight-sharing network, so they cannot be replayed on a table. Their numbers
are carried with the mark of how they came to us, and the mark is printed wherever they are: none
of them is a measurement of ours. Where a method's cell is known, it can be looked up in any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pandas as pd

from cells import Cell
from rebench.search.tabular import SearchTable

__all__ = ["MARKS", "NATS_BENCH", "NB201", "REPORTED", "Reported", "look_up", "reported_frame"]

Mark: TypeAlias = Literal["quoted", "memory", "measured"]

MARKS: Final[dict[Mark, str]] = {
    "quoted": "second-hand: quoted by other papers from the source",
    "memory": "from memory of the source: check before citing",
    "measured": "quoted, and equal to the benchmark's own table for the cell it ends at",
}

NB201: Final = "NAS-Bench-201 (Dong and Yang, ICLR 2020)"
NATS_BENCH: Final = "NATS-Bench (Dong et al., TPAMI 2021)"

_ALL_SKIP: Final = "1_11_111"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Test accuracy (percent, mean and spread over runs) that a paper reports for a method.

    `cell` is the architecture it ends at, where it is published and always the same; `kind` tells
    weight sharing, which is not re-run here, from algorithms that `rebench.search` replays.
    """

    method: str
    source: str
    mark: Mark
    cifar10: tuple[float, float | None]
    cifar100: tuple[float, float | None]
    imagenet16_120: tuple[float, float | None]
    kind: Literal["one-shot", "replayed", "reference"] = "one-shot"
    cell: str | None = None

    def accuracy(self, dataset: str) -> tuple[float, float | None]:
        """Return mean and spread for a data set; the spread is None where it is not known."""
        by_name = {
            "cifar10": self.cifar10,
            "cifar100": self.cifar100,
            "ImageNet16-120": self.imagenet16_120,
        }
        return by_name[dataset]


def _row(
    method: str,
    source: str,
    mark: Mark,
    values: Sequence[tuple[float, float | None]],
    kind: Literal["one-shot", "replayed", "reference"] = "one-shot",
    cell: str | None = None,
) -> Reported:
    cifar10, cifar100, imagenet = values
    return Reported(
        method=method,
        source=source,
        mark=mark,
        cifar10=cifar10,
        cifar100=cifar100,
        imagenet16_120=imagenet,
        kind=kind,
        cell=cell,
    )


REPORTED: Final = (
    _row("RSPS", NB201, "quoted", [(84.07, 3.61), (52.31, 5.77), (26.28, 3.09)]),
    _row("RSPS (variant)", NB201, "quoted", [(87.66, None), (46.60, None), (30.78, None)]),
    _row("DARTS-V1", NB201, "measured", [(54.30, 0.0), (15.61, 0.0), (16.32, 0.0)], cell=_ALL_SKIP),
    _row("DARTS-V2", NB201, "measured", [(54.30, 0.0), (15.61, 0.0), (16.32, 0.0)], cell=_ALL_SKIP),
    _row("GDAS", NB201, "quoted", [(93.61, 0.09), (70.70, 0.30), (41.71, 0.98)]),
    _row("SETN", NB201, "quoted", [(87.64, 0.0), (59.05, 0.24), (32.52, 0.21)]),
    _row("ENAS", NB201, "quoted", [(53.89, 0.58), (13.96, 2.33), (14.84, 2.10)]),
    _row("rea", NB201, "memory", [(93.92, 0.30), (71.84, 0.99), (45.54, 1.03)], "replayed"),
    _row("reinforce", NB201, "quoted", [(93.85, 0.37), (71.71, 1.09), (45.24, 1.18)], "replayed"),
    _row("random", NB201, "quoted", [(93.70, 0.36), (71.04, 1.07), (44.57, 1.25)], "replayed"),
    _row("bohb", NB201, "memory", [(93.61, 0.52), (70.85, 1.28), (44.42, 1.49)], "replayed"),
    _row("ResNet", NB201, "quoted", [(93.97, None), (70.86, None), (43.63, None)], "reference"),
    _row("rea", NATS_BENCH, "memory", [(94.02, None), (72.23, None), (45.77, None)], "replayed"),
    _row("reinforce", NATS_BENCH, "memory", [(93.90, None), (71.86, None), (45.64, None)],
         "replayed"),
    _row("random", NATS_BENCH, "memory", [(93.86, None), (71.55, None), (45.28, None)],
         "replayed"),
    _row("bohb", NATS_BENCH, "memory", [(93.94, None), (72.00, None), (45.70, None)], "replayed"),
    _row("RSPS", NATS_BENCH, "memory", [(91.05, None), (68.26, None), (40.69, None)]),
    _row("GDAS", NATS_BENCH, "memory", [(93.23, None), (68.17, None), (39.40, None)]),
    _row("SETN", NATS_BENCH, "memory", [(92.72, None), (69.36, None), (39.51, None)]),
    _row("ENAS", NATS_BENCH, "memory", [(93.76, None), (70.67, None), (41.44, None)]),
)  # fmt: skip


def reported_frame(
    dataset: str, *, kind: Literal["one-shot", "replayed", "reference"] | None = None
) -> pd.DataFrame:
    """Return the published accuracies for a data set, with source and mark on every row."""
    rows = []
    for entry in REPORTED:
        if kind in (None, entry.kind):
            mean, std = entry.accuracy(dataset)
            rows.append((entry.method, entry.kind, mean, std, entry.source, MARKS[entry.mark]))
    columns = ["method", "kind", "reported", "std", "source", "mark"]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return frame


def look_up(tables: Sequence[SearchTable]) -> pd.DataFrame:
    """Return the published cells with their accuracy and rank in each table (None: not in it)."""
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
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns).astype({"rank": "Int64"})
    return frame
