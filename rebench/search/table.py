"""A table to search on: for each cell of a space what a run would show, cost and be worth.

`SearchTable.from_frame` reads the long tables of the benchmark and of re-trained sweeps, and says
in words what is searched on, what is reported and what the clock counts, because tables differ:
a table without validation splits is searched on test accuracy, and its protocol line says so.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.errors import InputError
from rebench.search.base import Problem
from rebench.search.space import Space

__all__ = ["DATASETS", "Fidelity", "SearchTable"]

Floats = NDArray[np.float64]

# Where a data set's validation accuracy lies, and the test split that papers report.
DATASETS: Final = {
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
        final: what an answer is worth, percent, (cells,): the mean over seeds.
        searched_on: in words, what a query shows.
        reported: in words, what `final` is.
    """

    name: str
    dataset: str
    space: Space
    fidelities: tuple[Fidelity, ...]
    signal: int = 0
    final: Floats
    searched_on: str
    reported: str

    def __post_init__(self) -> None:
        cells = len(self.space)
        if not self.fidelities or not 0 <= self.signal < len(self.fidelities):
            raise InputError(f"table {self.name!r} has no fidelity to search on")
        shapes = {len(level.accuracy) for level in self.fidelities} | {len(self.final)}
        if shapes != {cells}:
            raise InputError(f"table {self.name!r}: {cells} cells, but columns of {shapes}")
        for level in self.fidelities:
            if np.isnan(level.accuracy).all(1).any() or np.isnan(self.final).any():
                raise InputError(f"table {self.name!r} has cells without an accuracy")

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
        rows = np.flatnonzero(np.isin(self.space.indices, np.fromiter(indices, dtype=np.int64)))
        return SearchTable(
            name=self.name,
            dataset=self.dataset,
            space=Space.of(self.space.indices[rows].tolist()),
            fidelities=tuple(
                Fidelity(
                    epochs=level.epochs,
                    accuracy=level.accuracy[rows],
                    seconds=None if level.seconds is None else level.seconds[rows],
                )
                for level in self.fidelities
            ),
            signal=self.signal,
            final=self.final[rows],
            searched_on=self.searched_on,
            reported=self.reported,
        )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        dataset: str,
        *,
        name: str,
        times: pd.DataFrame | None = None,
        validation: bool = True,
    ) -> SearchTable:
        """Build a table from long rows (index, dataset, split, epochs, seed, accuracy, ...).

        Args:
            frame: the rows; `seconds`, where present, is the cost of the run with its validation.
            dataset: ``cifar10``, ``cifar100`` or ``ImageNet16-120``, or any other name in it.
            name: what to call the table.
            times: another long table whose `seconds` are the time axis, for tables without times.
            validation: search on the validation split where there is one; False searches on the
                test split even so, to compare with a table that has no other.
        """
        source, test = _splits(frame, dataset)
        reported = _pivots(frame, dataset, test)
        if not reported:
            raise InputError(f"no {dataset} {test} accuracy in table {name!r}")
        longest = max(reported)
        final = reported[longest].mean(axis=1)
        shown = _pivots(frame, source, "x-valid") if validation else {}
        split = f"{source} x-valid" if shown else f"{dataset} {test}"
        shown = shown or reported
        cells = functools.reduce(
            pd.Index.intersection, [shown[e].index for e in shown], final.index
        )
        if not len(cells):
            raise InputError(f"table {name!r} has no cell with both a signal and a final accuracy")
        cells = cells.sort_values()
        clock = frame if times is None else times
        levels = tuple(
            Fidelity(
                epochs=epochs,
                accuracy=shown[epochs].loc[cells].to_numpy(dtype=np.float64),
                seconds=_seconds(clock, (source, dataset), epochs, cells),
            )
            for epochs in sorted(shown)
        )
        seeds = reported[longest].shape[1]
        signal = f"{split} accuracy after {levels[0].epochs} epochs"
        if split.endswith("test"):
            signal += " (test accuracy: optimistic, no validation split is used)"
        return cls(
            name=name,
            dataset=dataset,
            space=Space.of(cells.tolist()),
            fidelities=levels,
            final=final.loc[cells].to_numpy(dtype=np.float64),
            searched_on=signal,
            reported=f"{test} accuracy after {longest} epochs, mean of up to {seeds} seed(s)",
        )


def _splits(frame: pd.DataFrame, dataset: str) -> tuple[str, str]:
    """Return the data set that holds the validation rows, and the test split to report."""
    source, test = DATASETS.get(dataset, (dataset, "ori-test"))
    rows = frame[frame["dataset"] == dataset]
    if rows.empty:
        known = ", ".join(sorted(frame["dataset"].unique()))
        raise InputError(f"no rows of data set {dataset!r} in the table; it has {known}")
    splits = set(rows["split"].unique())
    if test not in splits:
        test = "ori-test" if "ori-test" in splits else "x-test"
    if source not in set(frame["dataset"].unique()):
        source = dataset
    return source, test


def _pivots(frame: pd.DataFrame, dataset: str, split: str) -> dict[int, pd.DataFrame]:
    """Return, by epochs, accuracies with a row per cell and a column per seed."""
    rows = frame[(frame["dataset"] == dataset) & (frame["split"] == split)]
    rows = rows[np.isfinite(rows["accuracy"])]
    return {
        int(epochs): part.pivot_table(index="index", columns="seed", values="accuracy")
        for epochs, part in rows.groupby("epochs")
    }


def _seconds(
    frame: pd.DataFrame, datasets: Sequence[str], epochs: int, cells: pd.Index[int]
) -> Floats | None:
    """Return the mean cost of each cell's runs, or None where a cell has none."""
    if "seconds" not in frame:
        return None
    for dataset in datasets:
        rows = frame[(frame["dataset"] == dataset) & (frame["epochs"] == epochs)]
        known = rows.dropna(subset=["seconds"]).groupby("index")["seconds"].mean().reindex(cells)
        if known.notna().all() and len(known):
            return np.asarray(known, dtype=np.float64)
    return None
