"""Learning rate from the exact infinite-width recursion over the graph (`recursion`).

Unlike ``sum L^3``, the recursion adds the updates of parallel paths coherently. E dz^2 is the mean
squared first-order change of the output vertex in one step on one data point. The rule makes it
equal to that of the base graph at `base_lr`. For a chain of L layers the recursion gives
L (2 L^2 + 1) / 6 instead of L^3. With P parallel paths, the rate falls as P^-1 instead of P^-1/2.

In cells, batch normalisation follows every layer: the layer's output has variance 1, and its
update is divided by its init variance. For cells the recursion is an approximation. Data are
independent, a pool is a skip with gain `pool_gain`, and both kernel sizes are equal. As in the
paper's rule, one cell represents the stack. `docs/explanation/recursion.md` derives the rule. On
cells it predicts the effect of one step no better than the paper's rule.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from cells import Cell
from rebench.errors import InputError
from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture, NetworkGraph, base_of, require_path
from rebench.recipes.init import LayerInit, degree_init
from rebench.recipes.recursion import ExactUpdate, Graphs, degree_gains, exact_update

if TYPE_CHECKING:
    from rebench.nets import Layer

__all__ = ["TopologyExact"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopologyExact(Recipe):
    """Learning rate at which the output moves as in the base graph; the init keeps the norm.

    With `degree` "matching", the init uses the in-degree of the target, which keeps the norm.
    """

    name = "topology-exact"
    summary = "lr from the exact infinite-width recursion, norm-keeping init"
    paper = "ours, after Chen et al. (ICLR 2024) and Jelassi et al. (2023)"

    base_lr: Positive = DEFAULT_BASE_LR
    degree: Literal["matching", "source", "target"] = "matching"
    pool_gain: Annotated[float, Field(gt=0, le=1)] = 1.0

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the learning rate from the recursion."""
        require_path(self.name, cell)
        return HyperParameters(learning_rate=self.base_lr * self._multiplier(cell))

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the mean squared updates at learning rate 1, of the cell and of the base graph."""
        require_path(self.name, cell)
        return {
            "E dz^2": float(self._update(cell).updates[0, -1]),
            "E dz^2 of the base": float(self._update(base_of(cell)).updates[0, -1]),
            "multiplier": self._multiplier(cell),
            "base lr": self.base_lr,
        }

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:
        """Return the init by the in-degree that keeps the norm."""
        require_path(self.name, cell)
        return degree_init(layer, cell, "source-live" if self._side == "source" else "target-live")

    @property
    def _side(self) -> Literal["source", "target"]:
        return "target" if self.degree == "matching" else self.degree

    def _multiplier(self, cell: Architecture) -> float:
        rate, base = self._update(cell).learning_rate, self._update(base_of(cell)).learning_rate
        return float(rate[0] / base[0])

    def _update(self, cell: Architecture) -> ExactUpdate:
        return _updated(cell, self._side, self.pool_gain)


@functools.lru_cache(maxsize=256)
def _updated(
    cell: Architecture, side: Literal["source", "target"], pool_gain: float
) -> ExactUpdate:
    graphs = Graphs.of([cell], pool_gain=pool_gain)
    gains = degree_gains(graphs, side)
    if not isinstance(cell, NetworkGraph):
        return exact_update(graphs, gains, batch_norm=isinstance(cell, Cell))
    if cell.joins or cell.normalised is None:
        rule = "all layers normalised, or none, and no concatenations"
        raise InputError(f"recipe 'topology-exact' needs {rule}; choose another for {cell.title}")
    return exact_update(graphs, gains, batch_norm=cell.normalised, stem=False)
