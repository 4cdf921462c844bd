"""What a learning-rate surface says: the answers of `rates` and `rate_rules` together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pandas as pd

from rebench.analysis.surface import Surface
from rebench.drawable import Drawable

__all__ = ["SurfaceAnswers"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurfaceAnswers(Drawable):
    """What a surface says; a frame is empty where the surface is too small to answer."""

    surface: Surface
    is_regression: bool
    """Whether accuracies are predicted, from configurations that have a rate each of their own."""
    rates: pd.DataFrame
    """A row per rate: `rate`, `accuracy` (mean over cells), `best_for` (how many cells), `tau`
    (between single seeds) and `seed_sd`."""
    edges: pd.DataFrame
    gains: pd.DataFrame
    single_rates: pd.DataFrame
    reranking: pd.DataFrame
    regrets: pd.DataFrame
    curve: pd.DataFrame
    predictions: pd.DataFrame
    picks: pd.DataFrame
    fits: pd.DataFrame
    direct: pd.DataFrame
    direct_reranking: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Every answer that is a table, by its name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: one for name, one in values.items() if isinstance(one, pd.DataFrame)}
