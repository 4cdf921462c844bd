"""The learning rate and init that follow from a graph's paths and in-degrees (Chen et al.).

Learning rate: ``base_lr (sum_p L_p^3)^(-1/2)`` over the paths p from input to output, relative to
the base graph, whose only path is a chain of skips. The kernels of a cell are its own: what the
rule says of plain CNNs, ``q_base / q`` with q the kernel's size, is in `experiments/laws`. Init:
``N(0, 2 / (d fan_in))`` with d an in-degree; a mean-field readout.

What the paper and its released code leave open is an option here:

- `degree`: equation 4 and the code divide by the in-degree of a weight's *source* vertex, dead
  edges counted; the appendix derives that of its *target*. Where vertices sum ``W relu(z)``
  (as in NAS-Bench-201's cells, were there no batch normalisation) target keeps the signal's norm;
  where they sum ``relu(W h)``, source keeps it, up to the mean of the ReLU.
- `depth`: the code takes L = 1 + the convolutions on a path of one cell. Taken over the whole
  network, as the equation reads, the rule spans a factor of 7.8e5 over the 15,625 cells. The graph
  of a network that is no cell's (`NetworkGraph`) is always taken whole.

`init_at` splits the init in two: the weights that batch normalisation follows, whose size is a
rate, and the others (readout, shortcuts), whose size is one of the function.

Every convolution of a cell is followed by batch normalisation: there the degree changes nothing
in the function at init, only the effective learning rate, lr / std^2 for a scale-invariant weight.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from cells import Cell, moment
from cells.paths import Polynomial
from rebench.errors import InputError
from rebench.recipes.base import Count, HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import (
    BENCHMARK_LR,
    DEFAULT_BASE_LR,
    Architecture,
    Degree,
    NetworkGraph,
    base_of,
    require_path,
)
from rebench.recipes.init import LayerInit, default_init, degree_init

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["PathSum", "Topology", "TopologyInit", "TopologyLr"]

_PAPER = "Chen et al., Principled Architecture-aware Scaling of Hyperparameters (ICLR 2024)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathSum(Recipe):
    """The learning rate of the rule, for recipes with any init."""

    paper: ClassVar[str] = _PAPER

    base_lr: Positive = DEFAULT_BASE_LR
    depth: Literal["cell", "network"] = "cell"
    cells_per_stage: Count = 5

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the learning rate that the depths of the paths give."""
        total, base = self._sums(cell)
        return HyperParameters(learning_rate=self.base_lr * math.sqrt(base / total))

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
            "base lr": self.base_lr,
        }

    def _sums(self, cell: Architecture) -> tuple[int, int]:
        (polynomial, offset), (base, _) = self._depths(cell), self._depths(base_of(cell))
        return moment(polynomial, 3, offset), moment(base, 3, offset)

    def _depths(self, cell: Architecture) -> tuple[Polynomial, int]:
        polynomial = require_path(self.name, cell)
        if isinstance(cell, NetworkGraph):
            if len(polynomial) < 2:
                raise InputError(f"recipe {self.name!r}: {cell.title} has no layer but its readout")
            return polynomial, 0
        if self.depth == "cell":
            return polynomial, 1
        if not isinstance(cell, Cell):
            raise InputError(f"recipe {self.name!r}: depth must be 'cell' for graph {cell}")
        return cell.network_polynomial(self.cells_per_stage), 0


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology(PathSum):
    """The paper's rule: learning rate from the paths, init from the in-degrees."""

    name: ClassVar[str] = "topology"
    summary: ClassVar[str] = "lr from the cubed depths of all paths, init from the in-degrees"

    degree: Degree = "source"
    init_at: Literal["all", "normalised", "others"] = "all"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """The init that the in-degrees give, at PyTorch's size where `init_at` leaves it out."""
        require_path(self.name, cell)
        rule = degree_init(layer, cell, self.degree)
        if self.init_at == "all" or layer.followed_by_norm == (self.init_at == "normalised"):
            return rule
        return dataclasses.replace(rule, std=default_init(layer).std)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyLr(PathSum):
    """The learning rate of `topology` with the benchmark's init."""

    name: ClassVar[str] = "topology-lr"
    summary: ClassVar[str] = "the lr of topology with PyTorch's default init (ablation)"

    init_at: Literal["none", "normalised", "others"] = "none"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """PyTorch's default; of the size that `topology` gives where `init_at` says so.

        What no normalisation follows takes the rule whole: its readout has no bias at init.
        """
        default = default_init(layer)
        if self.init_at == "none" or layer.followed_by_norm != (self.init_at == "normalised"):
            return default
        rule = degree_init(layer, cell, "source")
        if self.init_at == "others":
            return rule
        return dataclasses.replace(default, std=rule.std)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyInit(Recipe):
    """The init of `topology` with one learning rate for every cell, the benchmark's by default.

    It has no value without a path, as the other half, so that an ablation compares equal sets.
    """

    name: ClassVar[str] = "topology-init"
    summary: ClassVar[str] = "the init of topology with a fixed lr (ablation)"
    paper: ClassVar[str] = _PAPER

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
