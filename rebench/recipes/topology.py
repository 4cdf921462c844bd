"""The learning rate and init that follow from a graph's paths and in-degrees (Chen et al.).

Learning rate: ``base_lr (sum_p L_p^3)^(-1/2)`` over the paths p from input to output, relative to
the base graph, whose only path is a chain of skips; for plain CNNs times ``q_base / q`` with q the
kernel size. Init: ``N(0, 2 / (d fan_in))`` with d an in-degree; a mean-field readout.

What the paper and its released code leave open is an option here:

- `degree`: equation 4 and the code divide by the in-degree of a weight's *source* vertex, dead
  edges counted; the appendix derives that of its *target*. Where vertices sum ``W relu(z)``
  (as in NAS-Bench-201's cells, were there no batch normalisation) target keeps the signal's norm;
  where they sum ``relu(W h)``, source keeps it, up to the mean of the ReLU.
- `depth`: the code takes L = 1 + the convolutions on a path of one cell. Taken over the whole
  network, as the equation reads, the rule spans a factor of 7.8e5 over the 15,625 cells.
- `kernel_measure`: the code uses the length of a 2-D kernel; the theory's q is its area.

Every convolution of a cell is followed by batch normalisation: there the degree changes nothing
in the function at init, only the effective learning rate, lr / std^2 for a scale-invariant weight.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from cells import EDGES, Cell, depth_polynomial, edge_degrees, moment, network_polynomial
from cells.paths import Polynomial
from rebench.errors import InputError
from rebench.recipes.base import (
    BASE_CODE,
    DEFAULT_BASE_LR,
    Architecture,
    Count,
    HyperParameters,
    LayerInit,
    NoPathError,
    Positive,
    Recipe,
    register,
)
from rebench.recipes.fixed import BENCHMARK_LR
from rebench.recipes.init import default_init, he_init, mean_field_readout

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = [
    "Degree",
    "Paths",
    "Topology",
    "TopologyInit",
    "TopologyLr",
    "cell_polynomial",
    "degree_init",
    "edge_degree",
    "require_path",
]

PAPER = "Chen et al., Principled Architecture-aware Scaling of Hyperparameters (ICLR 2024)"

Degree: TypeAlias = Literal["source", "target", "source-live", "target-live"]


def cell_polynomial(cell: Architecture) -> Polynomial:
    """Return how many paths have 0, 1, 2, ... convolutions or layers; empty without a path."""
    return depth_polynomial(cell) if isinstance(cell, Cell) else cell.depth_polynomial()


def require_path(recipe: str, cell: Architecture) -> Polynomial:
    """Return `cell`'s depth polynomial; raise `NoPathError` where it has no path."""
    polynomial = cell_polynomial(cell)
    if not polynomial:
        raise NoPathError(recipe, cell)
    return polynomial


def edge_degree(cell: Architecture, edge: tuple[int, int], degree: Degree) -> int:
    """Return the in-degree that the init of an edge (target, source) divides by.

    Vertex 0, which the stem feeds, has in-degree 1. An edge with a dead source can have 0.
    """
    target, source = edge
    vertices = 4 if isinstance(cell, Cell) else cell.n_vertices
    if not 0 <= source < target < vertices:
        raise InputError(
            f"edge must be (target, source) with 0 <= source < target < {vertices}, got {edge}"
        )
    convention, _, live = degree.partition("-")
    if isinstance(cell, Cell):
        kind: Literal["source", "target"] = "source" if convention == "source" else "target"
        return edge_degrees(cell, kind, live=bool(live))[EDGES.index(edge)]
    degrees = (1, *cell.in_degrees(live=bool(live)))
    return degrees[source if convention == "source" else target]


