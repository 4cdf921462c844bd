"""The benchmark's original network, built by xautodl, as a reference for `TinyNet`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from cells import Cell, Graph
from rebench.errors import InputError, MissingDependencyError
from rebench.nets.layers import Layer, LayeredNet
from rebench.nets.tiny import tiny_layers

__all__ = ["reference_net"]


def reference_net(
    cell: Cell | int | str, *, channels: int = 16, cells_per_stage: int = 5, classes: int = 10
) -> LayeredNet:
    """Return xautodl's network for `cell`; its call returns only logits, as in `TinyNet`."""
    return _reference_class()(Cell.find(cell), channels, cells_per_stage, classes)


@functools.cache
def _reference_class() -> Callable[[Cell, int, int, int], LayeredNet]:
    try:
        from xautodl.models.cell_infers import TinyNetwork
        from xautodl.models.cell_searchs import CellStructure
    except ImportError as error:
        raise MissingDependencyError(
            f"the benchmark's original network needs xautodl ({error}); install it with: "
            "pip install --no-deps xautodl==1.0.0"
        ) from error
    parse: Callable[[str], Any] = CellStructure.str2structure

    class ReferenceNet(TinyNetwork, LayeredNet):  # type: ignore[misc]  # xautodl is untyped
        def __init__(self, cell: Cell, channels: int, cells_per_stage: int, classes: int) -> None:
            super().__init__(channels, cells_per_stage, parse(str(cell)), classes)
            self.cell = cell
            self._skeleton = (channels, cells_per_stage, classes)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            _, logits = super().forward(images)
            return logits

        def sibling(self, graph: Graph) -> LayeredNet:
            if not isinstance(graph, Cell):
                raise InputError(f"the benchmark's network needs a cell, got {graph}")
            with torch.random.fork_rng(devices=[]):  # PyTorch's init changes the global state
                return ReferenceNet(graph, *self._skeleton)

        def weight_layers(self) -> tuple[Layer, ...]:
            return tiny_layers(self, self.cell)

    return ReferenceNet
