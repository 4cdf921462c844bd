"""Search spaces by name: those of rebench, then those of other installed packages.

A table, a trial and a run contain the name of their space. A file without a name is of `nb201`.
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from rebench.errors import UnknownNameError
from rebench.extensions import announced
from rebench.spaces.base import Bools, Floats, Ints, Item, Space
from rebench.spaces.items import NamedItems
from rebench.spaces.nb201 import SPACE as NB201

__all__ = [
    "NB201",
    "Bools",
    "Floats",
    "Ints",
    "Item",
    "NamedItems",
    "Space",
    "space_names",
    "space_of",
]

_OURS: Final = ("nb201", "size", "fcnet", "mlp", "macro")


@functools.cache
def space_of(name: str) -> Space:
    """Return the space with a name, except `list`: its items are those of a table."""
    if name in _OURS:
        space: Space = importlib.import_module(f"rebench.spaces.{name}").SPACE
        return space
    others = _of_others()
    if name not in others:
        raise UnknownNameError("search space", name, space_names())
    return others[name]


def space_names() -> list[str]:
    """Return the names of all spaces."""
    return [*_OURS, *_of_others()]


def _of_others() -> dict[str, Space]:
    found = {}
    for space in announced("spaces"):
        if isinstance(space, Space):
            found[space.name] = space
    return found
