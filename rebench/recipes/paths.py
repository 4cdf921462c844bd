"""A baseline: a learning rate from only the number of paths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from rebench.recipes.base import HyperParameters, Positive, Recipe, register
from rebench.recipes.graph import DEFAULT_BASE_LR, Architecture, base_of, require_path

__all__ = ["Paths"]


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths(Recipe):
    """Baseline: the inverse square root of the number of paths, regardless of their depths."""

    name = "paths"
    summary = "baseline: lr from the number of paths only, PyTorch's default init"
    paper = "ours, as a baseline for the rule of Chen et al."

    base_lr: Positive = DEFAULT_BASE_LR

    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return base_lr / sqrt(number of paths / number of paths of the base)."""
        count = self._count(cell) / self._count(base_of(cell))
        return HyperParameters(learning_rate=self.base_lr / math.sqrt(count))

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:
        """Return the number of paths."""
        return {"paths": self._count(cell), "base lr": self.base_lr}

    def _count(self, cell: Architecture) -> int:
        return sum(require_path(self.name, cell))
