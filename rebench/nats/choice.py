"""Which table answers for a cell: the re-trained one, the published one, or one and no other."""

from __future__ import annotations

import functools
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells import SPACE_SIZE
from rebench.errors import InputError, UnknownNameError
from rebench.tables.table import Table

__all__ = ["POLICIES", "Choice", "Policy"]

Policy: TypeAlias = Literal["published-only", "retrained-only", "retrained-or-published"]
POLICIES: Final[tuple[Policy, ...]] = (
    "published-only", "retrained-only", "retrained-or-published"
)  # fmt: skip


class Choice:
    """One or two tables, and for every (cell, data set, epochs) which of them answers.

    Args:
        published: the benchmark's table.
        retrained: a run's table.
        policy: who answers; by default whichever table is given, and of two the re-trained one
            where it has a record and the published one elsewhere.
    """

    def __init__(
        self,
        *,
        published: Table | None = None,
        retrained: Table | None = None,
        policy: Policy | None = None,
    ) -> None:
        if policy is None:
            given = {(True, False): POLICIES[0], (False, True): POLICIES[1]}
            policy = given.get((published is not None, retrained is not None), POLICIES[2])
        if policy not in POLICIES:
            raise UnknownNameError("policy", policy, POLICIES)
        wanted = {"published": published, "retrained": retrained}
        names = policy.removesuffix("-only").split("-or-")
        tables = [(name, wanted[name]) for name in names]
        for name, table in tables:
            if table is None:
                raise InputError(f"the policy {policy!r} needs a {name} table and got none")
        self.policy = policy
        self.tables = tuple(table for _, table in tables if table is not None)
        if retrained is not None and len(self.tables) == 2:
            _check_same_network(retrained)

    @functools.cached_property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs that any table holds."""
        return tuple(sorted({key.epochs for table in self.tables for key in table.keys}))

    @functools.cached_property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that any table holds."""
        return tuple(dict.fromkeys(key.dataset for table in self.tables for key in table.keys))

    @functools.cached_property
    def cells(self) -> NDArray[np.int64]:
        """The cells that any table holds anything of."""
        anything = np.zeros(SPACE_SIZE, dtype=bool)
        for dataset in self.datasets:
            for epochs in self.epochs:
                anything |= self.which(dataset, epochs) >= 0
        return np.flatnonzero(anything)

    @functools.cache  # noqa: B019 - a choice lives as long as the tables it holds
    def which(self, dataset: str, epochs: int) -> NDArray[np.int8]:
        """For every cell the number of the table that answers, -1 where none does."""
        number = np.full(SPACE_SIZE, -1, dtype=np.int8)
        for place in reversed(range(len(self.tables))):
            table = self.tables[place]
            for key in table.keys:
                if (key.dataset, key.epochs) == (dataset, epochs):
                    number[table.group(*key).index] = place
        return number

    def table(self, index: int, dataset: str, epochs: int) -> Table | None:
        """The table that answers for a cell, or None."""
        place = int(self.which(dataset, epochs)[index])
        return self.tables[place] if place >= 0 else None


def _check_same_network(retrained: Table) -> None:
    if retrained.skeleton != (16, 5):
        raise InputError(
            f"{retrained.name} trained networks of {retrained.skeleton[0]} channels and "
            f"{retrained.skeleton[1]} cells a stage, not the benchmark's 16 and 5, so published "
            f"values cannot stand in for missing ones: use the policy 'retrained-only'"
        )
