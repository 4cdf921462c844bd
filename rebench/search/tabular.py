"""Tables to search on: the signal, the cost and the final accuracy of each cell.

`search_table` converts a table. `search_tables` converts one or two tables that are searched in the
same way. Tables differ: for example, a table without validation accuracy is searched on test
accuracy. So each search table has a line, its protocol, that names the signal, the final accuracy
and the units of budgets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rebench.arguments import checked
from rebench.errors import InputError
from rebench.search.base import Problem
from rebench.search.search_space import SearchSpace
from rebench.spaces import NamedItems
from rebench.tables import Key, Recipes, Table, open_table
from rebench.tables.columns import MEAN_SEED
from rebench.tables.meaning import PERCENT, Measure
from rebench.tables.opening import recipes_of, table_label
from rebench.tables.whole_space import trained_cell_of, trained_cells, whole_space

__all__ = [
    "Fidelity",
    "Given",
    "SearchTable",
    "common_cells",
    "search_table",
    "search_tables",
    "validation_keys",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

# Data set -> name of its training run with validation accuracy, and the test split that papers
# report.
_SPLITS: Final = {
    "cifar10": ("cifar10-valid", "ori-test"),
    "cifar100": ("cifar100", "x-test"),
    "ImageNet16-120": ("ImageNet16-120", "x-test"),
}
_VALIDATION: Final = "x-valid"

# By default the fidelities of a curve are its whole length, a third of the length, and a ninth.
_ETA: Final = 3
_RUNGS: Final = 3


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class Fidelity:
    """Result of training for a number of epochs.

    Attributes:
        epochs: length of the run.
        accuracy: percent, (cells, seeds); NaN where a cell lacks a seed.
        seconds: simulated cost of one run with its validation pass, (cells,), or None.
    """

    epochs: int
    accuracy: Floats
    seconds: Floats | None = None

    @functools.cached_property
    def cost(self) -> list[float] | None:
        """The seconds as a list, which is faster to index than an array."""
        if self.seconds is None:
            return None
        return self.seconds.tolist()

    @functools.cached_property
    def packed(self) -> list[tuple[float, ...]]:
        """The accuracies of each cell's seeds, without missing seeds."""
        return [tuple(runs[~np.isnan(runs)].tolist()) for runs in self.accuracy]


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class SearchTable:
    """A table on which algorithms can be replayed.

    Attributes:
        name: name in tables and figures.
        dataset: the data set.
        space: the cells of the table.
        fidelities: in the order of their epochs; algorithms with one fidelity use the first.
        tested: final accuracy of an answer, (cells, seeds); NaN for a missing seed. Larger values
            are better: if lower values of the measure are better, minus these values.
        searched_on: description of the signal.
        reported: description of `tested`.
        split: the split of `tested`: ``test``, or ``validation`` where a table has no other.
        measure: the measure of `tested`.
        scores: features of each cell that predictors know, (cells, proxies), such as proxies of
            trained networks (`rebench.search.proxies.knowing`).
        trained: the cell that was trained for the accuracy of each cell, (cells,): the cell itself,
            or an equal cell (`rebench.tables.whole_space`). None if every cell was trained.
        seeds: the seed of each column of `tested` and of every signal. Empty if the seeds are
            unknown, or if a signal has other seeds.
    """

    name: str
    dataset: str
    space: SearchSpace
    fidelities: tuple[Fidelity, ...]
    tested: Floats
    searched_on: str
    reported: str
    split: Literal["test", "validation"] = "test"
    measure: Measure = PERCENT
    scores: Floats | None = None
    trained: Ints | None = None
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.fidelities:
            raise InputError(f"table {self.name!r} has no fidelity to search on")
        signals = [level.accuracy for level in self.fidelities]
        for column in (self.tested, *signals):
            if len(column) != len(self.space) or np.isnan(column).all(axis=1).any():
                raise InputError(f"table {self.name!r} has cells without an accuracy")

    @functools.cached_property
    def final(self) -> Floats:
        """Final accuracy of each cell: the mean over its seeds."""
        return np.nanmean(self.tested, axis=1)

    @functools.cached_property
    def evaluations(self) -> list[list[float]]:
        """Cost of a run of each cell at each fidelity; 1 is a run at the lowest fidelity."""
        unit = self.fidelities[0].epochs
        return [[level.epochs / unit] * len(self.space) for level in self.fidelities]

    @property
    def problem(self) -> Problem:
        """Facts that an algorithm may use."""
        epochs = tuple(level.epochs for level in self.fidelities)
        return Problem(space=self.space, epochs=epochs, signal=0, scores=self.scores)

    @property
    def has_seconds(self) -> bool:
        """Whether budgets can be in simulated seconds."""
        return all(level.seconds is not None for level in self.fidelities)

    @property
    def best(self) -> float:
        """The best final accuracy of a cell."""
        return float(self.final.max())

    @property
    def protocol(self) -> str:
        """One line that describes the signal, the final accuracy and the units of budgets."""
        budgets = "evaluations (no training times)"
        if self.has_seconds:
            budgets = "simulated GPU-seconds or evaluations"
        cells = f"{len(self.space):,} {self.space.of_space.items}"
        if self.trained is not None:
            equal = int((self.trained != self.space.indices).sum())
            cells += f", {equal:,} of them with the accuracy of an equal cell"
        return (
            f"{self.dataset}, {cells}; searched on {self.searched_on}; "
            f"reported: {self.reported}; budgets: {budgets}"
        )

    @checked
    def restrict(self, indices: Iterable[int]) -> SearchTable:
        """Return the table restricted to the cells with these benchmark indices."""
        wanted = SearchSpace.of(indices, self.space.of_space).indices
        rows = np.flatnonzero(np.isin(self.space.indices, wanted))
        if not rows.size:
            raise InputError(f"table {self.name!r} has none of the {len(wanted)} cells asked for")
        levels = []
        for level in self.fidelities:
            seconds = _taken(level.seconds, rows)
            levels.append(replace(level, accuracy=level.accuracy[rows], seconds=seconds))
        return replace(
            self,
            space=SearchSpace.of(self.space.indices[rows].tolist(), self.space.of_space),
            fidelities=tuple(levels),
            tested=self.tested[rows],
            scores=_taken(self.scores, rows),
            trained=_taken(self.trained, rows),
        )


