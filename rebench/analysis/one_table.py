"""Reliability of the ranking of one table, and the cells that may be the best."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from rebench.analysis.cell_ranks import rank_intervals
from rebench.analysis.choices import MOST_DRAWS, TOP_PERCENT
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau
from rebench.analysis.paired import Accuracies, Paired, read_accuracies
from rebench.analysis.replicates import FEWEST_CLASSES
from rebench.analysis.result_table import as_html, with_notes
from rebench.analysis.seed_tau import seed_agreement
from rebench.analysis.tau import MIN_CELLS, refuse_small_top
from rebench.arguments import Between, checked
from rebench.printable import span
from rebench.spaces import NamedItems
from rebench.tables import Table, open_table

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reliability:
    """Seed-to-seed agreement of the ranking of one table, and ranks with intervals."""

    dataset: str
    split: str
    accuracies: Accuracies
    by_k: pd.DataFrame
    """A row per K: `top_percent`, `n_cells`, and `seed_tau` with `seed_tau_low` and
    `seed_tau_high` (95 %)."""
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def cells(self) -> pd.DataFrame | None:
        """Return `rank_intervals` of all cells; None if no cell has two seeds."""
        return rank_intervals(self.accuracies) if self.accuracies.has_seeds else None

    @property
    def may_be_best(self) -> int | None:
        """Return the number of cells that cannot be separated from the best; None without seeds."""
        return None if self.cells is None else int(self.cells["may_be_best"].sum())

    @property
    def name(self) -> str:
        """Return the names of table, data set and split, and the number of epochs."""
        own = self.accuracies
        return f"{own.name}, {self.dataset} {self.split}, {own.epochs} epochs"

    def frame(self) -> pd.DataFrame:
        """Return one row per K (`by_k`)."""
        return self.by_k.copy()

    @property
    def sentence(self) -> str:
        """Return seed tau at the largest K, and the number of cells that may be the best."""
        return self.accuracies.space.worded(self._sentence)

    @property
    def _sentence(self) -> str:
        known = self.by_k.dropna(subset=["seed_tau"])
        if known.empty:
            return "Seed tau is not known: no cell has two seeds, or there are too few cells."
        whole = known.nlargest(1, "top_percent").iloc[0]
        runs = self.accuracies.value == "run"
        kind = "runs with different seeds" if runs else "means over seeds"
        interval = span(whole["seed_tau_low"], whole["seed_tau_high"], 3)
        told = (
            f"Among the top {whole['top_percent']:g} % two {kind} agree with "
            f"tau = {whole['seed_tau']:.3f}{f' (95 % CI {interval})' if interval else ''}"
            f"{'' if runs else '; single runs agree less'}."
        )
        if self.cells is None:
            return f"{told} Ranks have no intervals: no cell has two seeds."
        return (
            f"{told} {self.may_be_best} of {len(self.cells)} cells cannot be separated from the "
            f"best (95 %); the best mean is that of {self._best}."
        )

    @property
    def _best(self) -> str:
        assert self.cells is not None
        best = self.cells["mean"].idxmax()
        space = self.accuracies.space
        return str(best) if isinstance(space, NamedItems) else space.title(int(str(best)))

    def __str__(self) -> str:
        return with_notes(f"{self.name}: {self.sentence}", self.notes)

    def __repr__(self) -> str:
        return f"<Reliability: {self}>"

    def _repr_html_(self) -> str:
        table = self.by_k.to_html(index=False, float_format="{:.3g}".format, na_rep="-")
        return as_html(str(self), table)


@checked
def reliability(
    table: str | Table,
    *,
    dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    top_percent: Sequence[float] = TOP_PERCENT,
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000,
    seed: Annotated[int, Between(0)] = 0,
) -> Reliability:
    """Return the seed tau of a table at each K, and the cells that may be the best.

    Without seeds, seed tau is estimated from cells that are the same network (`equal_cell_tau`).

    Args:
        table: a table of one recipe, or its name (`NAME@RECIPE` for one of several recipes).
        dataset: data set; if None, the only data set of the table, or CIFAR-10.
        split: images of the accuracies: `ori-test` (the whole test set), `x-test`, `x-valid` or
            `train`; if None, the first of these, preferably with runs.
        epochs: number of epochs; if None, the longest training.
        top_percent: the values of K.
        draws: bootstrap draws. Large tables get fewer draws, but at least 100.
        seed: seed of the draws: equal seeds give equal results.
    """
    opened = table if isinstance(table, Table) else open_table(table)
    key = opened.group(dataset, split, epochs).key
    own = read_accuracies(
        opened.frame(dataset=key.dataset, split=key.split, epochs=key.epochs),
        dataset=key.dataset,
        split=key.split,
        name=opened.full_name,
    )
    paired = Paired.of(own, own)
    notes = list(own.notes)
    equal = EqualCells.of_networks(own.cells, paired.classes, own.space)
    if paired.choosing_note and min(top_percent, default=100) < 100:
        notes.append(paired.choosing_note)
    if own.has_seeds or equal.n_classes < FEWEST_CLASSES:
        curve = seed_agreement(paired, top_percent, draws=draws, rng=seed)
        if (known := len(paired.repeated)) < len(paired):
            notes.append(f"seed tau is of the {known} cells that have two seeds")
    else:
        found = equal_cell_tau(own.means, equal, top_percent, rng=seed)
        curve = found.rename(columns=lambda name: str(name).replace("tau", "seed_tau"))
        notes.append(
            f"one {own.value} of each cell: seed tau is that between cells that are the same "
            f"network ({len(equal.rows)} of {len(own.cells)} cells, {equal.n_classes} classes); if "
            "they share their seed it is too high, on nb201 by 0.005 over all cells and by 0.012 "
            "to 0.015 in the best half"
        )
    if curve["n_cells"].max() < MIN_CELLS:
        refuse_small_top(len(own.cells), top_percent)
    order = ["top_percent", "n_cells", "seed_tau", "seed_tau_low", "seed_tau_high"]
    return Reliability(
        dataset=key.dataset,
        split=key.split,
        accuracies=own,
        by_k=curve[order],
        notes=tuple(map(own.space.worded, dict.fromkeys(notes))),
    )
