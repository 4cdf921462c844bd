"""Accuracies of cells by seed (`Accuracies`), and two tables of the same cells (`Paired`).

A `Paired` is aligned and validated when it is built; functions that take a `Paired` do not check
again. `known_runs` decides which runs count. The notes list omitted runs and cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from rebench.analysis.common_scale import FEW_CELLS, on_scale_of
from rebench.analysis.seed_noise import pooled_sd
from rebench.analysis.tau import MIN_CELLS, Floats, Ints
from rebench.errors import InputError, UnknownNameError
from rebench.spaces import NB201, NamedItems, Space
from rebench.tables.checks import one_a_run
from rebench.tables.columns import MEAN_SEED, REQUIRED, usual_split
from rebench.tables.meaning import PERCENT, Meaning, Measure
from rebench.tables.seed_effects import centred, means_of

__all__ = [
    "Accuracies",
    "Chooser",
    "Columns",
    "Paired",
    "choosers_of",
    "complete",
    "known_runs",
    "labelled",
    "measured",
    "read_accuracies",
    "usual_split_of",
]

_SHOWN: Final = 5
# Seeds that less than this share of the cells have are omitted. Then cells that lack one of the
# other seeds are omitted.
_MOST: Final = 0.5
# A column of runs is not used for rankings if only about this share of the cells or less fills it.
_MANY: Final = 0.1
# If more than this share of the cells are the best of a table, the table probably selected them.
_NEARLY_ALL: Final = 0.9
# With fewer runs of a cell of the baseline, no run can select cells and two others be measured.
_FEWEST_TO_CHOOSE: Final = 3
# Largest number of runs that select cells.
_MOST_CHOOSERS: Final = 5

Columns: TypeAlias = tuple[Floats, Ints]
"""Runs and their seeds, both [cells, runs]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Accuracies:
    """Accuracies of one recipe on one data set, cells by seeds."""

    name: str
    cells: Ints
    """[cells] indices in the space, ascending; for other items, their labels or row numbers."""
    seeds: tuple[int, ...]
    runs: Floats
    """[cells, seeds] percent; NaN where a cell lacks a seed; every cell has at least one seed."""
    epochs: int = 0
    notes: tuple[str, ...] = ()
    """Omitted runs and cells, with reasons, and other warnings."""
    diverged: NDArray[np.bool_] | None = None
    """[cells, seeds] runs that diverged; they count with their final accuracy."""
    space: Space = NB201
    measure: Measure = PERCENT
    """If smaller values are better, `runs` are minus the values."""

    @cached_property
    def means(self) -> Floats:
        """Return the means [cells] over the seeds of each cell."""
        return means_of(self.runs)

    @cached_property
    def centred(self) -> Floats:
        """Return the runs [cells, seeds] without the common effect of each seed."""
        return centred(self.runs)

    @cached_property
    def centred_means(self) -> Floats:
        """Return the means [cells] of the centred runs."""
        return means_of(self.centred)

    @cached_property
    def run_sd(self) -> Floats:
        """Return the standard deviation of a run [cells], pooled over similar cells."""
        return pooled_sd(self.centred)

    @cached_property
    def counts(self) -> Ints:
        """Return the number of seeds of each cell [cells]."""
        return np.isfinite(self.runs).sum(axis=1)

    @property
    def has_seeds(self) -> bool:
        """Return whether some cell has two seeds, so that noise can be estimated."""
        return bool((self.counts >= 2).any())

    @property
    def value(self) -> str:
        """Return the kind of each value, for texts: a run, or a published mean over seeds."""
        return "mean over seeds" if self.seeds == (MEAN_SEED,) else "run"

    @cached_property
    def side_by_side(self) -> tuple[Floats, Ints]:
        """Return runs [cells, runs] with gaps last, and the seed of each run.

        If some cells lack seeds, a column mixes runs of several seeds. The runs are then centred:
        the common effect of each seed is removed. There is one column if fewer than half of the
        cells, and fewer than `FEW_CELLS` cells, have two runs.
        """
        seen = np.isfinite(self.runs)
        seeds = np.broadcast_to(np.array(self.seeds, dtype=np.int64), seen.shape)
        if seen.all():
            return self.runs, seeds
        first = np.argsort(~seen, axis=1, kind="stable")
        several = self.counts >= 2
        columns = int(np.quantile(self.counts, 1 - _MANY, method="lower"))
        if several.mean() < _MOST and several.sum() < FEW_CELLS:
            columns = 1
        first = first[:, :columns]
        return np.take_along_axis(self.centred, first, 1), np.take_along_axis(seeds, first, 1)

    def take(self, rows: Ints | NDArray[np.bool_]) -> Accuracies:
        """Return the accuracies of some of the cells."""
        failed = None if self.diverged is None else self.diverged[rows]
        return replace(self, cells=self.cells[rows], runs=self.runs[rows], diverged=failed)


