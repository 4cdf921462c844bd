"""Answers for the cells that a table lacks: the runs of an equal cell.

Equal items of a space are the same trainable network. In NAS-Bench-201, the 15,284 cells with a
path from input to output are 5,476 networks. A table with a run of each of these networks therefore
describes all of these cells. Searches, `ReBench` and exports use it as such a table. Statistics use
only the cells that were trained.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from rebench.data import BENCHMARK, data_spec
from rebench.errors import UnknownNameError
from rebench.spaces import NB201, Space
from rebench.tables.layout import Ints
from rebench.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd

# A smaller share of the items cannot contain every network of NAS-Bench-201 (5,476 of 15,625).
_LEAST: Final = 1 / 3

__all__ = ["constant_items", "described", "trained_cell_of", "trained_cells", "whole_space"]


def constant_items(space: Space = NB201) -> Ints:
    """Return the items whose networks ignore their input, such as cells without a path."""
    return np.flatnonzero(~space.learns(np.arange(space.size)))


def trained_cell_of(trained: ArrayLike, space: Space = NB201) -> Ints:
    """Return, for each item of a space, the trained item with the same network.

    An item of `trained` is returned for itself. For another item, the equal item of `trained` with
    the smallest index is returned, or -1 if `trained` has no equal item.
    """
    items = np.unique(np.asarray(trained, dtype=np.int64))
    networks = space.equal_networks(np.arange(space.size))
    _, networks = np.unique(networks, return_inverse=True)
    of_network: Ints = np.full(networks.max() + 1, -1)
    of_network[networks[items[::-1]]] = items[::-1]
    answers: Ints = of_network[networks]
    answers[items] = items
    return answers


def trained_cells(table: Table) -> Ints:
    """Return the items that a table has, in any of its data sets, splits and epochs."""
    held = np.zeros(table.space.size, dtype=bool)
    for key in table.keys:
        held[table.group(*key).index] = True
        if held.all():
            break
    return np.flatnonzero(held)


def whole_space(table: Table) -> Table:
    """Return a table in which equal items answer for the items that `table` lacks.

    The table itself is returned if it has all items, or lacks a network that learns. Parameters
    and FLOPs are computed for each item, because equal cells can differ in operations without
    effect.
    """
    space = table.space
    cells = trained_cells(table)
    if len(cells) in (0, space.size):
        return table
    if len(cells) < _LEAST * space.size:
        return table  # without computing classes
    answers = trained_cell_of(cells, space)
    learning = space.learns(np.arange(space.size))
    missing = np.flatnonzero((answers >= 0) & (answers != np.arange(space.size)))
    if (answers[learning] < 0).any() or not missing.size:
        return table
    import pandas as pd

    rows = table.frame()
    copies = pd.DataFrame({"cell": missing, "index": answers[missing]})
    copies = copies.merge(rows, on="index").drop(columns="index").rename(columns={"cell": "index"})
    every = pd.concat([rows, described(copies, table.skeleton, space)[list(rows)]])
    return table.with_rows(every.reset_index(drop=True), table.name)


def described(rows: pd.DataFrame, skeleton: tuple[int, int], space: Space = NB201) -> pd.DataFrame:
    """Return rows with the architecture, the parameters and the FLOPs of their items, if known."""
    if "arch" in rows:
        names = {index: space.arch(index) for index in rows["index"].unique().tolist()}
        rows = rows.assign(arch=rows["index"].map(names))
    costs = np.full((2, len(rows)), np.nan)
    for dataset, at in rows.groupby("dataset", observed=True).indices.items():
        name = BENCHMARK.get(str(dataset), (str(dataset),))[0]
        with contextlib.suppress(UnknownNameError):
            costs[:, at] = space.cost(rows["index"].to_numpy()[at], data_spec(name), skeleton)
    known = zip(("params_m", "mflops"), costs, strict=True)
    return rows.assign(**{column: values for column, values in known if column in rows})
