"""Learning rate and init from a graph's paths and in-degrees (Chen et al.).

The learning rate is ``base_lr (sum_p L_p^3)^(-1/2)`` over the paths p from input to output,
relative to the base graph, which is one chain of skips. The kernel sizes of a cell do not matter;
the paper's factor for plain CNNs, ``q_base / q`` with kernel size q, is in `experiments/laws`.
The init is ``N(0, 2 / (d fan_in))`` with an in-degree d, and a mean-field readout.

The paper and its released code leave two choices open:

- `degree`: equation 4 and the code divide by the in-degree of the *source* vertex of a weight, dead
  edges included; the appendix derives the *target* vertex. If vertices sum ``W relu(z)`` (cells of
  NAS-Bench-201 without batch normalisation), target keeps the norm of the signal. If vertices sum
  ``relu(W h)``, source keeps it, up to the mean of the ReLU.
- `depth`: the code uses L = 1 + the convolutions on a path of one cell. Over the whole network, as
  in the equation, the rule spans a factor of 7.8e5 over the cells with a path. For a graph of a
  whole network (`NetworkGraph`), the rule always uses the whole network.

`init_at` restricts the init to the weights before batch normalisation, or to the other weights
(readout, shortcuts). The scale of the former sets an effective rate; the scale of the latter
changes the function. Batch normalisation follows every convolution of a cell. There, the degree
changes only the effective learning rate, lr / std^2, and not the function at init.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

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
from rebench.recipes.init import LayerInit, default_init, degree_init, selects

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["PathSum", "Topology", "TopologyInit", "TopologyLr"]

_PAPER = "Chen et al., Principled Architecture-aware Scaling of Hyperparameters (ICLR 2024)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathSum(Recipe):
    """Learning rate of the rule, for recipes with any init."""

    paper = _PAPER

    base_lr: Positive = DEFAULT_BASE_LR
    depth: Literal["cell", "network"] = "cell"
    cells_per_stage: Count = 5

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the learning rate from the depths of the paths."""
        total, base = self._sums(cell)
        return HyperParameters(learning_rate=self.base_lr * math.sqrt(base / total))

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the depths of the paths, and the sum of their cubes for the cell and the base."""
        total, base = self._sums(cell)
        polynomial, offset = self._depths(cell)
        depths = []
        for depth, count in enumerate(polynomial, start=offset):
            if count:
                depths.append(str(depth) if count == 1 else f"{depth} ({count} times)")
        return {
            "depths of the paths": ", ".join(depths),
            "sum of cubed depths": float(total),
            "sum of the base": float(base),
            "multiplier": math.sqrt(base / total),
            "base lr": self.base_lr,
        }

    def _sums(self, cell: Architecture) -> tuple[int, int]:
        polynomial, offset = self._depths(cell)
        base, _ = self._depths(base_of(cell))
        return moment(polynomial, 3, offset), moment(base, 3, offset)

    def _depths(self, cell: Architecture) -> tuple[Polynomial, int]:
        polynomial = require_path(self.name, cell)
        if isinstance(cell, NetworkGraph):
            if len(polynomial) < 2:
                raise InputError(f"recipe {self.name!r}: {cell.title} has only a readout layer")
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

    name = "topology"
    summary = "lr from the cubed depths of all paths, init from the in-degrees"

    degree: Degree = "source"
    init_at: Literal["all", "normalised", "others"] = "all"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init from the in-degrees; with PyTorch's scale where `init_at` excludes it."""
        require_path(self.name, cell)
        rule = degree_init(layer, cell, self.degree)
        if selects(self.init_at, layer):
            return rule
        return dataclasses.replace(rule, std=default_init(layer).std)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyLr(PathSum):
    """Learning rate of `topology` with the benchmark's init."""

    name = "topology-lr"
    summary = "ablation: the lr of topology with PyTorch's default init"

    init_at: Literal["none", "normalised", "others"] = "none"

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return PyTorch's default, with the scale of `topology` where `init_at` selects it.

        With `init_at=others`, the readout's bias starts at zero, as in `topology`.
        """
        default = default_init(layer)
        if not selects(self.init_at, layer):
            return default
        rule = degree_init(layer, cell, "source")
        if self.init_at == "others":
            return rule
        return dataclasses.replace(default, std=rule.std)


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyInit(Recipe):
    """Init of `topology` with one learning rate for every cell, by default the benchmark's.

    As in `topology-lr`, a cell without a path has no value: ablations compare the same cells.
    """

    name = "topology-init"
    summary = "ablation: the init of topology with a fixed lr"
    paper = _PAPER

    lr: Positive = BENCHMARK_LR
    degree: Degree = "source"

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the fixed learning rate."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.lr)

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init from the in-degrees."""
        require_path(self.name, cell)
        return degree_init(layer, cell, self.degree)
