"""One cell in two tables: published and re-trained accuracy, their difference, both ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebench.tables.answers import CellName
from rebench.tables.layout import Key
from rebench.tables.seed_effects import ranks_of
from rebench.tables.table import Table

__all__ = ["CellComparison", "compare_cell"]


class CellComparison(NamedTuple):
    """Difference of a cell's mean accuracies in two tables: re-trained minus published.

    `ranks` are among the cells of both tables; `common` is the number of these cells.
    """

    difference: float
    ranks: tuple[int, int]
    common: int


def compare_cell(published: Table, retrained: Table, cell: CellName, key: Key) -> CellComparison:
    """Compare one cell's accuracy in two tables."""
    index = published.space.find(cell)
    tables = (published, retrained)
    before, after = (table.accuracy(index, *key) for table in tables)
    groups = [table.group(*key) for table in tables]
    common = np.intersect1d(groups[0].index, groups[1].index)
    ranks = []
    for group in groups:
        ascending = np.sort(group.comparable[common])
        ranks.append(int(ranks_of(group.comparable[index], ascending)))
    return CellComparison(after - before, (ranks[0], ranks[1]), len(common))
