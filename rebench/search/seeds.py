"""Tables that differ from a table by seeds only: the seed baseline of `compare`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rebench.analysis.equal_cells import EqualCells, partners
from rebench.search.tabular import Ints, SearchTable
from rebench.tables.columns import MEAN_SEED

__all__ = ["seed_tables"]

Runs: TypeAlias = Ints | tuple[slice, list[int]]

# Two seeds give one pair of tables, three seeds give three pairs. More seeds would take longer.
_MOST_SEEDS: Final = 3


def seed_tables(table: SearchTable) -> list[SearchTable]:
    """Return tables that differ from each other, or from `table`, by seeds only.

    These are tables of single seeds. They have the cells with a run of each of these seeds. If a
    table has fewer than two known seeds, the cells of each class of equal cells exchange their
    accuracies, by a fixed random permutation: then one table is returned, to compare with `table`.
    The list is empty if fewer than half of the cells have other runs.
    """
    columns = _common_seeds(table)
    if len(columns) >= 2:
        present = np.ones(len(table.space), dtype=bool)
        for accuracy in (table.tested, *(level.accuracy for level in table.fidelities)):
            present &= np.isfinite(accuracy[:, columns]).all(axis=1)
        if _is_half(present):
            kept = table.restrict(table.space.indices[present])
            single = []
            for column in columns:
                name = f"{table.name} seed {table.seeds[column]}"
                single.append(_of_runs(kept, name, np.s_[:, [column]]))
            return single
    equal = EqualCells.among(table.space.indices, table.space.of_space)
    rows = np.arange(len(table.space))
    rows[equal.rows] = equal.rows[partners(equal.classes, np.random.default_rng(0))]
    exchanged = _of_runs(table, f"{table.name} with the runs of equal cells", rows)
    if _is_half(exchanged.final != table.final):
        return [exchanged]
    return []


def _common_seeds(table: SearchTable) -> list[int]:
    """Return the columns of the first known seeds that half of the cells have."""
    columns: list[int] = []
    for column, seed in enumerate(table.seeds):
        if seed > MEAN_SEED and _is_half(np.isfinite(table.tested[:, column])):
            columns.append(column)
    return columns[:_MOST_SEEDS]


def _is_half(cells: NDArray[np.bool_]) -> bool:
    return bool(cells.mean() >= 0.5)


def _of_runs(table: SearchTable, name: str, runs: Runs) -> SearchTable:
    """Return the table with these runs of its accuracies [cells, seeds], seen and reported."""
    levels = []
    for level in table.fidelities:
        accuracy = level.accuracy[runs]
        levels.append(replace(level, accuracy=accuracy))
    tested = table.tested[runs]
    return replace(table, name=name, tested=tested, fidelities=tuple(levels), seeds=())
