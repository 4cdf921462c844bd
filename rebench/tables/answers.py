"""Results of a query about one item of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rebench.intervals import mean_interval
from rebench.tables.columns import MEAN_SEED

__all__ = ["CellCost", "CellName", "Summary"]

CellName: TypeAlias = Any
"""An item of a table's space: its index or its label; also a `Cell` for NAS-Bench-201."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Accuracy of one cell over its `n` seeds, in percent.

    `std` is the population standard deviation (NaN for one seed). `rank` is 1 for the best cell;
    ties share the better rank. It is the rank of the mean without the common effect of each seed,
    so a cell that lacks a bad seed has no advantage. `of` is the number of cells in the table.
    `percentile` is the percentage of cells with a lower such mean. `origin` is that of the table
    (`Table.origin`). `seeds` has the accuracy of each seed; negative seeds are explained at
    `Table.seeds`.
    """

    name: str
    index: int
    dataset: str
    split: str
    epochs: int
    mean: float
    std: float
    n: int
    rank: int
    of: int
    percentile: float
    origin: str
    seeds: dict[int, float]

    @property
    def runs(self) -> list[float]:
        """The accuracies of the known seeds, without a mean over unknown seeds."""
        return [value for seed, value in self.seeds.items() if seed != MEAN_SEED]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % t interval; None with fewer than two known seeds."""
        return mean_interval(self.runs)[1:] if len(self.runs) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """Costs of a cell's network on a data set.

    `params_m` is millions of parameters, `mflops` millions of multiply-adds for one image.
    `latency_s` is the latency and `train_seconds` the time of a training, mean over seeds, both in
    seconds; None if the table does not contain them.
    """

    params_m: float
    mflops: float
    latency_s: float | None
    train_seconds: float | None
