"""The search space at a glance: multipliers by path count, and cell level against network level."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cells import Network, Space
from rebench.figures.style import COLOURS, Drawing, mosaic, series_style, styled

__all__ = ["draw_space"]


@styled
def draw_space(space: Space, network: Network) -> Drawing:
    """Draw where the learning-rate multipliers of the space lie."""
    data = pd.DataFrame(
        {
            "n_paths": space.n_paths,
            "cell_multiplier": space.lr_multiplier,
            "network_multiplier": network.lr_multiplier,
        }
    ).dropna()
    distinct = data.value_counts().rename("cells").reset_index()
    figure, (left, right) = mosaic("ab", height_in=2.0)
    bins = np.geomspace(data["cell_multiplier"].min() * 0.97, 1.03, 25).tolist()
    by_count = [data.loc[data["n_paths"] == count, "cell_multiplier"] for count in range(1, 5)]
    names = ["1 path", *(f"{count} paths" for count in range(2, 5))]
    left.hist(by_count, bins=bins, stacked=True, label=names, color=list(COLOURS[:4]))
    left.set(xscale="log", xlabel="multiplier, cell level", ylabel="cells")
    for count in range(1, 5):
        chosen = distinct[distinct["n_paths"] == count]
        right.plot(
            chosen["cell_multiplier"],
            chosen["network_multiplier"],
            **series_style(count - 1),
            linestyle="none",
            label=names[count - 1],
        )
    right.set(xscale="log", yscale="log")
    right.set(xlabel="multiplier, cell level", ylabel="multiplier, whole network")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure.with_data(distinct)
