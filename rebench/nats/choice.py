"""Choice of the table for each cell: re-trained if it has a record, otherwise published.

Search scripts ask for values that many tables lack; a choice replaces these
(`rebench.nats.searchable`).
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

from cells import SPACE_SIZE
from rebench.arguments import checked
from rebench.errors import InputError
from rebench.nats.searchable import for_search, with_chance
from rebench.tables.layout import CurveArrays, Key
from rebench.tables.table import Table
from rebench.tables.whole_space import whole_space

__all__ = ["Choice"]


class Choice:
    """One or two tables, and the table that answers for each (cell, data set, epochs).

    Args:
        published: the benchmark's table.
        retrained: a run's table; where it has a record, it has priority over `published`.
    """

    @checked
    def __init__(self, *, published: Table | None = None, retrained: Table | None = None) -> None:
        given = [table for table in (retrained, published) if table is not None]
        if not given:
            raise InputError("give a published table, a re-trained one, or both; got none")
        if published is not None and retrained is not None:
            _check_same_network(retrained)
        whole = [whole_space(table) for table in given]
        # The last table answers where the other has no value.
        whole[-1], self._chance_cells = with_chance(whole[-1])
        trained_epochs = set[int]()
        self.tables: list[Table] = []
        self.replaced: list[str] = []
        for place, own in enumerate(given):
            trained_epochs.update(key.epochs for key in own.keys)
            elsewhere = whole[1 - place].keys if len(whole) == 2 else ()
            table = for_search(whole[place], elsewhere)
            self.tables.append(table)
            if table.name != own.name:
                self.replaced.append(f"replaced values: {table.name}")
        # The lengths of the trainings of the tables, without those that replace others.
        self.trained_epochs = sorted(trained_epochs)

    @functools.cached_property
    def keys(self) -> tuple[Key, ...]:
        """The (data set, split, epochs) that at least one table contains."""
        return tuple(dict.fromkeys(itertools.chain(*(table.keys for table in self.tables))))

    @functools.cached_property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs that at least one table contains."""
        return tuple(sorted({key.epochs for key in self.keys}))

    @functools.cached_property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that at least one table contains."""
        return tuple(dict.fromkeys(key.dataset for key in self.keys))

    @property
    def has_curves(self) -> bool:
        """Whether every table has per-epoch curves."""
        return all(table.has_curves for table in self.tables)

    @functools.cached_property
    def cells(self) -> NDArray[np.int64]:
        """Indices of the cells with at least one value in at least one table."""
        held = np.zeros(SPACE_SIZE, dtype=bool)
        for key in self.keys:
            held |= self.which(key.dataset, key.epochs) >= 0
        return np.flatnonzero(held)

    @functools.cache  # noqa: B019 - a choice lives as long as the tables it holds
    def which(self, dataset: str, epochs: int) -> NDArray[np.int8]:
        """Return the number of the table that answers for each cell; -1 without a table."""
        number = np.full(SPACE_SIZE, -1, dtype=np.int8)
        for place in reversed(range(len(self.tables))):
            table = self.tables[place]
            for key in table.keys:
                if (key.dataset, key.epochs) == (dataset, epochs):
                    number[table.group(*key).index] = place
        return number

    def table(self, index: int, dataset: str, epochs: int) -> Table | None:
        """Return the table that answers for a cell, or None."""
        place = int(self.which(dataset, epochs)[index])
        return self.tables[place] if place >= 0 else None

    def curves(self, index: int, table: Table) -> dict[tuple[Key, int], CurveArrays]:
        """Return the curves of a cell in a table; they are constant for a cell without a path."""
        if not table.has_curves:
            return {}
        curves = table.curves(index)
        if index in self._chance_cells:
            for key in table.run_keys:
                group = table.group(*key)
                losses = group.by_seed("loss", index)
                for seed, accuracy in group.by_seed("accuracy", index).items():
                    curves[key, seed] = CurveArrays(
                        accuracy=np.full(key.epochs, accuracy),
                        loss=np.full(key.epochs, losses[seed]),
                        seconds=None,
                    )
        return curves


def _check_same_network(retrained: Table) -> None:
    if retrained.skeleton != (16, 5):
        raise InputError(
            f"{retrained.name} trained networks of {retrained.skeleton[0]} channels and "
            f"{retrained.skeleton[1]} cells a stage, not the benchmark's 16 and 5, so published "
            f"values cannot replace missing ones: give the re-trained table only"
        )
