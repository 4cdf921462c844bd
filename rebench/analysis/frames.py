"""Frames of results that draw themselves; what is made of them is a plain frame again."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from rebench.drawable import Drawable

__all__ = ["TauCurve", "TauMatrix"]


class _Frame(Drawable, pd.DataFrame):
    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def plot(self, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]  # see below
        """Return the figure of this result; with arguments this is pandas' own `plot`."""
        if arguments or options:
            return pd.DataFrame(self).plot(*arguments, **options)
        return super().plot()


class TauCurve(_Frame):
    """What `rank_agreement` finds: a row per K."""

    drawn_by: ClassVar[str] = "rebench.figures.ranking:draw_agreement"


class TauMatrix(_Frame):
    """What `tau_matrix` finds: a row per pair of rankings and K."""

    drawn_by: ClassVar[str] = "rebench.figures.matrix:draw_tau_matrix"
