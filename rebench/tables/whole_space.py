"""Answers for the cells that a table lacks: the runs of an equal cell.

Equal cells are the same trainable network (`cells.classes`, partition ``strict``): the 15,284 cells
with a path from input to output are 5,476 networks. A table with a run of each of these networks
therefore describes all of these cells. Searches, `ReBench` and exports use it as such a table.
Statistics use only the cells that were trained.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from cells import SPACE_SIZE, all_cells
from cells.classes import functional_classes
from cells.paths import depth_array
from cells.table import space_ops
from rebench.data import BENCHMARK, data_spec
from rebench.errors import UnknownNameError
from rebench.tables.layout import Ints
from rebench.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cells_without_path", "described", "trained_cell_of", "trained_cells", "whole_space"]


# Number of different networks with a path; a smaller table is refused without computing classes.
_NETWORKS: Final = 5_476


def cells_without_path() -> Ints:
    """Return the 341 cells without a path from input to output."""
    return np.flatnonzero(depth_array(space_ops()).sum(axis=1) == 0)


def trained_cell_of(trained: ArrayLike) -> Ints:
    """Return, for each of the 15,625 cells, the trained cell with the same network.

    A cell of `trained` is returned for itself. For another cell, the equal cell of `trained` with
    the smallest index is returned, or -1 if `trained` has no equal cell.
    """
    cells, classes = np.unique(np.asarray(trained, dtype=np.int64)), functional_classes("strict")
    answers: Ints = np.full(SPACE_SIZE, -1)
    answers[classes[cells[::-1]]] = cells[::-1]
    answers = answers[classes]
    answers[cells] = cells
    return answers


def trained_cells(table: Table) -> Ints:
    """Return the cells that a table has, in any of its data sets, splits and epochs."""
    held = np.zeros(SPACE_SIZE, dtype=bool)
    for key in table.keys:
        held[table.group(*key).index] = True
        if held.all():
            break
    return np.flatnonzero(held)


def whole_space(table: Table) -> Table:
    """Return a table in which equal cells answer for the cells that `table` lacks.

    The table itself is returned if it has all cells, or lacks a network with a path. Parameters
    and FLOPs are computed for each cell, because equal cells can differ in operations without
    effect.
    """
    cells = trained_cells(table)
    if len(cells) == SPACE_SIZE or not _has_every_network(cells):
        return table
    answers = trained_cell_of(cells)
    missing = np.flatnonzero((answers >= 0) & (answers != np.arange(SPACE_SIZE)))
    if not missing.size:
        return table
    import pandas as pd

    rows = table.frame()
    copies = pd.DataFrame({"cell": missing, "index": answers[missing]})
    copies = copies.merge(rows, on="index").drop(columns="index").rename(columns={"cell": "index"})
    every = pd.concat([rows, described(copies, table.skeleton)[list(rows)]], ignore_index=True)
    return table.with_rows(every, table.name)


def described(rows: pd.DataFrame, skeleton: tuple[int, int]) -> pd.DataFrame:
    """Return rows with the architecture, the parameters and the FLOPs of their cells, if known."""
    ops = space_ops()[rows["index"]]
    if "arch" in rows:
        names = [str(cell) for cell in all_cells()]
        rows = rows.assign(arch=[names[index] for index in rows["index"]])
    costs = np.full((2, len(rows)), np.nan)
    for dataset, at in rows.groupby("dataset", observed=True).indices.items():
        name = BENCHMARK.get(str(dataset), (str(dataset),))[0]
        with contextlib.suppress(UnknownNameError):
            model = data_spec(name).cost_model(*skeleton)
            costs[:, at] = model.params(ops[at]), model.flops(ops[at])
    known = zip(("params_m", "mflops"), costs / 1e6, strict=True)
    return rows.assign(**{column: values for column, values in known if column in rows})


def _has_every_network(cells: Ints) -> bool:
    if len(cells) < _NETWORKS:
        return False
    classes = functional_classes("strict")
    with_path = np.setdiff1d(np.arange(SPACE_SIZE), cells_without_path())
    return bool(np.isin(classes[with_path], classes[cells]).all())
