"""Choice of the table for each cell: re-trained if it has a record, otherwise published."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from cells import SPACE_SIZE
from rebench.arguments import checked
from rebench.errors import InputError
from rebench.tables.layout import Key
from rebench.tables.table import Table

__all__ = ["Choice"]


class Choice:
    """One or two tables, and the table that answers for each (cell, data set, epochs).

    Args:
        published: the benchmark's table.
        retrained: a run's table; where it has a record, it has priority over `published`.
    """

    @checked
    def __init__(self, *, published: Table | None = None, retrained: Table | None = None) -> None:
        self.tables = tuple(table for table in (retrained, published) if table is not None)
        if not self.tables:
            raise InputError("give a published table, a re-trained one, or both; got none")
        if published is not None and retrained is not None:
            _check_same_network(retrained)

    @functools.cached_property
    def keys(self) -> tuple[Key, ...]:
        """The (data set, split, epochs) that at least one table contains."""
        return tuple(dict.fromkeys(key for table in self.tables for key in table.keys))

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
        trainings = {(key.dataset, key.epochs) for key in self.keys}
        held = [self.which(*training) >= 0 for training in trainings]
        return np.flatnonzero(np.any(held, axis=0))

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


def _check_same_network(retrained: Table) -> None:
    if retrained.skeleton != (16, 5):
        raise InputError(
            f"{retrained.name} trained networks of {retrained.skeleton[0]} channels and "
            f"{retrained.skeleton[1]} cells a stage, not the benchmark's 16 and 5, so published "
            f"values cannot replace missing ones: give the re-trained table only"
        )
