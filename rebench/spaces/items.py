"""The space ``list``: items that are only names, such as the rows of any leaderboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from rebench.errors import InputError
from rebench.printable import shown
from rebench.spaces.base import Space

__all__ = ["NamedItems"]


class NamedItems(Space):
    """Items of one table, by name. Tables with other items have other indices, but equal labels."""

    name = "list"

    def __init__(self, labels: Iterable[str]) -> None:
        self._labels = sorted(set(labels))
        self._index = {label: index for index, label in enumerate(self._labels)}

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self._labels)

    def label(self, index: int) -> str:
        """Return the name of an item."""
        return self._labels[index]

    def find(self, name: Any) -> int:
        """Return the index of an item, given by its name or its index."""
        index = self._index.get(str(name))
        if index is not None:
            return index
        if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < self.size:
            return name
        near = difflib.get_close_matches(str(name), self._labels, n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else f"such as {self._labels[0]}"
        raise InputError(f"no item is called {shown(name)}: give the name of an item; {meant}")
