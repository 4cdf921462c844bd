"""Heat maps of how rankings agree: tau above the diagonal, tau of seed noise alone below it."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd

from rebench.figures.style import Drawing, heat_map, new_figure, styled

__all__ = ["draw_tau_matrix"]

# Of more rankings than this the values do not fit into a column's width: their colours do.
_WRITTEN = 12
_KEY_LETTERS = 64


@styled
def draw_tau_matrix(found: pd.DataFrame, title: str = "") -> Drawing:
    """Draw `analysis.matrix.tau_matrix` at its largest K as a heat map with its values."""
    found = found[found["top_percent"] == found["top_percent"].max()].dropna(subset=["tau"])
    names = list(dict.fromkeys([*found["first"], *found["second"]]))
    place = {name: number for number, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for row in found.to_dict("records"):
        one, other = place[row["first"]], place[row["second"]]
        values[one, other] = row["tau"]
        values[other, one] = row.get("null_tau", np.nan)
    numbered = ",  ".join(f"{place[name] + 1}:\N{NO-BREAK SPACE}{name}" for name in names)
    key = textwrap.wrap(numbered, _KEY_LETTERS, break_long_words=False, break_on_hyphens=False)
    figure, [[axes]] = new_figure(height_in=0.7 + 0.12 * len(key) + 0.21 * max(len(names), 4))
    # Equal agreement has one colour in every figure: the scale is tau's own.
    low = min(0.0, float(np.nanmin(values)))
    written = len(names) <= _WRITTEN
    image = heat_map(axes, values, (low, 1.0), written=written)
    numbers = [str(number + 1) for number in range(len(names))]
    axes.set_xticks(range(len(names)), numbers)
    axes.set_yticks(range(len(names)), numbers)
    if not written:
        figure.colorbar(image, ax=axes)
    axes.set_title(title)
    said = "above the diagonal: Kendall's τ; below: τ by seed noise alone"
    axes.set_xlabel("\n".join([*key, said]))
    return figure.with_data(found)
