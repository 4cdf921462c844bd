"""What a question about a cell is asked with, and what comes back."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

from cells import SPACE_SIZE, Cell, CellError

__all__ = ["CellCost", "CellName", "Summary", "cell_index"]

CellName: TypeAlias = Cell | int | str
"""Whatever names a cell: itself, its index, its architecture string or its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One cell's accuracy over its `n` seeds.

    `std` is the population's (NaN for one seed), `rank` 1 for the best with ties sharing the
    better rank, `percentile` the percentage of the table's cells with a lower mean.
    """

    index: int
    dataset: str
    split: str
    epochs: int
    mean: float
    std: float
    n: int
    rank: int
    percentile: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCost:
    """What a cell's network costs on a data set; None where the table does not say."""

    params_m: float
    mflops: float
    latency_s: float | None
    train_seconds: float | None


def cell_index(cell: CellName) -> int:
    """Return the benchmark index of a cell, an index, a code or an architecture string."""
    if isinstance(cell, str):
        return _index_of_text(cell)
    if isinstance(cell, Cell):
        return cell.index
    index = int(cell)
    if not 0 <= index < SPACE_SIZE:
        raise CellError(f"a cell's index must be in 0..{SPACE_SIZE - 1}, got {index}")
    return index


@functools.lru_cache(maxsize=2**15)
def _index_of_text(text: str) -> int:
    return Cell.find(text).index
