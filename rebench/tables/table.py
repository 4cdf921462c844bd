"""`Table`: accuracies of the space by cell, data set, split, epochs and seed.

Nothing here is random or imputed: absent seeds and cells stay absent, and every summary shows its
number of seeds. The table has defaults (`default_key`). Accuracies are in percent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray

from rebench.arguments import Between, checked
from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.spaces import NB201, Space, space_of
from rebench.tables.answers import CellCost, CellName, Summary
from rebench.tables.checks import check_once, check_values, scaled
from rebench.tables.columns import MEAN_SEED, seed_name, usual_split
from rebench.tables.foreign import Naming
from rebench.tables.group import Group
from rebench.tables.layout import CurveArrays, CurveSource, FrameSource, Key, Source, missing_group
from rebench.tables.meaning import PERCENT, Meaning, Measure
from rebench.tables.retrained import in_words_of_benchmark, label_of, of_recipe, retrained_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipes", "Table"]

_SHOWN: Final = 5  # rows of a table in a notebook
_USUAL_DATA: Final = ("cifar10", "cifar10-valid")


class Table:
    """Table of accuracies in percent, published or re-trained; `rebench.open` opens one.

    A cell is given as an index, an architecture string, a code or a `Cell`. `dataset`, `split` and
    `epochs` have defaults: the only data set of the table, else CIFAR-10; the whole test set, else
    a part of it or the validation images; the longest training. Runs are preferred to published
    means: `nb201` has runs of CIFAR-10 on the validation images (`x-valid`) only.

    A cell that the table lacks raises `MissingDataError`; a data set, split or number of epochs
    that the table lacks raises `InputError`.
    """

    def __init__(self, source: Source, curves: CurveSource | None = None) -> None:
        self._source = source
        self._curves = curves
        self._groups: dict[Key, Group] = {}

    @classmethod
    @checked
    def from_frame(
        cls,
        frame: Any,
        *,
        name: str = "table",
        origin: str | None = None,
        recipe: str | None = None,
        fractions: bool = False,
        index: str | None = None,
        item: str | None = None,
        accuracy: str | Sequence[str] | None = None,
        seed: str | None = None,
        dataset: str | None = None,
        split: str | None = None,
        epochs: str | int | None = None,
        space: str = "nb201",
        unit: str | None = None,
        lower_is_better: bool = False,
    ) -> Table:
        """Make a table of a long frame: index, dataset, split, epochs, seed, accuracy, ...

        Rows with a column `recipe` are re-trained results.

        Args:
            frame: the rows: a DataFrame of pandas or polars, or a table of Arrow.
            name: the name of the table.
            origin: ``published`` or ``retrained``; by default ``retrained`` if the rows have a
                column `recipe`.
            recipe: the recipe to take, if the frame has several recipes.
            fractions: whether accuracies are shares of 1, not percent.
            index: the column that names the cell: by index, architecture string or code.
            item: the column of names, for networks of no known space.
            accuracy: the column of accuracies in percent, or several columns, one a seed
                (``"acc_*"``), with the seed at the end of each name.
            seed: the column of seeds; by default the runs of a cell are run 1, 2, 3.
            dataset: the column of data sets, or one data set for all rows.
            split: the column of splits, or one split for all rows (default: ``ori-test``).
            epochs: the column of epochs, or one number for all rows.
            space: the search space of the column `index`.
            unit: the unit of the accuracies, if they are not percentages.
            lower_is_better: whether smaller values are better, as for a loss.
        """
        import pandas as pd

        if hasattr(frame, "to_pandas"):
            frame = frame.to_pandas()
        if not isinstance(frame, pd.DataFrame):
            raise InputError(
                "frame must be a DataFrame of pandas or polars, or a table of Arrow, got a "
                f"{type(frame).__name__}: convert it, for example with pandas.DataFrame(...)"
            )
        names = {"index": index, "item": item, "accuracy": accuracy, "seed": seed}
        values = {"dataset": dataset, "split": split, "epochs": epochs}
        constants = {ours: value for ours, value in values.items() if value not in frame.columns}
        given = {**names, **values}
        columns = {ours: given[ours] for ours in given if ours not in constants and given[ours]}
        naming = Naming.of(columns, constants)
        of = space_of(space)
        if naming or "item" in frame.columns:
            frame = naming.rows(frame, name, of)
        measure = PERCENT
        if unit is not None or lower_is_better:
            measure = Measure(name="score", unit=unit or "", lower_is_better=lower_is_better)
        meaning, frame = Meaning(space=of, measure=measure).of_rows(frame)
        checked_rows = check_values(frame, name, meaning)
        if meaning.measure.is_percent:
            checked_rows = scaled(checked_rows, name, fractions=fractions)
        rows, usual = in_words_of_benchmark(checked_rows), "published"
        if "recipe" in rows.columns:
            rows = rows if recipe is None else of_recipe(rows, recipe, name)
            rows, usual = retrained_frame(rows, name), "retrained"
        rows = check_once(rows, name)
        return cls(FrameSource(rows, name=name, origin=origin or usual, meaning=meaning))

    def with_rows(self, rows: pd.DataFrame, name: str) -> Table:
        """Return a table of changed rows, with this table's origin and its curves of trials."""
        curves = self._curves.of_rows(rows) if self._curves else None
        source = FrameSource(rows, name=name, origin=self.origin, meaning=self._source.meaning)
        return Table(source, curves)

    @property
    def space(self) -> Space:
        """The search space of the table's items."""
        return self._source.meaning.space

    @property
    def measure(self) -> Measure:
        """The measure in the column `accuracy`."""
        return self._source.meaning.measure

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._source.name

    @property
    def full_name(self) -> str:
        """The name of the table, as NAME@RECIPE if its rows have a recipe."""
        named = self.keys and "recipe" in self._source.columns and self.recipe != self.name
        return f"{self.name}@{self.recipe}" if named else self.name

    @property
    def origin(self) -> str:
        """``published``, ``retrained`` or ``generated``; ``given`` if the file does not say it."""
        return self._source.origin

    @property
    def keys(self) -> tuple[Key, ...]:
        """The (data set, split, epochs) of the table."""
        return self._source.keys

    def has_runs(self, key: Key) -> bool:
        """Return whether a key has values of runs, not only means over unknown seeds."""
        return key not in self._source.means

    @functools.cached_property
    def run_keys(self) -> tuple[Key, ...]:
        """The keys with values of runs.

        A mean over unknown seeds is not a run. Such means are omitted if the table has runs of the
        same data set and number of epochs.
        """
        trained = {(k.dataset, k.epochs) for k in self.keys if k not in self._source.means}
        return tuple(
            k
            for k in self.keys
            if k not in self._source.means or (k.dataset, k.epochs) not in trained
        )

    def default_key(
        self, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> Key:
        """Return the key of the arguments, with the table's defaults for missing arguments.

        The defaults are the only data set, else CIFAR-10, else the first by name; the first of
        `ori-test`, `x-test`, `x-valid` and `train` that the table has; the longest training. Runs
        are preferred to means over unknown seeds. Given arguments are not checked.
        """
        given = Key(dataset, split, epochs)  # type: ignore[arg-type]  # None is a missing argument
        return given if given in self.keys else self._usual(dataset, split, epochs)

    @checked
    def _usual(self, dataset: str | None, split: str | None, epochs: int | None) -> Key:
        held = [key for key in self.keys if dataset in (None, key.dataset)]
        held = [key for key in held if key not in self._source.means] or held
        names = {key.dataset for key in held}
        usual = next((name for name in _USUAL_DATA if name in names), min(names, default="cifar10"))
        dataset = dataset or usual
        split = split or usual_split(key.split for key in held if key.dataset == dataset)
        known = [key.epochs for key in self.keys if (key.dataset, key.split) == (dataset, split)]
        return Key(dataset, split, epochs or max(known, default=200))

    @property
    def has_curves(self) -> bool:
        """Whether the table has per-epoch curves."""
        return self._curves is not None

    @functools.cached_property
    def skeleton(self) -> tuple[int, int]:
        """Channels of the first stage and cells per stage (default: the benchmark's)."""
        names = ("channels", "cells_per_stage")
        if not self.keys or not set(names) <= set(self._source.columns):
            return 16, 5
        channels, cells_per_stage = self._source.read(self.keys[0], names).values()
        return int(channels[0]), int(cells_per_stage[0])

    @functools.cached_property
    def recipe(self) -> str | None:
        """The recipe of the cells' training; ``nb201`` for a published table without recipes."""
        if "recipe" not in self._source.columns:
            is_benchmark = self.origin == "published" and self.space is NB201
            return "nb201" if is_benchmark else None
        return str(self._source.read(self.keys[0], ("recipe",))["recipe"][0])

    def __repr__(self) -> str:
        if not self.keys:
            return f"<Table {self.name!r}: no rows>"
        key = self.default_key()
        group = self.group(*key)
        recipe = f"recipe {self.recipe}, " if self.recipe else ""
        most = int(group.n.max())
        seeds = "mean over seeds" if group.seeds == (MEAN_SEED,) else f"{most} seeds"
        others = f", and {len(self.keys) - 1} more" if len(self.keys) > 1 else ""
        return (
            f"<Table {self.name!r} ({self.origin}): {recipe}{len(group.index)} {self.space.items}, "
            f"{seeds}, {key}{others}>"
        )

    def _repr_html_(self) -> str:
        import html  # loading this module takes as long as reading a table

        head = self.best(top=_SHOWN) if self.keys else self.frame()
        return f"<p>{html.escape(repr(self))}</p>{head.to_html(float_format='{:.4g}'.format)}"

    def group(
        self, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> Group:
        """Return one group as dense arrays [cell, seed], for computations over the space."""
        key = self.default_key(dataset, split, epochs)
        group = self._groups.get(key)
        if group is None:
            if key not in self._source.keys:
                raise missing_group(self.name, self.keys, key)
            group = self._groups[key] = Group(self._source, key)
        return group

    def has_value(
        self,
        cell: CellName,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
    ) -> bool:
        """Return whether the table has any value of a cell for this data set, split and epochs."""
        key = self.default_key(dataset, split, epochs)
        return key in self.keys and bool(self.group(*key).n[self.space.find(cell)])

    @checked
    def frame(
        self, *, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> pd.DataFrame:
        """Return the long table, or the rows of a data set, a split, a number of epochs."""
        wanted = Key(dataset, split, epochs)  # type: ignore[arg-type]  # None is any
        keys = [
            key
            for key in self.keys
            if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
        ]
        if not keys and self.keys:
            raise missing_group(self.name, self.keys, wanted)
        return self._source.meaning.on(self._source.frame(keys))

    def accuracy(
        self,
        cell: CellName,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
        seed: int | None = None,
    ) -> float:
        """Return a cell's accuracy: of one seed, or the mean over its seeds."""
        group = self.group(dataset, split, epochs)
        index = self._present(cell, group)
        if seed is None:
            return float(group.mean("accuracy")[index])
        held = group.by_seed("accuracy", index)
        if seed not in held:
            raise MissingDataError(
                f"{self.space.title(index)} has no seed {seed} for {group.key} in {self.name}; "
                f"it has {', '.join(map(str, held))}{_explained(held)}"
            )
        return held[seed]

    def seeds(
        self,
        cell: CellName,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
    ) -> dict[int, float]:
        """Return the accuracy of every seed of the cell.

        Seed -1 means a published mean; -2, -3, -4 mean run 1, run 2, run 3 of unknown seeds.
        """
        group = self.group(dataset, split, epochs)
        return group.by_seed("accuracy", self._present(cell, group))

    def query(
        self,
        cell: CellName,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
    ) -> Summary:
        """Return one cell's mean, standard deviation, seeds, rank and percentile."""
        group = self.group(dataset, split, epochs)
        index = self._present(cell, group)
        only = np.array([index])
        return Summary(
            index=index,
            name=self.name,
            **group.key._asdict(),
            mean=float(group.mean("accuracy")[index]),
            std=float(group.std[index]),
            n=int(group.n[index]),
            rank=int(group.rank(only)[0]),
            of=len(group.index),
            percentile=float(group.percentile(only)[0]),
            origin=self.origin,
            seeds=group.by_seed("accuracy", index),
        )

    def means(
        self, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> pd.Series[float]:
        """Return the mean accuracy of every cell of the table, by index."""
        group = self.group(dataset, split, epochs)
        return _by_index({"accuracy": group.mean("accuracy")[group.index]}, group)["accuracy"]

    def summary(
        self, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> pd.DataFrame:
        """Return mean, std, n, rank and percentile (see `Summary`) of every cell, by index."""
        group = self.group(dataset, split, epochs)
        columns = {
            "mean": group.mean("accuracy")[group.index],
            "std": group.std[group.index],
            "n": group.n[group.index],
            "rank": group.rank(group.index),
            "percentile": group.percentile(group.index),
        }
        return _by_index(columns, group)

    def cost(
        self, cell: CellName, dataset: str | None = None, epochs: int | None = None
    ) -> CellCost:
        """Return the costs of one cell's network on a data set; see `best` for all cells.

        Parameters and FLOPs are those of the benchmark's network if the table lacks them.
        """
        group = self._with_costs(dataset, epochs)
        place = np.searchsorted(group.index, self._present(cell, group))
        costs = (float(values[place]) for values in group.costs.values())
        params_m, mflops, latency_s, train_seconds = costs
        return CellCost(
            params_m=params_m,
            mflops=mflops,
            latency_s=None if np.isnan(latency_s) else latency_s,
            train_seconds=None if np.isnan(train_seconds) else train_seconds,
        )

    def _with_costs(self, dataset: str | None, epochs: int | None) -> Group:
        """Return the group with the costs: of split `train`, which has times, or else any."""
        dataset, _, epochs = self.default_key(dataset, None, epochs)
        splits = [k.split for k in self.keys if (k.dataset, k.epochs) == (dataset, epochs)]
        split = "train" if "train" in splits or not splits else splits[0]
        return self.group(dataset, split, epochs)

    @checked
    def best(
        self,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
        *,
        top: Annotated[int, Between(1)] = 1,
        **limits: float | None,
    ) -> pd.DataFrame:
        """Return the `top` cells by rank (see `Summary`) within all limits, with their costs.

        The result has a row per cell, by index: the columns of `summary`, then the four costs.
        Limits are ``params_m``, ``mflops``, ``latency_s`` and ``train_seconds``, each the largest
        allowed value. Of equal ranks the lower index comes first. A cell with an unknown cost is
        omitted if that cost has a limit.
        """
        key = self.default_key(dataset, split, epochs)
        summary = self.summary(*key)
        group = self._with_costs(key.dataset, key.epochs)
        costs = _by_index(group.costs, group)
        frame = summary.join(costs)
        for name, limit in limits.items():
            if name not in costs.columns:
                raise UnknownNameError("limit", name, costs.columns)
            if limit is not None:
                frame = frame[frame[name] <= limit]
        return frame.sort_values("rank", kind="stable").head(top)

    def curves(self, cell: CellName) -> dict[tuple[Key, int], CurveArrays]:
        """Return a cell's per-epoch curves by ((data set, split, epochs), seed)."""
        index = self.space.find(cell)
        found = self._curves_of().of(index)
        if not found and not any(self.has_value(index, *key) for key in self.keys):
            raise self.group().lacking(index, self.name)
        return found

    @checked
    def accuracies_after(self, key: Key, epochs: Sequence[int]) -> NDArray[np.float64]:
        """Return accuracies [cell, seed, epochs] of a group's runs after the given epochs."""
        group = self.group(*key)
        cells, seeds, accuracy = self._curves_of().accuracies_after(key, epochs)
        values = np.full((*group.present.shape, len(epochs)), np.nan)
        held = np.isin(seeds, group.seeds)
        values[cells[held], np.searchsorted(group.seeds, seeds[held])] = accuracy[held]
        return values

    def _curves_of(self) -> CurveSource:
        if self._curves is None:
            raise MissingDataError(
                f"{self.name} has no file of curves; runs, the released `mini` tables and "
                "ingested files of NATS-Bench have curves"
            )
        return self._curves

    def curve(
        self,
        cell: CellName,
        dataset: str | None = None,
        split: str | None = None,
        epochs: int | None = None,
    ) -> pd.DataFrame:
        """Return accuracy and loss after every epoch (from 1): columns by metric and seed."""
        import pandas as pd

        wanted = self.default_key(dataset, split, epochs)
        curves = {
            (metric, seed): getattr(curve, metric)
            for (key, seed), curve in self.curves(cell).items()
            if key == wanted
            for metric in ("accuracy", "loss")
        }
        if not curves:
            index = self._present(cell, self.group(*wanted))
            raise MissingDataError(
                f"{self.name} has no curve of {self.space.title(index)} for {wanted}: it was "
                f"evaluated at the end only"
            )
        return pd.DataFrame(curves, index=pd.RangeIndex(1, wanted.epochs + 1, name="epoch"))

    def _present(self, cell: CellName, group: Group) -> int:
        index = self.space.find(cell)
        if not group.n[index]:
            raise group.lacking(index, self.name)
        return index


def _explained(seeds: Iterable[int]) -> str:
    """Return the meaning of negative seeds, for messages."""
    unknown = [f"{seed} is {seed_name(seed)}" for seed in seeds if seed < 0]
    return f" ({', '.join(unknown)}: the seed is not known)" if unknown else ""


def _by_index(columns: Mapping[str, NDArray[np.generic]], group: Group) -> pd.DataFrame:
    """Return a frame by the items of a group: by index for cells, by label for other spaces."""
    import pandas as pd

    items = pd.Index(group.index, name="index")
    if group.space is not NB201:
        items = pd.Index([group.space.label(index) for index in group.index], name=group.space.item)
    return pd.DataFrame(columns, index=items)


class Recipes(Mapping[str, Table]):
    """Tables of the recipes under one name, as in ``rebench.open("mini")["topology"]``."""

    def __init__(self, name: str, tables: Mapping[str, Table]) -> None:
        self.name = name
        self._tables = dict(tables)

    @property
    def recipes(self) -> tuple[str, ...]:
        """The labels of the recipes."""
        return tuple(self._tables)

    def __getitem__(self, recipe: str) -> Table:
        return self._tables[label_of(recipe, self.recipes, self.name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Table, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f"{self.name} has {len(self)} recipes, and {name} needs one recipe: "
            f"rebench.open({self.name!r})[{self.recipes[0]!r}].{name}; "
            f"valid: {', '.join(self.recipes)}"
        )

    def __repr__(self) -> str:
        return f"<{len(self)} recipes of {self.name!r}: {', '.join(self.recipes)}>"

    def frame(self) -> pd.DataFrame:
        """Return the mean accuracy of every cell (default key), a column per recipe."""
        import pandas as pd

        return pd.DataFrame({recipe: table.means() for recipe, table in self.items()})

    def _repr_html_(self) -> str:
        import html

        head = self.frame().head(_SHOWN).to_html(float_format="{:.2f}".format)
        return f"<p>{html.escape(repr(self))}</p>{head}"
