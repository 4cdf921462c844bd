"""Dense arrays of one (data set, split, epochs) of a table; all queries use them.

Row i of every array is the item with index i; columns are read from the source when first needed.

Ranks and comparisons omit runs without a finite accuracy. A cell with such a run has no mean. If it
has no other run, its rank is the last.
"""

from __future__ import annotations

import functools
import itertools
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from rebench.data import benchmark_data
from rebench.errors import MissingDataError
from rebench.tables.layout import Floats, Key, Source
from rebench.tables.seed_effects import TIE_WIDTH, centred, means_of, ranks_of

__all__ = ["TRUSTED_SEED", "Group"]

# The benchmark's records of one network can differ in its cost. The benchmark's package then uses
# this seed, because the records of other seeds were damaged in a migration.
TRUSTED_SEED: Final = 888

# The number of cells in a message.
_SHOWN: Final = 5


class Group:
    """Columns of one group as [cell, seed], and the seeds of each cell."""

    def __init__(self, source: Source, key: Key) -> None:
        keys = source.read(key, ("index", "seed"))
        self.key = key
        self._source = source
        found = np.unique(keys["seed"])
        self.seeds: tuple[int, ...] = tuple(found.tolist())
        places = np.searchsorted(found, keys["seed"])
        self.space = source.meaning.space
        self._measure = source.meaning.measure
        shape = (self.space.size, len(found))
        self.present: NDArray[np.bool_] = np.zeros(shape, dtype=bool)
        # The flat position of each source row in a [cell, seed] array.
        at = np.ravel_multi_index((keys["index"], places), self.present.shape)
        self._at = at.astype(np.int32)
        self.present.reshape(-1)[self._at] = True
        self._columns: dict[str, Floats] = {}
        self._means: dict[str, Floats] = {}

    def column(self, name: str) -> Floats:
        """Return a column as [cell, seed], NaN for absent seeds; read it once."""
        if name not in self._columns:
            values: Floats = np.full(self.present.shape, np.nan)
            if name in self._source.columns:
                values.reshape(-1)[self._at] = self._source.read(self.key, [name])[name]
            values.setflags(write=False)
            self._columns[name] = values
        return self._columns[name]

    def by_seed(self, name: str, index: int) -> dict[int, float]:
        """Return a column's value for every seed that a cell has."""
        present, values = self.present[index].tolist(), self.column(name)[index].tolist()
        return dict(itertools.compress(zip(self.seeds, values, strict=True), present))

    @functools.cached_property
    def index(self) -> NDArray[np.int64]:
        """The cells that have any seed."""
        return np.flatnonzero(self.present.any(axis=1))

    @functools.cached_property
    def n(self) -> NDArray[np.int64]:
        """Number of seeds of each cell."""
        return self.present.sum(axis=1)

    @property
    def has_accuracy(self) -> bool:
        """Whether any run has an accuracy; rows of `train` may contain costs only."""
        return bool(np.isfinite(self.column("accuracy")).any())

    def mean(self, name: str) -> Floats:
        """Return a column's mean over the present seeds, NaN for absent cells."""
        if name not in self._means:
            self._means[name] = _divide(self._sum(self.column(name)), self.n)
        return self._means[name]

    def _sum(self, values: Floats) -> Floats:
        # The seeds are added in order, as in the benchmark's package.
        total = np.zeros(len(values))
        for place in range(len(self.seeds)):
            total += np.where(self.present[:, place], values[:, place], 0.0)
        return total

    @functools.cached_property
    def std(self) -> Floats:
        """The population standard deviation of accuracy over seeds; NaN for fewer than two."""
        deviations = (self.column("accuracy") - self.mean("accuracy")[:, None]) ** 2
        variance = _divide(self._sum(deviations), self.n)
        return np.where(self.n > 1, np.sqrt(variance), np.nan)

    @functools.cached_property
    def costs(self) -> dict[str, Floats]:
        """Return params_m, mflops, latency_s and train_seconds of the cells in `index`."""
        unknown = np.full(len(self.index), np.nan)
        train = self.key.split == "train"
        return {
            "params_m": self.network_cost("params_m")[self.index],
            "mflops": self.network_cost("mflops")[self.index],
            "latency_s": self.latency[self.index],
            "train_seconds": self.mean("seconds")[self.index] if train else unknown,
        }

    def network_cost(self, name: Literal["params_m", "mflops"]) -> Floats:
        """Return a cost of each network: from the source, else from the benchmark.

        The cost is equal for all seeds unless a record is wrong; then `TRUSTED_SEED` is used.
        """
        cost = self.mean(name)
        if TRUSTED_SEED in self.seeds:
            trusted = self.column(name)[:, self.seeds.index(TRUSTED_SEED)]
            other = np.where(self.present, self.column(name), trusted[:, None])
            differ = (np.round(other, 5) != np.round(trusted, 5)[:, None]).any(axis=1)
            cost = np.where(differ & ~np.isnan(trusted), trusted, cost)
        spec = benchmark_data(self.key.dataset)
        unknown = self.index[np.isnan(cost[self.index])]
        if spec is not None and len(unknown):
            params_m, mflops = self.space.cost(unknown, spec)
            cost = cost.copy()
            cost[unknown] = params_m if name == "params_m" else mflops
        return cost

    @functools.cached_property
    def latency(self) -> Floats:
        """Mean latency of each network in seconds, over the seeds with a measurement."""
        values = self.column("latency_s")
        measured = values > 0
        return _divide(self._sum(np.where(measured, values, 0.0)), measured.sum(axis=1))

    @functools.cached_property
    def _ascending(self) -> Floats:
        return np.sort(self.comparable[self.index])

    @functools.cached_property
    def comparable(self) -> Floats:
        """Means [cell] without the common effects of seeds, larger is better; -inf if unknown."""
        accuracy = self.column("accuracy")
        known = np.isfinite(accuracy).any(axis=1)
        comparable = np.full(len(accuracy), -np.inf)
        if known.any():
            means = means_of(centred(accuracy[known]))
            comparable[known] = self._measure.goodness(means)
        return comparable

    def rank(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ranks by `comparable` means: 1 is best, ties share the better rank."""
        return ranks_of(self.comparable[cells], self._ascending)

    def percentile(self, cells: NDArray[np.int64]) -> Floats:
        """Return the percentage of the table's cells with a lower `comparable` mean."""
        lower = np.searchsorted(self._ascending, self.comparable[cells] - TIE_WIDTH / 2)
        return 100.0 * lower / len(self._ascending)

    def lacking(self, index: int, table: str) -> MissingDataError:
        """Return an error for a missing cell `index` that names cells of the table."""
        space = self.space
        networks = space.equal_networks(np.arange(space.size))
        equal = self.index[networks[self.index] == networks[index]]
        instead = f"{space.title(int(equal[0]))} is the same network; " if len(equal) else ""
        some = ", ".join(map(space.label, self.index[:_SHOWN].tolist()))
        return MissingDataError(
            f"{table} has no value of {space.title(index)} for {self.key}; {instead}the table "
            f"contains {len(self.index)} {space.items}, among them {some}"
        )


def _divide(total: Floats, count: NDArray[np.int64]) -> Floats:
    quotient: Floats = np.full(len(total), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient
