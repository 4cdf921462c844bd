"""NAS-Bench-Macro (Su et al., CVPR 2021): one of three blocks in each of eight layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from rebench.spaces.base import Ints
from rebench.spaces.grid import Grid

__all__ = ["SPACE", "Macro"]

# The layers of each stage after its first layer. Identity there leaves the network unchanged; as
# the first layer of a stage it is a convolution, because it changes the shape.
_AFTER_FIRST = ((1,), (3, 4), (6, 7))
_IDENTITY = 0


class Macro(Grid):
    """6,561 networks; a label has a digit a layer: 0 identity, 1 and 2 inverted bottlenecks."""

    name = "macro"
    item = "network"
    separator = ""
    values: ClassVar[Mapping[str, Sequence[object]]] = dict.fromkeys(
        [f"layer_{layer}" for layer in range(1, 9)], (0, 1, 2)
    )

    def equal_networks(self, indices: Ints) -> Ints:
        """Return a number for each network: the place of an identity in a stage does not count.

        The published table has the same accuracies for all networks of a class (3,969 classes).
        """
        chosen = self.choices(indices)
        for layers in _AFTER_FIRST:
            own = chosen[:, layers]
            last = np.argsort(own == _IDENTITY, axis=1, kind="stable")
            chosen[:, layers] = np.take_along_axis(own, last, axis=1)
        return np.ravel_multi_index(tuple(chosen.T), self.levels)


SPACE = Macro()