def _taken(values: NDArray[Scalar] | None, rows: Ints) -> NDArray[Scalar] | None:
    """Return the rows of an array, if there is one."""
    if values is None:
        return None
    return values[rows]


Opened: TypeAlias = str | Path | Table | Recipes
"""A table by its name, or as `rebench.open` returns it."""
Given: TypeAlias = Opened | SearchTable
"""A table to search: by name, opened, or as a `SearchTable`."""


@checked
def search_table(
    table: Opened,
    dataset: str | None = None,
    *,
    name: str | None = None,
    signal: Opened | None = None,
    times: Opened | None = None,
    validation: bool = True,
    epochs: Sequence[int] | None = None,
    curve: bool = False,
) -> SearchTable:
    """Return the table that algorithms search: signals, costs and final accuracies of cells.

    Cells that lack a signal or a finite final accuracy are left out. The protocol says how many,
    except with another table as `signal`. If the table has a run of each network with a path, cells
    that it lacks have the accuracy of an equal cell (`rebench.tables.whole_space`). The final
    accuracy is on the test split. If the table has validation accuracy only, the final accuracy is
    on the validation split, and the protocol says so.

    Args:
        table: table of the final accuracies, by name (NAME@RECIPE takes one recipe) or opened.
        dataset: data set of the accuracies; the usual data set of the table if None.
        name: name of the result; the table's name by default.
        signal: another table that gives the signal. For example, a re-trained table without short
            runs and times can use those of the published table. If this table has only one data
            set, its signal may be of another data set than `dataset`.
        times: another table that gives the times, if the table has none or was trained on several
            kinds of machines. If it lacks a training, the time of another training is used, in
            proportion to the epochs: for cifar10 that of cifar10-valid, as in the benchmark.
        validation: whether to search on the validation split if the table has it. False searches on
            the test split, to compare with a table that has only a test split.
        epochs: the numbers of epochs of the fidelities; all in the table by default. The protocol
            of NATS-Bench uses at most 12 epochs.
        curve: whether fidelities are epochs of one run's curve instead of separate runs, as in the
            benchmark authors' protocol for Hyperband and BOHB. They are `epochs` of the shortest
            run that is long enough: by default its whole length, a third and a ninth.
    """
    own = _opened(table)
    name = name or own.name
    dataset = dataset or _common_dataset([own])
    table = whole_space(own)
    shown_in = table
    seen = dataset
    if signal is not None:
        shown_in = whole_space(_opened(signal))
        seen = _signal_dataset(shown_in, dataset)
    keys = validation_keys(shown_in, seen) if validation else []
    keys = keys or _final_keys(shown_in, seen)
    choose = _along_curve if curve else _of_epochs
    shown = choose(shown_in, keys, epochs)

    reported = _final_keys(table, dataset)[-1]
    tested = table.group(*reported).column("accuracy")
    runs = [tested, *(one.accuracy for one in shown)]
    known = [np.isfinite(accuracy).any(axis=1) for accuracy in runs]
    complete = np.all(known, axis=0)
    cells = np.flatnonzero(complete)
    if not cells.size:
        raise InputError(f"table {name!r} has no cell with both a signal and a final accuracy")

    times_of: Callable[[Table, Key, Ints, float], Floats | None] = _seconds
    timed = shown_in
    if times is not None:
        times_of = _given_seconds
        timed = whole_space(_opened(times))
    seeds = table.group(*reported).seeds
    levels = []
    for one in shown:
        share = one.epochs / max(1, one.key.epochs)
        seconds = times_of(timed, one.key, cells, share)
        accuracy = _finite(shown_in.measure.goodness(one.accuracy[cells]))
        levels.append(Fidelity(epochs=one.epochs, accuracy=accuracy, seconds=seconds))
        if shown_in.group(*one.key).seeds != seeds:
            seeds = ()

    signal_name = shown_in.name
    left_out = 0
    if signal is None:
        signal_name = ""
        left_out = int((np.any(known, axis=0) & ~complete).sum())
    return SearchTable(
        name=name,
        dataset=dataset,
        space=SearchSpace.of(cells.tolist(), table.space),
        fidelities=tuple(levels),
        tested=_finite(table.measure.goodness(tested[cells])),
        searched_on=_describe_signal(shown, signal_name),
        reported=_describe_final(table, reported, left_out),
        split="validation" if reported.split == _VALIDATION else "test",
        measure=table.measure,
        trained=None if table is own else trained_cell_of(trained_cells(own), own.space)[cells],
        seeds=seeds,
    )


