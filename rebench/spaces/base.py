"""A search space: networks with numbers, names and, where it knows them, more.

Tables, comparisons and searches know a space only by this class. A space of another package is
found by an entry point::

    [project.entry-points."rebench.spaces"]
    mine = "my_package.my_space:SPACE"
"""

from __future__ import annotations

import abc
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.data import DataSpec

__all__ = ["Bools", "Floats", "Ints", "Item", "Space"]

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class Space(abc.ABC):
    """A set of networks. An item is one of them; its index is a number from 0.

    A space must have `name`, `size`, `label` and `find`. The other methods have a default, or
    say that the space lacks it.

    Attributes:
        name: the name of the space, which its tables, trials and runs contain.
        item: the word that its users have for an item; `items` is the plural.
        levels: the number of values of each choice that makes an item. An empty tuple means that
            items are names without choices; then they have no neighbours and no features.
    """

    name: ClassVar[str]
    item: ClassVar[str] = "item"
    levels: tuple[int, ...] = ()

    @property
    def items(self) -> str:
        """The plural of `item`."""
        return f"{self.item}s"

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of items."""

    @abc.abstractmethod
    def label(self, index: int) -> str:
        """Return the text that a person types and reads for an item."""

    @abc.abstractmethod
    def find(self, name: Any) -> int:
        """Return the index of an item, given by its index or its label."""

    def arch(self, index: int) -> str:
        """Return the text of an item in records and tables."""
        return self.label(index)

    def item_of(self, name: Any) -> Any:
        """Return an item as an object with `index`, `title` and a text, for a trial."""
        return name if isinstance(name, Item) else Item(self, self.find(name))

    def title(self, index: int) -> str:
        """Return the name of an item in messages."""
        return f"{self.item} {self.label(index)}"

    def worded(self, text: str) -> str:
        """Return a text about cells with this space's word for them."""
        return re.sub(r"\bcell(s?)\b", rf"{self.item}\1", text)

    def equal_networks(self, indices: Ints) -> Ints:
        """Return a number for each item; items with equal numbers are the same network."""
        return indices

    def learns(self, indices: Ints) -> Bools:
        """Return whether each network depends on its input, so that training has an effect."""
        return np.ones(len(indices), dtype=bool)

    def published_classes(self) -> Ints:
        """Return a number for each item: its class in the publication of the benchmark."""
        return self.equal_networks(np.arange(self.size))

    def rate_factors(self) -> Floats:
        """Return the factor of each item's learning rate under the recipe `topology`."""
        raise self.lacks("graphs, so its items have no rule for their learning rate")

    def statistics(self, indices: Ints, data: DataSpec) -> dict[str, Floats]:
        """Return scores that need no training, by name; by default the costs, if known."""
        params_m, mflops = self.cost(indices, data)
        if np.isnan(params_m).any():
            return {}
        return {"params": params_m, "flops": mflops}

    def picture(self, index: int) -> list[str]:  # noqa: ARG002 - a default
        """Return the parts of an SVG picture of an item; an empty list if it has no picture."""
        return []

    def choices(self, indices: Ints) -> Ints:  # noqa: ARG002 - a default
        """Return the choices of items, [items, choices]; each is a number below its level."""
        raise self.lacks("choices")

    def features(self, indices: Ints) -> Floats:
        """Return numbers that describe items for a predictor: here, indicators of the choices."""
        chosen = self.choices(indices)
        columns = []
        for place, count in enumerate(self.levels):
            columns.append(np.eye(count)[chosen[:, place]])
        return np.hstack(columns)

    def graph(self, index: int) -> Any:  # noqa: ARG002 - a default
        """Return the graph of an item, from which recipes compute a learning rate."""
        raise self.lacks("graphs, so no recipe can compute its learning rates")

    def work(
        self,
        index: int,  # noqa: ARG002 - a default
        data: DataSpec,  # noqa: ARG002 - a default
        skeleton: tuple[int, int],  # noqa: ARG002 - a default
    ) -> tuple[float, int]:
        """Return millions of multiply-adds for an image, and the number of layers."""
        raise self.lacks("networks that can be trained")

    def network(
        self,
        item: Item,  # noqa: ARG002 - a default
        *,
        channels: int,  # noqa: ARG002 - a default
        cells_per_stage: int,  # noqa: ARG002 - a default
        classes: int,  # noqa: ARG002 - a default
    ) -> Any:
        """Return the network of an item: a `rebench.nets.LayeredNet`."""
        raise self.lacks("networks that can be trained")

    def cost(
        self,
        indices: Ints,
        data: DataSpec,  # noqa: ARG002 - a default
        skeleton: tuple[int, int] = (16, 5),  # noqa: ARG002 - a default
    ) -> tuple[Floats, Floats]:
        """Return millions of parameters and of multiply-adds; NaN where they are not known."""
        unknown = np.full(len(indices), np.nan)
        return unknown, unknown

    def lacks(self, what: str) -> InputError:
        """Return an error for something that this space does not have."""
        return InputError(f"the space {self.name!r} has no {what}")


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a space, by its index."""

    space: Space
    index: int

    @property
    def title(self) -> str:
        """Name in messages."""
        return self.space.title(self.index)

    def __str__(self) -> str:
        """Return the text of the item in records."""
        return self.space.arch(self.index)
