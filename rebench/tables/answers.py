"""What a question about a cell is asked with, and what comes back."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

from cells import Cell
from rebench.intervals import mean_interval
from rebench.tables.columns import MEAN_SEED

__all__ = ["CellCost", "CellName", "Summary", "cell_index"]

CellName: TypeAlias = Cell | int | str
"""Whatever names a cell: itself, its index, its architecture string or its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One cell's accuracy over its `n` seeds.

    `std` is the population's (NaN for one seed), `rank` 1 for the best with ties sharing the
    better rank, `of` how many cells the table has, `percentile` the percentage of them with a
    lower mean.
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
        """The accuracies of its seeds, without a mean whose seeds are not known."""
        return [value for seed, value in self.seeds.items() if seed != MEAN_SEED]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % t interval; None for one seed."""
        return mean_interval(self.runs)[1:] if len(self.runs) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """What a cell's network costs on a data set; None where the table does not say."""

    params_m: float
    mflops: float
    latency_s: float | None
    train_seconds: float | None


def cell_index(cell: CellName) -> int:
    """The benchmark index of a cell, an index, a code or an architecture string."""
    try:
        return _index(cell)
    except TypeError:  # a list, say, which no cache takes
        return Cell.find(cell).index


@functools.lru_cache(maxsize=2**16)
def _index(cell: CellName) -> int:
    return Cell.find(cell).index