def search_tables(
    given: Sequence[Given],
    dataset: str | None = None,
    *,
    recipe: str | None = None,
    on_test: bool = False,
    signal: Opened | None = None,
    times: Opened | None = None,
    epochs: Sequence[int] | None = None,
    curve: bool = False,
) -> list[SearchTable]:
    """Return one table to search, or two with the same signal, restricted to their common cells.

    Args:
        given: tables by name, opened, or as `SearchTable`.
        dataset: data set of the accuracies; the usual data set of the tables if None.
        recipe: recipe to take from tables with several recipes.
        on_test: whether to search on test accuracy even if every table has validation accuracy.
        signal: another table that gives the signal, as in `search_table`.
        times: another table that gives the times.
        epochs: the fidelities to offer.
        curve: whether the fidelities are epochs of one run's curve.
    """
    if len(given) not in (1, 2):
        raise InputError(f"compare takes one or two tables, got {len(given)}: give their names")
    named = [table for table in given if not isinstance(table, SearchTable)]
    ready = [table for table in given if isinstance(table, SearchTable)]
    if ready and named:
        raise InputError(
            "give two tables of one kind: two SearchTable, or two names or opened tables"
        )
    if named:
        opened = [_opened(table, recipe) for table in named]
        dataset = dataset or _common_dataset(opened)
        seen = opened
        if signal is not None:
            signal = _opened(signal)
            seen = [signal]
        if times is not None:
            times = _opened(times)
        validation = not on_test and all(validation_keys(table, dataset) for table in seen)
        for table, label in zip(opened, _labels(named, opened), strict=True):
            found = search_table(
                table,
                dataset,
                name=label,
                signal=signal,
                times=times,
                validation=validation,
                epochs=epochs,
                curve=curve,
            )
            ready.append(found)
    if len(ready) == 2:
        ready = list(common_cells(*ready))
    return ready


def _labels(given: Sequence[Opened], opened: Sequence[Table]) -> list[str]:
    """Return different names of tables: the names by which they were given, if there are any."""
    names = []
    for table, one in zip(given, opened, strict=True):
        named = isinstance(table, str | Path)
        names.append(str(table) if named else one.name)
    if len(set(names)) < len(names):  # recipes of the same table
        names = [table.full_name for table in opened]
    labels: list[str] = []
    for name in names:
        labels.append(table_label(name, labels))
    return labels


