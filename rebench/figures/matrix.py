"""Heat maps of how rankings agree: tau above the diagonal, tau of seed noise alone below it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rebench.figures.style import new_figure, save_figure, styled

__all__ = ["draw_tau_matrix"]

_CELL_IN = 0.42
_LABELS_IN = 1.6


@styled
def draw_tau_matrix(
    found: pd.DataFrame,
    path: Path,
    *,
    title: str = "",
    formats: tuple[str, ...] = ("pdf", "svg", "png"),
) -> list[Path]:
    """Draw one row per pair (`analysis.matrix.tau_matrix`, one K) as a heat map with its values."""
    names = list(dict.fromkeys([*found["first"], *found["second"]]))
    place = {name: number for number, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for row in found.to_dict("records"):
        one, other = place[row["first"]], place[row["second"]]
        values[one, other] = row["tau"]
        values[other, one] = row.get("null_tau", np.nan)
    size = _LABELS_IN + _CELL_IN * max(len(names), 3)
    figure, [[axes]] = new_figure(width_in=size + 0.5, height_in=size)
    # Equal agreement has one colour in every figure: the scale is tau's own.
    low = min(0.0, float(np.nanmin(values)))
    image = axes.imshow(values, vmin=low, vmax=1, cmap="viridis")
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.grid(visible=False)
    for (row_at, column_at), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(
                column_at,
                row_at,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if value - low < 0.6 * (1 - low) else "black",
            )
    axes.set_title(title)
    axes.set_xlabel("above the diagonal: Kendall's τ;\nbelow: τ by seed noise alone")
    figure.colorbar(image, ax=axes, shrink=0.7)
    return save_figure(figure, path, found, formats=formats)
