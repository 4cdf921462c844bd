"""`Table`: accuracies of the space, asked by cell, data set, split, epochs and seed.

Nothing here is random and nothing is imputed: a seed or a cell that is absent stays absent, and
every summary shows how many seeds it rests on. Epochs default to 200 and the split to ``ori-test``,
the whole test set. Accuracies are in percent.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rebench.errors import MissingDataError, UnknownNameError
from rebench.tables.answers import CellCost, CellName, Summary, cell_index
from rebench.tables.columns import usual_split
from rebench.tables.group import Group
from rebench.tables.layout import CurveArrays, Curves, FrameSource, Key, Source, missing_group
from rebench.tables.retrained import dataset_names, retrained_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table"]


class Table:
    """A table of accuracies, published or re-trained, read from disk as it is asked for."""

    def __init__(self, source: Source, curves: Curves | None = None) -> None:
        self._source = source
        self._curves = curves
        self._groups: dict[Key, Group] = {}

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        name: str = "table",
        origin: str | None = None,
        recipe: str | None = None,
    ) -> Table:
        """Make a table of a long frame: index, dataset, split, epochs, seed, accuracy, ...

        Rows with a column `recipe` are re-trained results.
        """
        if "recipe" not in frame.columns:
            return cls(FrameSource(frame, name=name, origin=origin or "published"))
        named = frame.assign(dataset=dataset_names(frame))
        rows = retrained_frame(named, recipe, name)
        return cls(FrameSource(rows, name=name, origin=origin or "retrained"))

    @property
    def name(self) -> str:
        """What the table is called."""
        return self._source.name

    @property
    def origin(self) -> str:
        """``published``, ``retrained`` or ``generated``; ``given`` of a file that does not say."""
        return self._source.origin

    @property
    def keys(self) -> tuple[Key, ...]:
        """The (data set, split, epochs) that the table holds."""
        return self._source.keys

    def usual_key(
        self, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> Key:
        """Return what is meant where it is not said, of what the table holds.

        The only data set, else CIFAR-10, else the first by name; the whole test set or what there
        is of it; the end of the longest training.
        """
        held = {key.dataset for key in self.keys}
        dataset = dataset or ("cifar10" if "cifar10" in held or not held else min(held))
        split = split or usual_split(key.split for key in self.keys if key.dataset == dataset)
        known = [key.epochs for key in self.keys if (key.dataset, key.split) == (dataset, split)]
        return Key(dataset, split, epochs or max(known, default=200))

    @property
    def has_curves(self) -> bool:
        """Whether per-epoch curves lie beside the table."""
        return self._curves is not None

    @functools.cached_property
    def skeleton(self) -> tuple[int, int]:
        """Channels of the first stage and cells a stage: the benchmark's where no column says."""
        names = ("channels", "cells_per_stage")
        if not self.keys or not set(names) <= set(self._source.columns):
            return 16, 5
        channels, cells_per_stage = self._source.read(self.keys[0], names).values()
        return int(channels[0]), int(cells_per_stage[0])

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.origin}, {len(self.keys)} groups)"

    def group(self, dataset: str, split: str = "ori-test", epochs: int = 200) -> Group:
        """Return one group as dense arrays [cell, seed]; for whole-space computations."""
        key = Key(dataset, split, epochs)
        group = self._groups.get(key)
        if group is None:
            if key not in self._source.keys:
                raise missing_group(self.name, self.keys, key)
            group = self._groups[key] = Group(self._source, key)
        return group

    def holds(
        self, cell: CellName, dataset: str, split: str = "ori-test", epochs: int = 200
    ) -> bool:
        """Return whether the table has any value of a cell for this data set, split and epochs."""
        key = Key(dataset, split, epochs)
        return key in self.keys and bool(self.group(*key).n[cell_index(cell)])

    def frame(
        self, *, dataset: str | None = None, split: str | None = None, epochs: int | None = None
    ) -> pd.DataFrame:
        """Return the long table, whole or filtered."""
        wanted = Key(dataset, split, epochs)  # type: ignore[arg-type]  # None is any
        keys = [
            key
            for key in self.keys
            if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
        ]
        return self._source.frame(keys)

    def accuracy(
        self,
        cell: CellName,
        dataset: str,
        split: str = "ori-test",
        epochs: int = 200,
        seed: int | None = None,
    ) -> float:
        """Return a cell's accuracy: of one seed, or the mean over the seeds it has."""
        return self._value("accuracy", cell, self.group(dataset, split, epochs), seed)

    def loss(
        self,
        cell: CellName,
        dataset: str,
        split: str = "ori-test",
        epochs: int = 200,
        seed: int | None = None,
    ) -> float:
        """Return a cell's loss: of one seed, or the mean over the seeds it has."""
        return self._value("loss", cell, self.group(dataset, split, epochs), seed)

    def seeds(
        self, cell: CellName, dataset: str, split: str = "ori-test", epochs: int = 200
    ) -> dict[int, float]:
        """Return the accuracy of every seed the cell has; seed -1 stands for a published mean."""
        group = self.group(dataset, split, epochs)
        index = self._present(cell, group)
        pairs = zip(group.seeds, group.present[index], group.column("accuracy")[index], strict=True)
        return {seed: float(value) for seed, present, value in pairs if present}

    def query(
        self, cell: CellName, dataset: str, split: str = "ori-test", epochs: int = 200
    ) -> Summary:
        """Return one cell's mean, spread, number of seeds, rank and percentile."""
        group = self.group(dataset, split, epochs)
        index = self._present(cell, group)
        only = np.array([index])
        return Summary(
            index=index,
            dataset=dataset,
            split=split,
            epochs=epochs,
            mean=float(group.mean("accuracy")[index]),
            std=float(group.std[index]),
            n=int(group.n[index]),
            rank=int(group.rank(only)[0]),
            percentile=float(group.percentile(only)[0]),
            origin=self.origin,
        )

    def rank(self, cell: CellName, dataset: str, split: str = "ori-test", epochs: int = 200) -> int:
        """Return a cell's rank by mean accuracy among the table's cells: 1 is best."""
        group = self.group(dataset, split, epochs)
        return int(group.rank(np.array([self._present(cell, group)]))[0])

    def means(self, dataset: str, split: str = "ori-test", epochs: int = 200) -> pd.Series[float]:
        """Return the mean accuracy of every cell the table has, by index."""
        import pandas as pd

        group = self.group(dataset, split, epochs)
        index = pd.Index(group.index, name="index")
        return pd.Series(group.mean("accuracy")[group.index], index=index, name="accuracy")

    def summary(self, dataset: str, split: str = "ori-test", epochs: int = 200) -> pd.DataFrame:
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

    def costs(self, dataset: str, epochs: int = 200) -> pd.DataFrame:
        """Return params_m, mflops, latency_s and train_seconds of every cell, by index.

        Parameters and FLOPs are those of the benchmark's network where the table has none.
        """
        group = self._with_costs(dataset, epochs)
        return _by_index(group.costs, group)

    def cost(self, cell: CellName, dataset: str, epochs: int = 200) -> CellCost:
        """Return what one cell's network costs on a data set."""
        index = cell_index(cell)
        group = self._with_costs(dataset, epochs)
        if not group.n[index]:
            raise MissingDataError(f"{self.name} holds no cell {index} for {dataset}")
        place = np.searchsorted(group.index, index)
        costs = (float(values[place]) for values in group.costs.values())
        params_m, mflops, latency_s, train_seconds = costs
        return CellCost(
            params_m=params_m,
            mflops=mflops,
            latency_s=None if np.isnan(latency_s) else latency_s,
            train_seconds=None if np.isnan(train_seconds) else train_seconds,
        )

    def _with_costs(self, dataset: str, epochs: int) -> Group:
        """Return the group that tells the costs: that of training, for its time, or any."""
        splits = [k.split for k in self.keys if (k.dataset, k.epochs) == (dataset, epochs)]
        split = "train" if "train" in splits or not splits else splits[0]
        return self.group(dataset, split, epochs)

    def best(
        self,
        dataset: str,
        split: str = "ori-test",
        epochs: int = 200,
        *,
        top: int = 1,
        **limits: float | None,
    ) -> pd.DataFrame:
        """Return the `top` cells by mean accuracy that keep every limit, with their costs.

        Limits are ``params_m``, ``mflops``, ``latency_s`` and ``train_seconds``, each the largest
        allowed value. Of equal means the lower index comes first; a cell whose cost is not known
        keeps no limit on it.
        """
        costs = self.costs(dataset, epochs)
        frame = self.summary(dataset, split, epochs).join(costs)
        for name, limit in limits.items():
            if name not in costs.columns:
                raise UnknownNameError("limit", name, costs.columns)
            if limit is not None:
                frame = frame[frame[name] <= limit]
        return frame.sort_values("mean", ascending=False, kind="stable").head(top)

    def curves(self, cell: CellName) -> dict[tuple[Key, int], CurveArrays]:
        """Return a cell's per-epoch curves by ((data set, split, epochs), seed)."""
        return self._curves_of().of(cell_index(cell))

    def along(self, key: Key, epochs: Sequence[int]) -> NDArray[np.float64]:
        """Return accuracies [cell, seed, epochs] of a group's runs after some of their epochs."""
        group = self.group(*key)
        cells, seeds, accuracy = self._curves_of().along(key, epochs)
        found = np.full((*group.present.shape, len(epochs)), np.nan)
        held = np.isin(seeds, group.seeds)
        found[cells[held], np.searchsorted(group.seeds, seeds[held])] = accuracy[held]
        return found

    def _curves_of(self) -> Curves:
        if self._curves is None:
            raise MissingDataError(
                f"{self.name} has no file of curves beside it; ingest the benchmark with curves"
            )
        return self._curves

    def curve(
        self, cell: CellName, dataset: str, split: str = "ori-test", epochs: int = 200
    ) -> pd.DataFrame:
        """Return accuracy and loss after every epoch (from 1): columns by metric and seed."""
        import pandas as pd

        found = {
            (metric, seed): getattr(curve, metric)
            for (key, seed), curve in self.curves(cell).items()
            if key == (dataset, split, epochs)
            for metric in ("accuracy", "loss")
        }
        if not found:
            raise MissingDataError(
                f"{self.name} has no curve of cell {cell_index(cell)} for "
                f"{Key(dataset, split, epochs)}: the benchmark evaluated it at the end only"
            )
        return pd.DataFrame(found, index=pd.RangeIndex(1, epochs + 1, name="epoch"))

    def _present(self, cell: CellName, group: Group) -> int:
        index = cell_index(cell)
        if not group.n[index]:
            raise group.lacking(index, self.name)
        return index

    def _value(self, column: str, cell: CellName, group: Group, seed: int | None) -> float:
        index = self._present(cell, group)
        if seed is None:
            return float(group.mean(column)[index])
        if seed not in group.seeds or not group.present[index, group.seeds.index(seed)]:
            held = np.array(group.seeds)[group.present[index]]
            raise MissingDataError(
                f"cell {index} has no seed {seed} for {group.key} in {self.name}; "
                f"it has {', '.join(map(str, held))}"
            )
        return float(group.column(column)[index, group.seeds.index(seed)])


def _by_index(columns: Mapping[str, NDArray[np.generic]], group: Group) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns, index=pd.Index(group.index, name="index"))