def _opened(table: Opened, recipe: str | None = None) -> Table:
    """Return a table that is given by name, or the table of one recipe."""
    if isinstance(table, Table):
        return table
    if isinstance(table, str | Path):
        if recipe and not recipes_of(table):
            recipe = None
        return open_table(table, recipe=recipe)
    if recipe is None:
        recipes = sorted(table.recipes)
        raise InputError(
            f"{table.name} has several recipes: {', '.join(recipes)}. Choose one, such as "
            f"rebench.open({table.name!r})[{recipes[0]!r}]"
        )
    return table[recipe]


def _common_dataset(tables: Sequence[Table]) -> str:
    """Return the usual data set among those of every table."""
    held = []  # the names in each table
    trained = []  # and the names that its training runs with validation accuracy stand for
    for table in tables:
        names = {key.dataset for key in table.keys}
        held.append(names)
        trained.append(names | {name for name in _SPLITS if validation_keys(table, name)})
    common = set.intersection(*held) or set.intersection(*trained)
    if not common:
        said = "; ".join(", ".join(sorted(names)) for names in held)
        raise InputError(f"the tables have no data set in common ({said})")
    usual = tables[0].default_key().dataset
    if usual in common:
        return usual
    return min(common)


def common_cells(first: SearchTable, second: SearchTable) -> tuple[SearchTable, SearchTable]:
    """Return both tables restricted to the cells that both cover."""
    if isinstance(first.space.of_space, NamedItems):
        return _common_names(first, second)
    shared = np.intersect1d(first.space.indices, second.space.indices).tolist()
    if not shared:
        raise InputError(f"tables {first.name!r} and {second.name!r} have no cell in common")
    return first.restrict(shared), second.restrict(shared)


def _common_names(first: SearchTable, second: SearchTable) -> tuple[SearchTable, SearchTable]:
    """Return both tables restricted to the names in both; the tables number them differently."""
    names = NamedItems(_labels_of(first) & _labels_of(second))
    if not names.size:
        raise InputError(f"tables {first.name!r} and {second.name!r} have no item in common")
    restricted = []
    for table in (first, second):
        own = table.space.of_space
        part = table.restrict(own.find(names.label(number)) for number in range(names.size))
        restricted.append(replace(part, space=SearchSpace.whole(names)))
    return restricted[0], restricted[1]


def _labels_of(table: SearchTable) -> set[str]:
    return {table.space.of_space.label(index) for index in table.space.indices.tolist()}


def _final_keys(table: Table, dataset: str) -> list[Key]:
    """Return the keys of the final accuracies, by ascending epochs.

    The split is the test split that papers report for the data set, another test split if the
    table lacks it, and the validation split if the table has no test split.
    """
    splits = {key.split for key in table.keys if key.dataset == dataset}
    _, usual = _SPLITS.get(dataset, (dataset, "ori-test"))
    for split in (usual, "ori-test", "x-test"):
        if split in splits:
            return _keys(table, dataset, split)
    if keys := validation_keys(table, dataset):
        return keys
    if not splits:
        known = ", ".join(sorted({key.dataset for key in table.keys}))
        raise InputError(f"table {table.name!r} has no data set {dataset!r}; it has {known}")
    raise InputError(
        f"table {table.name!r} has no test or validation accuracy of {dataset}; "
        f"it has {', '.join(sorted(splits))}"
    )


def validation_keys(table: Table, dataset: str) -> list[Key]:
    """Return the keys of a table's validation split, by ascending epochs."""
    source, _ = _SPLITS.get(dataset, (dataset, ""))
    return _keys(table, source, _VALIDATION) or _keys(table, dataset, _VALIDATION)


def _signal_dataset(signal: Table, dataset: str) -> str:
    """Return `dataset`, or the only data set of a signal that lacks it."""
    source, _ = _SPLITS.get(dataset, (dataset, ""))
    held = {key.dataset for key in signal.keys}
    if len(held) == 1 and not held & {dataset, source}:
        return held.pop()
    return dataset


class _Shown(NamedTuple):
    """A signal: accuracies [cells, seeds] after a number of epochs of a training."""

    key: Key
    epochs: int
    accuracy: Floats


def _of_epochs(table: Table, keys: list[Key], epochs: Collection[int] | None) -> list[_Shown]:
    """Return the accuracies of trainings with these numbers of epochs; of all by default."""
    shown = []
    for key in keys:
        if epochs is None or key.epochs in epochs:
            accuracy = table.group(*key).column("accuracy")
            shown.append(_Shown(key, max(1, key.epochs), accuracy))
    if not shown:
        raise InputError(
            f"table {table.name!r} has {keys[0].dataset} after {_epochs_of(keys)} epochs, "
            f"got epochs={epochs}"
        )
    return shown