class Chooser(NamedTuple):
    """Ranking that selects the top K %, and the runs that are then not measured."""

    scores: Floats
    """[cells] accuracies; the highest are the best."""
    left_out: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Columns of both tables that are not measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Paired:
    """Accuracies of the same cells in two tables, row by row."""

    baseline: Accuracies
    other: Accuracies
    classes: Ints
    """[cells] numbers from 0; equal cells have the same number and are one observation."""
    notes: tuple[str, ...] = ()
    third: Floats | None = None
    """[cells] accuracies in a third table, which selects the top K % if given."""

    @classmethod
    def of(cls, baseline: Accuracies, other: Accuracies) -> Paired:
        """Pair two tables on their common cells; note the cells that only one table contains."""
        if baseline.space.name != other.space.name:
            raise InputError(
                f"{baseline.name} is a table of the space {baseline.space.name}, {other.name} of "
                f"{other.space.name}: compare two tables of one space"
            )
        cells, mine, its = np.intersect1d(baseline.cells, other.cells, True, True)
        word = baseline.space
        if cells.size == 0:
            raise InputError(
                f"{baseline.name} ({len(baseline.cells)} {word.items}) and {other.name} "
                f"({len(other.cells)} {word.items}) have no {word.item} in common"
            )
        notes = [*baseline.notes, *other.notes]
        for table, partner in ((baseline, other), (other, baseline)):
            alone = np.setdiff1d(table.cells, cells)
            if alone.size:
                notes.append(_listed(table.name, f"cells that {partner.name} lacks", alone))
            if _chosen_by(table, cells):
                notes.append(
                    f"the {len(cells)} cells in common are the best of the {len(table.cells)} of "
                    f"{table.name}: if its accuracies selected them, some were selected by "
                    "chance and `drop` is too small; select cells by a third table"
                )
        if baseline.epochs != other.epochs:
            notes.append(
                f"{baseline.name} trained for {baseline.epochs} epochs, {other.name} for "
                f"{other.epochs}"
            )
        return cls(
            baseline=baseline.take(mine),
            other=other.take(its),
            classes=np.unique(baseline.space.equal_networks(cells), return_inverse=True)[1],
            notes=tuple(notes),
        )

    @classmethod
    def of_values(cls, baseline: ArrayLike, other: ArrayLike) -> Paired:
        """Pair accuracies [cells] or [cells, seeds] that are in no table.

        Series and data frames are matched by their index, which must contain the same cells, each
        once. Their integer columns are seeds. Arrays are matched by position. Each cell is a class.
        """
        by_label = [isinstance(values, pd.Series | pd.DataFrame) for values in (baseline, other)]
        if by_label[0] is not by_label[1]:
            raise InputError(
                "some tables are labelled by cell and others are plain arrays: give all of them as "
                "pandas objects with an index of cells, or none"
            )
        first, second = map(labelled, (baseline, other))
        if not by_label[0] and len(first) != len(second):
            raise InputError(
                f"the tables have {len(first)} and {len(second)} cells: arrays are matched by "
                "position, so give one row for each cell in both"
            )
        _check_labels(first.index, second.index)
        cells = first.index.to_numpy()
        tables = {
            name: Accuracies(
                name=name, cells=cells, seeds=tuple(map(int, frame)), runs=frame.to_numpy()
            )
            for name, frame in (("baseline", first), ("other", second.loc[first.index]))
        }
        classes = np.unique(cells, return_inverse=True)[1]
        return cls(baseline=tables["baseline"], other=tables["other"], classes=classes)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.classes)

    @property
    def shared_seeds(self) -> bool:
        """Return whether both tables have the same seeds."""
        return self.baseline.seeds == self.other.seeds

    def chosen_by(self, third: Accuracies) -> Paired:
        """Return the pair of the cells that `third` contains; `third` then selects the top K %."""
        shared, mine, its = np.intersect1d(self.baseline.cells, third.cells, True, True)
        if not len(shared):
            raise InputError(
                f"{third.name} has none of the {len(self)} cells compared: by takes a table of "
                "the same cells"
            )
        notes = [*self.notes, f"the top K % are chosen by {third.name}"]
        if len(shared) < len(self):
            alone = np.setdiff1d(self.baseline.cells, shared)
            notes.append(_listed(self.baseline.name, f"cells that {third.name} lacks", alone))
        return replace(self.take(mine), notes=tuple(notes), third=third.means[its])

    @cached_property
    def on_one_scale(self) -> tuple[Floats, Floats]:
        """Return the centred runs of both tables, the second on the scale of the first."""
        return self.baseline.centred, on_scale_of(self.baseline.centred, self.other.centred)

    @cached_property
    def _needed(self) -> list[int]:
        """Return how many runs of a cell `repeated` requires in each table: 1 or 2."""
        several = (self.baseline.counts >= 2) & (self.other.counts >= 2)
        if several.sum() >= FEW_CELLS:
            return [2, 2]
        return [min(2, own.side_by_side[0].shape[1]) for own in (self.baseline, self.other)]

    @cached_property
    def repeated(self) -> Paired:
        """Return the cells with two runs in both tables.

        If at most one table has two runs of enough cells, one run suffices in the other table.
        """
        needed = self._needed
        rows = (self.baseline.counts >= needed[0]) & (self.other.counts >= needed[1])
        if not rows.any():
            return replace(self, baseline=_meant(self.baseline), other=_meant(self.other))
        return self if rows.all() else self.take(rows)

    @property
    def alone_repeated(self) -> Accuracies | None:
        """Return the table that gives seed tau if one run of each cell suffices in the other."""
        if sorted(self._needed) != [1, 2]:
            return None
        return (self.baseline, self.other)[self._needed.index(2)]

    @property
    def columns(self) -> list[tuple[Floats, Ints]]:
        """Return runs and seeds [cells, runs] of both tables, for the cells in `repeated`.

        A table that needs only one run of each cell has one column. If a table has gaps, runs of
        different seeds are compared, so the runs of both tables are centred.
        """
        tables = (self.repeated.baseline, self.repeated.other)
        complete_runs = all(np.isfinite(own.runs).all() for own in tables)
        found = []
        for own, needed in zip(tables, self._needed, strict=True):
            runs, seeds = own.side_by_side
            if runs is own.runs and not complete_runs:
                runs = own.centred
            kept = runs.shape[1] if needed > 1 else 1
            found.append((runs[:, :kept], seeds[:, :kept]))
        return found

    @cached_property
    def choosers(self) -> list[Chooser]:
        """Return the rankings of the cells in `choosing` that select the top K %.

        The list is empty if the baseline must select: its runs are then selected and measured.
        """
        if self.repeated.third is not None:
            return [Chooser(self.repeated.third)]
        if 2 * len(self.choosing) < len(self.repeated):
            return []
        return choosers_of(*self.choosing.columns)

    @cached_property
    def choosing(self) -> Paired:
        """Return the cells of `repeated` that have all runs of the baseline in `columns`.

        Only these cells are compared below K = 100 if runs of the baseline select them. With a
        third table, these are all cells of `repeated`.
        """
        runs, _ = self.columns[0]
        complete_rows = np.isfinite(runs).sum(axis=1) == runs.shape[1]
        if self.repeated.third is not None or complete_rows.all() or not complete_rows.any():
            return self.repeated
        return self.repeated.take(complete_rows)

    @property
    def choosing_note(self) -> str | None:
        """Return the note on cells that are not compared below K = 100, if there are any."""
        n, name = len(self.repeated), self.baseline.name
        if not self.choosers:
            return (
                f"the runs of {name} select the K % best cells and are measured, too: for small K, "
                f"tau, seed tau and `drop` are too small; give three seeds of {name}, or a third "
                "table (--by)"
            )
        if len(self.choosing) == n:
            return None
        return (
            f"below K = 100, all figures are of the {len(self.choosing)} of {n} cells that have "
            f"all seeds of {name}: one seed selects and the others are measured"
        )

    @property
    def mostly_single(self) -> bool:
        """Return whether less than half of the cells have the runs that `repeated` requires."""
        return len(self.repeated) < _MOST * len(self)

    def take(self, rows: Ints | NDArray[np.bool_]) -> Paired:
        """Return the pair of some of the cells."""
        classes = np.unique(self.classes[rows], return_inverse=True)[1]
        baseline, other = self.baseline.take(rows), self.other.take(rows)
        third = None if self.third is None else self.third[rows]
        return replace(self, baseline=baseline, other=other, classes=classes, third=third)

    @cached_property
    def whole(self) -> Paired:
        """Return the common seeds, and the cells that have all of them in both tables.

        A common seed is a seed of at least half of the cells. If no cell is left, return the
        means over seeds of all cells.
        """
        kept = [complete(table.runs) for table in (self.baseline, self.other)]
        rows = kept[0][0] & kept[1][0]
        if not rows.any():
            return replace(self, baseline=_meant(self.baseline), other=_meant(self.other))
        taken = self.take(rows)
        baseline, other = (
            replace(
                table,
                seeds=tuple(np.array(table.seeds)[columns].tolist()),
                runs=table.runs[:, columns],
                diverged=None,
            )
            for table, (_, columns) in zip((taken.baseline, taken.other), kept, strict=True)
        )
        return replace(taken, baseline=baseline, other=other)