def degree_init(layer: Layer, cell: Architecture, degree: Degree) -> LayerInit:
    """Return N(0, 2 / (d fan_in)) for a layer of any role but the readout, which is mean-field.

    The two branches of a reduction block add up, so each has degree 2: at its first convolution
    under `source` (the released code), at its last under `target` (the appendix).
    """
    if layer.role == "readout":
        return mean_field_readout(layer)
    if layer.role == "edge":
        assert layer.edge is not None, "a layer with the role edge names its edge"
        return he_init(layer, edge_degree(cell, layer.edge, degree))
    if layer.role == "reduction":
        first = ".conv_a." in layer.name
        return he_init(layer, 2 if first == degree.startswith("source") else 1)
    return he_init(layer, 2 if layer.role == "shortcut" else 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PathSum(Recipe):
    """The learning rate of the rule."""

    paper: ClassVar[str] = PAPER

    base_lr: Positive = DEFAULT_BASE_LR
    depth: Literal["cell", "network"] = "cell"
    cells_per_stage: Count = 5
    kernel_size: Count = 3
    base_kernel_size: Count = 3
    kernel_measure: Literal["length", "area"] = "length"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the learning rate that the depths of the paths give."""
        total, base = self._sums(cell)
        kernel = self._kernel_factor(cell)
        return HyperParameters(learning_rate=self.base_lr * math.sqrt(base / total) * kernel)

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the depths of the paths, their cubed sum and the base's."""
        total, base = self._sums(cell)
        polynomial, offset = self._depths(cell)
        depths = (
            f"{depth + offset}" if n == 1 else f"{depth + offset} ({n} times)"
            for depth, n in enumerate(polynomial)
            if n
        )
        return {
            "depths of the paths": ", ".join(depths),
            "sum of cubed depths": float(total),
            "sum of the base": float(base),
            "multiplier": math.sqrt(base / total),
            "kernel factor": self._kernel_factor(cell),
            "base lr": self.base_lr,
        }

    def _sums(self, cell: Architecture) -> tuple[int, int]:
        polynomial, offset = self._depths(cell)
        if self.depth == "cell":
            return moment(polynomial, 3, offset), offset**3
        base, offset = self._depths(Cell.parse(BASE_CODE))
        return moment(polynomial, 3, offset), moment(base, 3, offset)

    def _depths(self, cell: Architecture) -> tuple[Polynomial, int]:
        polynomial = require_path(self.name, cell)
        if self.depth == "cell":
            return polynomial, 1
        if not isinstance(cell, Cell):
            raise InputError(f"recipe {self.name!r}: depth must be 'cell' for graph {cell}")
        return network_polynomial(cell, self.cells_per_stage), 0

    def _kernel_factor(self, cell: Architecture) -> float:
        if isinstance(cell, Cell) and self.kernel_size != self.base_kernel_size:
            raise InputError(
                f"recipe {self.name!r}: kernel_size is that of a plain CNN, the kernels of a "
                f"cell are its own: it must be base_kernel_size, {self.base_kernel_size}, got "
                f"{self.kernel_size}"
            )
        power = 1 if self.kernel_measure == "length" else 2
        return (self.base_kernel_size / self.kernel_size) ** power


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology(_PathSum):
    """The paper's rule: learning rate from the paths, init from the in-degrees."""

    name: ClassVar[str] = "topology"
    summary: ClassVar[str] = "lr from the cubed depths of all paths, init from the in-degrees"

    degree: Degree = "source"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init that the in-degrees give."""
        require_path(self.name, cell)
        return degree_init(layer, cell, self.degree)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyLr(_PathSum):
    """The learning rate of `topology` with the benchmark's init."""

    name: ClassVar[str] = "topology-lr"
    summary: ClassVar[str] = "the lr of topology with PyTorch's default init (ablation)"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - the same for all
        """Return PyTorch's default."""
        return default_init(layer)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyInit(Recipe):
    """The init of `topology` with one learning rate for every cell, the benchmark's by default.

    It has no value without a path, as the other half, so that an ablation compares equal sets.
    """

    name: ClassVar[str] = "topology-init"
    summary: ClassVar[str] = "the init of topology with a fixed lr (ablation)"
    paper: ClassVar[str] = PAPER

    lr: Positive = BENCHMARK_LR
    degree: Degree = "source"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the fixed learning rate."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init that the in-degrees give."""
        require_path(self.name, cell)
        return degree_init(layer, cell, self.degree)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths(Recipe):
    """The baseline: the inverse square root of the number of paths, whatever their depths."""

    name: ClassVar[str] = "paths"
    summary: ClassVar[str] = "lr from the number of paths alone, PyTorch's default init (baseline)"
    paper: ClassVar[str] = "a baseline of ours for the rule of Chen et al."

    base_lr: Positive = DEFAULT_BASE_LR

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return base_lr / sqrt(number of paths)."""
        return HyperParameters(learning_rate=self.base_lr / math.sqrt(self._count(cell)))

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - the same for all
        """Return PyTorch's default."""
        return default_init(layer)

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the number of paths."""
        return {"paths": self._count(cell), "base lr": self.base_lr}

    def _count(self, cell: Architecture) -> int:
        return sum(require_path(self.name, cell))
