"""A pickle as an inert tree: what it would call is written down, and nothing is called.

Names become `Name`, calls `Call`, dicts `Pairs`: no module is imported, no function called, no key
hashed, so that a crafted file can do no more than be refused by whoever looks at the tree. Whoever
does so compares types first and never whole trees, which may contain themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call", "Name", "Pairs"]


@dataclass(frozen=True, slots=True)
class Name:
    """A function or class that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        """Return it as messages show it."""
        return f"{self.module}.{self.name}"[:80]


@dataclass(slots=True, eq=False, repr=False)
class Call:
    """A call that a pickle would make, and the state it would set afterwards."""

    function: Any
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(slots=True, eq=False, repr=False)
class Pairs:
    """A dict that was not built: its keys and values as they came."""

    keys: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """Return the value of a key that is text, or None."""
        for key, value in zip(self.keys, self.values, strict=True):
            if type(key) is str and key == name:
                return value
        return None
