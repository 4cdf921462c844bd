"""Seed tau of a table with one run a cell, estimated from cells that are the same network.

Cells of one class of `cells.classes` (partition ``strict``) are the same trainable network, so the
run of another cell of the class, its partner, serves as a second run. 1,404 classes of at least two
cells with a path from input to output contain 11,212 of the 15,625 cells. These are not a random
sample: they have more `none` and skip operations.

Let v be the accuracies and p a permutation that moves every cell inside its class: a cycle through
the members of the class in random order. The estimate is the mean of tau-b(v, v∘p) over `draws`
permutations. Two cells of different classes involve four different runs, as between two seeds. Two
cells of one class contribute 0 between two seeds. Here a cell and its partner share a run and
contribute less: in total, less than 2 / n for n cells.

Equal cells of one table may share the seed and thus the order of the data. The estimate is then too
high: `experiments/published/equal_cells.py` measures the bias on `nb201`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.seed_noise import Rng
from rebench.analysis.tau import Floats, Ints, tau_curves
from rebench.errors import InputError
from rebench.intervals import student_reach
from rebench.spaces import NB201, Space

__all__ = ["EqualCells", "equal_cell_tau", "partners"]

_DRAWS: Final = 10
_GROUPS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EqualCells:
    """Cells that have an equal cell in a selection of cells, and their classes."""

    rows: Ints
    """[equal] positions in the cells that were given, ascending."""
    classes: Ints
    """[equal] numbers from 0; cells with the same number are the same trainable network."""

    @classmethod
    def among(cls, cells: ArrayLike, space: Space = NB201) -> EqualCells:
        """Find the equal cells among some cells, by index; omit cells without a path.

        A cell without a path from input to output has the accuracy of guessing with every seed.
        """
        given = np.asarray(cells, dtype=np.int64)
        _, networks = np.unique(space.equal_networks(given), return_inverse=True)
        return cls.of_networks(given, networks, space)

    @classmethod
    def of_networks(cls, cells: Ints, networks: Ints, space: Space = NB201) -> EqualCells:
        """Find the equal cells among some cells [cells], given the numbers of networks [cells]."""
        rows = np.flatnonzero(np.bincount(networks)[networks] >= 2)
        rows = rows[space.learns(cells[rows])]
        return cls(rows=rows, classes=np.unique(networks[rows], return_inverse=True)[1])

    @property
    def n_classes(self) -> int:
        """Return the number of classes."""
        return int(self.classes.max(initial=-1)) + 1

    def take(self, kept: np.ndarray) -> EqualCells:
        """Return the equal cells among those where `kept` [equal] is true."""
        sizes = np.bincount(self.classes[kept], minlength=self.n_classes)
        kept = kept & (sizes[self.classes] >= 2)
        classes = np.unique(self.classes[kept], return_inverse=True)[1]
        return EqualCells(rows=self.rows[kept], classes=classes)


def partners(classes: Ints, rng: Rng = None) -> Ints:
    """Pair each cell with another cell of its class at random: positions [cells].

    `classes` [cells] are the numbers of classes, each of at least two cells.
    """
    order = np.lexsort((np.random.default_rng(rng).random(len(classes)), classes))
    ordered = classes[order]
    is_first = np.r_[True, ordered[1:] != ordered[:-1]] if len(classes) else np.empty(0, dtype=bool)
    first = np.flatnonzero(is_first)
    after = np.arange(1, len(classes) + 1)
    after[np.append(first[1:], len(classes))[: len(first)] - 1] = first
    paired = np.empty(len(classes), dtype=np.int64)
    paired[order] = order[after]
    return paired


def equal_cell_tau(
    values: ArrayLike,
    equal: EqualCells,
    top_percent: Sequence[float] = TOP_PERCENT,
    *,
    second: ArrayLike | None = None,
    draws: int = _DRAWS,
    groups: int = _GROUPS,
    rng: Rng = None,
) -> pd.DataFrame:
    """Estimate seed tau among the top K %, by their own runs, of the cells with an equal cell.

    The interval is a jackknife over groups of classes (Student's t; degrees of freedom: groups
    minus 1), since the cells of a class have the same true accuracy.

    Args:
        values: [cells] one accuracy per cell, of all cells that `equal` was found among; cells
            without a finite accuracy are omitted.
        equal: the cells that have an equal cell.
        top_percent: the values of K.
        second: [cells] the accuracies of partners, for example of another seed; `values` if None.
        draws: number of random pairings.
        groups: number of groups of the jackknife.
        rng: source of the pairings and of the groups.

    Returns:
        One row per K: `top_percent`, `tau`, `tau_low`, `tau_high` (95 %), `n_cells`, `n_classes`.
        NaN where there are too few cells.
    """
    own = np.asarray(values, dtype=np.float64)
    others = own if second is None else np.asarray(second, dtype=np.float64)
    if own.ndim != 1 or own.shape != others.shape:
        raise InputError(f"accuracies must be [cells], got shapes {own.shape} and {others.shape}")
    if draws < 1 or groups < 2:
        raise InputError(f"draws must be at least 1 and groups 2, got {draws} and {groups}")
    rng = np.random.default_rng(rng)
    finite = np.isfinite(own[equal.rows]) & np.isfinite(others[equal.rows])
    kept = equal if finite.all() else equal.take(finite)
    columns: dict[str, object] = {"top_percent": np.asarray(top_percent, dtype=np.float64)}
    if not kept.n_classes:
        nothing = np.full(len(top_percent), np.nan)
        taus = dict.fromkeys(("tau", "tau_low", "tau_high"), nothing)
        return pd.DataFrame({**columns, **taus, "n_cells": 0, "n_classes": 0})
    first = own[kept.rows]
    paired = np.stack([others[kept.rows][partners(kept.classes, rng)] for _ in range(draws)])

    def tau(rows: Ints | slice) -> tuple[Floats, Ints]:
        found, taken = tau_curves(first[None, rows], paired[:, rows], top_percent)
        return found.mean(axis=0), taken[0]

    whole, n_cells = tau(slice(None))
    groups = min(groups, kept.n_classes)
    group = np.resize(np.arange(groups), kept.n_classes)
    rng.shuffle(group)
    of_cell = group[kept.classes]
    half = np.full(len(whole), np.nan)
    if groups >= 2:
        without = np.stack([tau(np.flatnonzero(of_cell != number))[0] for number in range(groups)])
        half = student_reach(groups - 1) * np.sqrt((groups - 1) * without.var(axis=0))
    low, high = np.clip([whole - half, whole + half], -1, 1)
    columns |= {"tau": whole, "tau_low": low, "tau_high": high}
    return pd.DataFrame({**columns, "n_cells": n_cells, "n_classes": kept.n_classes})