def choosers_of(baseline: Columns, other: Columns) -> list[Chooser]:
    """Return the runs of the baseline as rankings that select the top K %, if it has three.

    Each leaves out the column of this run, and the column of the other table with the same seed if
    two columns remain there. Every cell must have all runs of the baseline.
    """
    runs, seeds = baseline
    if runs.shape[1] < _FEWEST_TO_CHOOSE:
        return []
    found = []
    count = min(runs.shape[1], _MOST_CHOOSERS)
    for column in np.linspace(0, runs.shape[1] - 1, count).astype(int).tolist():
        alike = (other[1] == seeds[:, [column]]).mean(axis=0) > _MOST
        its = np.flatnonzero(alike).tolist()
        if len(alike) - len(its) < 2:
            its = []
        found.append(Chooser(runs[:, column], ([column], its)))
    return found


def measured(columns: Sequence[Columns], chooser: Chooser) -> list[Floats]:
    """Return the runs [cells, runs] of both tables that are measured with a chooser."""
    return [
        np.delete(runs, left_out, axis=1)
        for (runs, _), left_out in zip(columns, chooser.left_out, strict=True)
    ]


def complete(runs: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the cells that have all common seeds, and of those seeds."""
    seen = np.isfinite(runs)
    columns = seen.mean(axis=0) >= _MOST
    return seen[:, columns].all(axis=1) & columns.any(), columns


def read_accuracies(
    table: pd.DataFrame,
    *,
    dataset: str,
    split: str = "ori-test",
    epochs: int | None = None,
    recipe: str | None = None,
    name: str | None = None,
) -> Accuracies:
    """Pick one data set, split, number of epochs and recipe out of a long table.

    Equal duplicates count once; duplicates that differ are refused. `epochs` and `recipe` may be
    None if the table has only one value.
    """
    wanted: dict[str, str | int | None]
    wanted = {"dataset": dataset, "split": split, "recipe": recipe, "epochs": epochs}
    rows = _chosen(table, wanted)
    label = name or str(wanted["recipe"] or "benchmark")
    notes = []
    rows, unknown = known_runs(rows)
    if len(unknown):
        notes.append(_listed(label, "accuracies that are not finite", unknown["index"]))
    distinct = one_a_run(rows, label)
    duplicates = len(rows) - len(distinct)
    rows = distinct
    ended = rows[rows["status"] == "diverged"] if "status" in rows else rows[:0]
    if len(ended):
        what = "runs that diverged and count with the accuracy they ended with"
        notes.append(_listed(label, what, ended["index"]))
    if rows.empty:
        raise InputError(
            f"{label}: no finite accuracy on {dataset} {split} after {wanted['epochs']} epochs"
        )
    if duplicates:
        notes.append(f"{label}: {duplicates} records appear more than once and count once")
    meaning = Meaning.of_frame(table)
    label_of_item = "item" if isinstance(meaning.space, NamedItems) else "index"
    wide = rows.set_index([label_of_item, "seed"])["accuracy"].unstack().sort_index()  # noqa: PD010 - pivot_table averages
    values = meaning.measure.goodness(wide.to_numpy(dtype=np.float64))
    failed = None
    if len(ended):
        failed = np.zeros(values.shape, dtype=bool)
        failed[
            wide.index.get_indexer(ended[label_of_item]), wide.columns.get_indexer(ended["seed"])
        ] = 1
    counts = np.isfinite(values).sum(axis=1)
    partial = counts < counts.max()
    if partial.any():
        fewer = f"cells with fewer than {counts.max()} seeds (kept)"
        notes.append(_listed(label, fewer, wide.index[partial].to_numpy()))
    return Accuracies(
        name=label,
        cells=wide.index.to_numpy(),
        seeds=tuple(int(seed) for seed in wide.columns),
        runs=values,
        epochs=int(rows["epochs"].iloc[0]),
        notes=tuple(notes),
        diverged=failed,
        space=meaning.space,
        measure=meaning.measure,
    )


def usual_split_of(*tables: pd.DataFrame) -> str:
    """Return the default split of long tables: one in all of them, with runs rather than means."""
    held = [{*table["split"]} for table in tables]
    tested = [table[(table["seed"] != MEAN_SEED) & (table["split"] != "train")] for table in tables]
    runs = [{*table["split"]} for table in tested]
    return usual_split(set.intersection(*runs) or set.intersection(*held))


def known_runs(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split rows into valid and invalid runs.

    Diverged runs are valid: their final accuracy, about that of guessing, enters every mean, rank,
    test and search. Runs without a finite accuracy are invalid. They give no information about
    their cell, so they are omitted, and a note counts them.
    """
    known = np.isfinite(rows["accuracy"].to_numpy(dtype=np.float64))
    return (rows, rows[:0]) if known.all() else (rows[known], rows[~known])


def _chosen(table: pd.DataFrame, wanted: dict[str, str | int | None]) -> pd.DataFrame:
    """Return the rows with the `wanted` values; replace None in `wanted` by the only value."""
    missing = [column for column in REQUIRED if column not in table]
    if missing:
        raise InputError(f"the table lacks the columns {', '.join(missing)}")
    for column, value in wanted.items():
        if column in table or value is not None:
            wanted[column] = _known(table, column, value)
            table = table[table[column] == wanted[column]]
    return table


def _known(table: pd.DataFrame, column: str, value: str | int | None) -> str | int:
    """Return the requested value of a column, or its only value."""
    if column not in table:
        raise InputError(f"the table has no column {column!r} to find {value!r} in")
    known = table[column].unique().tolist()
    if value is None and len(known) != 1:
        several = ", ".join(sorted(map(str, known)))
        raise InputError(f"the table has several values of {column}: {several}; name one")
    if value is not None and value not in known:
        raise UnknownNameError(f"{column} in this table", str(value), map(str, known))
    return known[0] if value is None else value


def _listed(name: str, what: str, cells: Sequence[int] | Ints | pd.Series[int]) -> str:
    """Return a note: the name of a table, the problem, and the first affected cells."""
    return f"{name}: {len(cells)} {what}: {_cells(np.unique(cells))}"


def _cells(labels: Sequence[object] | Ints | pd.Index) -> str:
    shown = ", ".join(str(label) for label in labels[:_SHOWN])
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return f"{'cell' if len(labels) == 1 else 'cells'} {shown}{more}"


def _chosen_by(table: Accuracies, cells: Ints) -> bool:
    """Return whether the cells are nearly all the best of a table of more than twice the size."""
    best = np.sort(table.means)[::-1][min(len(cells), len(table.cells)) - 1]
    among = np.isin(table.cells[table.means >= best], cells).sum()
    return (
        len(cells) >= MIN_CELLS
        and 2 * len(cells) < len(table.cells)
        and (among > _NEARLY_ALL * len(cells))
    )


def labelled(values: ArrayLike) -> pd.DataFrame:
    """Return accuracies as a frame [cells, seeds], NaN where they are not finite.

    Integer columns of a data frame are seeds; otherwise the columns are numbered.
    """
    given = values if isinstance(values, pd.Series | pd.DataFrame) else np.asarray(values)
    if given.ndim not in (1, 2) or given.size == 0:
        raise InputError(f"accuracies must be [cells] or [cells, seeds], got shape {given.shape}")
    try:
        frame = pd.DataFrame(given).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"accuracies must be numbers, one row for each cell ({error}); for a table with other "
            "columns, name them with rebench.Table.from_frame"
        ) from error
    if not (isinstance(given, pd.DataFrame) and pd.api.types.is_integer_dtype(given.columns)):
        frame.columns = pd.RangeIndex(frame.shape[1])
    frame = frame.where(np.isfinite(frame))
    if len(frame) < MIN_CELLS <= frame.shape[1]:
        raise InputError(
            f"accuracies must be [cells, seeds], got {len(frame)} cells with {frame.shape[1]} "
            "seeds: transpose them"
        )
    lacking = np.flatnonzero(frame.isna().all(axis=1))
    if lacking.size:
        raise InputError(
            f"{lacking.size} cells have no finite accuracy (first: row {lacking[0]}, counted from "
            "0): remove these rows"
        )
    return frame


def _meant(table: Accuracies) -> Accuracies:
    return replace(table, seeds=table.seeds[:1], runs=table.means[:, None])


def _check_labels(first: pd.Index, second: pd.Index) -> None:
    """Check that both tables contain the same cells, each once."""
    named = (("the first table", first), ("the second table", second))
    for (name, index), (partner, its) in (named, named[::-1]):
        if len(double := index[index.duplicated()].unique()):
            raise InputError(
                f"{name} contains more than one row of {_cells(double)}; keep one of each"
            )
        if len(lacking := its.difference(index)):
            raise InputError(
                f"{name} lacks {_cells(lacking)}, which {partner} contains: compare the cells that "
                "all tables contain"
            )
