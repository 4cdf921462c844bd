"""The network of an item, by its search space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rebench.nets.layers import LayeredNet
from rebench.nets.size import SizeNet
from rebench.nets.tiny import TinyNet
from rebench.spaces import space_of

__all__ = ["network_builder"]

_BUILDERS: Final[Mapping[str, Callable[..., LayeredNet]]] = {"nb201": TinyNet, "size": SizeNet}


def network_builder(space: str) -> Callable[..., LayeredNet]:
    """Return the function of an item that builds its network.

    Its further arguments are `channels`, `cells_per_stage` and `classes`.
    """
    return _BUILDERS.get(space) or space_of(space).network