def _along_curve(table: Table, keys: list[Key], epochs: Collection[int] | None) -> list[_Shown]:
    """Return accuracies after some epochs of the shortest training that is long enough."""
    asked = sorted(set(epochs or ()))
    longest = max(asked, default=1)
    long_enough = [key for key in keys if key.epochs >= longest]
    if not long_enough or min(asked, default=1) < 1:
        raise InputError(
            f"curves of {table.name!r} have {_epochs_of(keys)} epochs, "
            f"got epochs={', '.join(map(str, asked))}"
        )
    key = long_enough[0]
    if not asked:
        asked = sorted({max(1, key.epochs // _ETA**rung) for rung in range(_RUNGS)})
    along = table.accuracies_after(key, asked)
    shown = []
    for place, after in enumerate(asked):
        shown.append(_Shown(key, after, along[:, :, place]))
    return shown


def _epochs_of(keys: list[Key]) -> str:
    return ", ".join(str(key.epochs) for key in keys)


def _keys(table: Table, dataset: str, split: str) -> list[Key]:
    """Return a split's groups by ascending epochs."""
    return sorted(key for key in table.keys if (key.dataset, key.split) == (dataset, split))


def _describe_signal(shown: list[_Shown], table: str) -> str:
    """Describe the signals; `table` is the name of another table that they are from."""
    key = shown[0].key
    said = f"{key.dataset} {key.split}"
    if key.epochs:
        along = ", ".join(str(one.epochs) for one in shown)
        part = "" if shown[0].epochs == key.epochs else f"{along} of "
        said += f" after {part}{key.epochs} epochs"
    if table:
        said += f" of {table}"
    if key.split != _VALIDATION:
        said += " (test accuracy, so optimistic)"
    return said


def _describe_final(table: Table, key: Key, left_out: int) -> str:
    group = table.group(*key)
    most = int(group.n.max())
    count = "one seed"
    if most > 1:
        count = f"mean of up to {most} seeds"
    if MEAN_SEED in group.seeds:
        count = "means over seeds"
    if key.split == _VALIDATION:
        count += ", validation accuracy because the table has no test accuracy"
    trained = f" after {key.epochs} epochs" if key.epochs else ""
    said = f"{key.dataset} {key.split}{trained}, {count} ({table.origin})"
    if table.measure.lower_is_better:
        said += f"; a lower {table.measure.name} is better"
    if left_out:
        said += f"; {left_out} cells without signal or final accuracy left out"
    return said


def _finite(accuracy: Floats) -> Floats:
    return np.where(np.isfinite(accuracy), accuracy, np.nan)


def _given_seconds(times: Table, shown: Key, cells: NDArray[np.int64], share: float) -> Floats:
    """Return the cost as `_seconds`, from a table of times that may lack this training."""
    source, _ = _SPLITS.get(shown.dataset, (shown.dataset, ""))
    others = [key for key in times.keys if key.dataset in (shown.dataset, source)]
    others.sort(  # x-valid last
        key=lambda key: (key.dataset == shown.dataset, key.epochs == shown.epochs, key.epochs, key)
    )
    for key in (shown, *reversed(others)):
        if key.split == "train":
            key = key._replace(split=_VALIDATION)
        cost = _seconds(times, key, cells, share * shown.epochs / key.epochs)
        if cost is not None:
            return cost
    timed = {key.dataset for key in times.keys if (times.group(*key).mean("seconds") > 0).any()}
    told = ", ".join(sorted(timed)) or "no data set"
    raise InputError(
        f"the table of times {times.name!r} lacks {shown.dataset} or some of its {len(cells):,} "
        f"cells; it has times of {told}. Give another table of times, or none and a budget in "
        "evaluations"
    )


def _seconds(table: Table, shown: Key, cells: NDArray[np.int64], share: float) -> Floats | None:
    """Return the cost of a share of the training plus one pass over the `shown` split, if known.

    The benchmark's package charges a simulated evaluation in this way. If the times per pass are
    unknown, the cost is this share of the run's seconds.
    """
    train = shown._replace(split="train")
    if train in table.keys and shown in table.keys:
        training = table.group(*train).mean("seconds")[cells]
        cost = share * training + table.group(*shown).mean("epoch_seconds")[cells]
        if np.isfinite(cost).all():
            return cost
    for key in (train, shown):
        if key in table.keys:
            cost = table.group(*key).mean("seconds")[cells]
            if np.isfinite(cost).all() and cost.min() > 0:
                return share * cost
    return None
