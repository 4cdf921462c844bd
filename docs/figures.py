"""Draw the figure of the page on the analysis from the table `mini`: ``python docs/figures.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, rankdata

from rebench.report.figures.style import COLOURS, COLUMN_IN, Drawing, new_figure, styled
from rebench.tables.opening import read_rows

CELLS = 16
ASSETS = Path(__file__).parent / "assets"
PAIRS = {
    "seed tau": (("fixed", 777), ("fixed", 888)),
    "tau": (("fixed", 777), ("topology", 888)),
}


@styled
def draw_tau() -> Drawing:
    """Draw ranks of single runs: two seeds of one recipe, and two recipes."""
    rows = read_rows("mini")
    rows = rows[(rows["split"] == "ori-test") & rows["recipe"].isin(["fixed", "topology"])]
    every = rows.pivot_table(
        index="index", columns=["recipe", "seed"], values="accuracy", observed=True
    )
    # Cells whose two values are close to those of all 60 cells.
    for draw in range(1000):
        runs = every.sample(CELLS, random_state=draw)
        shown = [kendalltau(runs[left], runs[right]).statistic for left, right in PAIRS.values()]
        if np.allclose(shown, (0.50, 0.19), atol=0.02):
            break
    figure, [panels] = new_figure(columns=2, width_in=2 * COLUMN_IN, height_in=3.2)
    data = []
    for panel, (name, pair), value in zip(panels, PAIRS.items(), shown, strict=True):
        ranks = np.array([rankdata(-runs[run]) for run in pair])
        panel.plot([0, 1], ranks, "o-", color=COLOURS[0], alpha=0.75)
        panel.set_xticks([0, 1], [f"{recipe}\nseed {seed}" for recipe, seed in pair])
        panel.set_xlim(-0.25, 1.25)
        panel.invert_yaxis()
        panel.set(ylabel="rank of the cell (1 is best)", title=f"{name} = {value:.2f}")
        left, right = ranks
        data.append(pd.DataFrame({"panel": name, "cell": runs.index, "left": left, "right": right}))
    return figure.with_data(pd.concat(data, ignore_index=True))


if __name__ == "__main__":
    draw_tau().save(ASSETS / "tau", formats=("svg",))
