"""A table to search on: for each cell of a space what a run would show, cost and be worth.

`search_table` reads the tables of the benchmark and of re-trained sweeps, and says in words what
is searched on, what is reported and what the clock counts, because tables differ: a table without
validation splits is searched on test accuracy, and its protocol line says so.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rebench.benchmark import BenchmarkTable, Key
from rebench.errors import InputError
from rebench.search.base import Problem
from rebench.search.space import Space

__all__ = ["Fidelity", "SearchTable", "search_table"]

Floats: TypeAlias = NDArray[np.float64]

# Where a data set's validation accuracy lies, and the test split that papers report.
_SPLITS: Final = {
    "cifar10": ("cifar10-valid", "ori-test"),
    "cifar100": ("cifar100", "x-test"),
    "ImageNet16-120": ("ImageNet16-120", "x-test"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Fidelity:
    """What training for so many epochs shows.

    Attributes:
        epochs: length of the run.
        accuracy: percent, (cells, seeds); NaN where a cell lacks a seed.
        seconds: simulated cost of one run with its validation pass, (cells,), or None.
    """

    epochs: int
    accuracy: Floats
    seconds: Floats | None = None

    @functools.cached_property
    def packed(self) -> list[tuple[float, ...]]:
        """The accuracies of each cell's seeds, without the missing ones."""
        present = ~np.isnan(self.accuracy)
        return [tuple(row[mask].tolist()) for row, mask in zip(self.accuracy, present, strict=True)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchTable:
    """A table that algorithms can be replayed on.

    Attributes:
        name: what tables and figures call it.
        dataset: the data set.
        space: the cells it covers.
        fidelities: by ascending epochs.
        signal: the fidelity that algorithms of one fidelity search on.
        tested: what an answer is worth, percent, (cells, seeds); NaN where a cell lacks a seed.
        searched_on: in words, what a query shows.
        reported: in words, what `tested` is.
    """

    name: str
    dataset: str
    space: Space
    fidelities: tuple[Fidelity, ...]
    signal: int = 0
    tested: Floats
    searched_on: str
    reported: str

    def __post_init__(self) -> None:
        if not 0 <= self.signal < len(self.fidelities):
            raise InputError(f"table {self.name!r} has no fidelity to search on")
        for column in (self.tested, *(level.accuracy for level in self.fidelities)):
            if len(column) != len(self.space) or np.isnan(column).all(axis=1).any():
                raise InputError(f"table {self.name!r} has cells without an accuracy")

    @functools.cached_property
    def final(self) -> Floats:
        """What each answer is worth: the mean over its seeds."""
        mean: Floats = np.nanmean(self.tested, axis=1)
        return mean

    @property
    def problem(self) -> Problem:
        """What an algorithm may know."""
        epochs = tuple(level.epochs for level in self.fidelities)
        return Problem(space=self.space, epochs=epochs, signal=self.signal)

    @property
    def has_seconds(self) -> bool:
        """Whether budgets can be in simulated seconds."""
        return all(level.seconds is not None for level in self.fidelities)

    @property
    def best(self) -> float:
        """The optimum: the best final accuracy among the cells."""
        return float(self.final.max())

    @property
    def protocol(self) -> str:
        """One line that says what any number from this table was measured on."""
        clock = "simulated GPU-seconds" if self.has_seconds else "evaluations (no times in it)"
        return (
            f"{self.dataset}, {len(self.space):,} cells; searched on {self.searched_on}; "
            f"reported: {self.reported}; clock: {clock}"
        )

    def restrict(self, indices: Iterable[int]) -> SearchTable:
        """Return the table of those of its cells whose benchmark index is among `indices`."""
        wanted = np.fromiter(indices, dtype=np.int64)
        rows = np.flatnonzero(np.isin(self.space.indices, wanted))
        if not rows.size:
            raise InputError(f"table {self.name!r} has none of the {len(wanted)} cells asked for")
        return replace(
            self,
            space=Space.of(self.space.indices[rows].tolist()),
            fidelities=tuple(
                Fidelity(
                    epochs=level.epochs,
                    accuracy=level.accuracy[rows],
                    seconds=None if level.seconds is None else level.seconds[rows],
                )
                for level in self.fidelities
            ),
            tested=self.tested[rows],
        )


def search_table(
    table: BenchmarkTable,
    dataset: str,
    *,
    name: str | None = None,
    times: BenchmarkTable | None = None,
    validation: bool = True,
    epochs: Collection[int] | None = None,
) -> SearchTable:
    """Return what algorithms see of a table of accuracies.

    Cells that lack a signal or a finite final accuracy are left out, and the protocol says so.

    Args:
        table: published, re-trained or generated.
        dataset: ``cifar10``, ``cifar100``, ``ImageNet16-120``, or any other that the table holds.
        name: what to call it; the table's own name by default.
        times: another table whose times are the clock, for tables that have none of their own or
            were trained on machines of several kinds.
        validation: search on the validation split where there is one; False searches on the test
            split even so, to compare with a table that has no other.
        epochs: the fidelities to offer, all of the table's by default. NATS-Bench's protocol
            knows 12 epochs and fewer only.
    """
    name = name or table.name
    source, test = _SPLITS.get(dataset, (dataset, "ori-test"))
    splits = {key.split for key in table.keys if key.dataset == dataset}
    if not splits:
        known = ", ".join(sorted({key.dataset for key in table.keys}))
        raise InputError(f"table {name!r} has no data set {dataset!r}; it has {known}")
    if test not in splits:
        test = "x-test" if test == "ori-test" else "ori-test"
    reported = _keys(table, dataset, test)
    if not reported:
        raise InputError(
            f"table {name!r} has no test accuracy of {dataset}; it has {', '.join(sorted(splits))}"
        )
    shown = _keys(table, source, "x-valid") or _keys(table, dataset, "x-valid")
    optimistic = not (validation and shown)
    if optimistic:
        shown = reported
    shown = [key for key in shown if epochs is None or key.epochs in epochs]
    if not shown:
        raise InputError(f"table {name!r} has no run of {dataset} with epochs in {epochs}")
    present = [
        np.isfinite(table.group(*key).column("accuracy")) for key in {*shown, *reported[-1:]}
    ]
    anywhere = np.logical_or.reduce([rows.any(axis=1) for rows in present])
    kept = np.logical_and.reduce([rows.any(axis=1) for rows in present])
    cells = np.flatnonzero(kept)
    if not cells.size:
        raise InputError(f"table {name!r} has no cell with both a signal and a final accuracy")
    clock = times or table
    levels = tuple(
        Fidelity(
            epochs=key.epochs,
            accuracy=_finite(table.group(*key).column("accuracy")[cells]),
            seconds=_seconds(clock, key, cells),
        )
        for key in shown
    )
    final = reported[-1]
    seeds = table.group(*final).seeds
    count = "published means over seeds" if min(seeds) < 0 else f"mean of up to {len(seeds)} seeds"
    left_out = int((anywhere & ~kept).sum())
    return SearchTable(
        name=name,
        dataset=dataset,
        space=Space.of(cells.tolist()),
        fidelities=levels,
        tested=_finite(table.group(*final).column("accuracy")[cells]),
        searched_on=f"{shown[0].dataset} {shown[0].split} after {shown[0].epochs} epochs"
        + (" (test accuracy, so optimistic)" if optimistic else ""),
        reported=f"{dataset} {test} after {final.epochs} epochs, {count} ({table.origin})"
        + (f"; {left_out} cells without both left out" if left_out else ""),
    )


def _keys(table: BenchmarkTable, dataset: str, split: str) -> list[Key]:
    """Return a split's groups by ascending epochs."""
    return sorted(key for key in table.keys if (key.dataset, key.split) == (dataset, split))


def _finite(accuracy: Floats) -> Floats:
    return np.where(np.isfinite(accuracy), accuracy, np.nan)


def _seconds(table: BenchmarkTable, shown: Key, cells: NDArray[np.int64]) -> Floats | None:
    """Return the cost of training and one pass over the shown split, or None if any is unknown.

    That is how the benchmark's own package bills a simulated evaluation. A table without times
    per pass bills the run's seconds.
    """
    train = shown._replace(split="train")
    if train in table.keys and shown in table.keys:
        training = table.group(*train).mean("seconds")[cells]
        cost = training + table.group(*shown).mean("epoch_seconds")[cells]
        if np.isfinite(cost).all():
            return cost
    for key in (train, shown):
        if key in table.keys:
            cost = table.group(*key).mean("seconds")[cells]
            if np.isfinite(cost).all() and cost.min() > 0:
                return cost
    return None
