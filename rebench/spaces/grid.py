"""Spaces that are all combinations of some choices, in a fixed order (the last choice fastest)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rebench.errors import InputError
from rebench.printable import shown
from rebench.spaces.base import Ints, Space

__all__ = ["Grid"]


class Grid(Space):
    """All combinations of choices. A label has the value of each choice, joined by `separator`.

    Attributes:
        values: the name of each choice, and its values in order.
    """

    values: ClassVar[Mapping[str, Sequence[object]]]
    separator: ClassVar[str] = "-"

    @property
    def levels(self) -> tuple[int, ...]:  # type: ignore[override]  # computed
        """The number of values of each choice."""
        return tuple(len(values) for values in self.values.values())

    @property
    def size(self) -> int:
        """Number of combinations."""
        return int(np.prod(self.levels))

    def choices(self, indices: Ints) -> Ints:
        """Return the position of each choice's value, [items, choices]."""
        return np.stack(np.unravel_index(indices, self.levels), axis=1)

    def label(self, index: int) -> str:
        """Return the values of an item's choices, such as ``2-64``."""
        return self.separator.join(map(str, self.values_of(index)))

    def values_of(self, index: int) -> list[Any]:
        """Return the value of each choice of an item."""
        chosen = self.choices(np.array([index]))[0]
        return [values[place] for values, place in zip(self.values.values(), chosen, strict=True)]

    def find(self, name: Any) -> int:
        """Return the index of an item, given by its index or its label."""
        text = str(name).strip()
        if text.isascii() and text.isdigit() and not self._is_label(text):
            index = int(text)
            if index < self.size:
                return index
        elif self._is_label(text):
            return self._of_label(text)
        raise InputError(
            f"not a {self.item} of {self.name}: got {shown(name)}, expected an index from 0 to "
            f"{self.size - 1} or a label such as {self.label(0)}"
        )

    def _words(self, text: str) -> list[str]:
        return text.split(self.separator) if self.separator else list(text)

    def _is_label(self, text: str) -> bool:
        words = self._words(text)
        if len(words) != len(self.values):
            return False
        known = zip(self.values.values(), words, strict=True)
        return all(word in map(str, values) for values, word in known)

    def _of_label(self, text: str) -> int:
        places = []
        for values, word in zip(self.values.values(), self._words(text), strict=True):
            places.append(list(map(str, values)).index(word))
        return int(np.ravel_multi_index(places, self.levels))
