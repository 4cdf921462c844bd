"""Draw the figure that explains tau, from the table `mini`: ``python docs/figures.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, rankdata

from rebench.report.figures.style import COLOURS, COLUMN_IN, Drawing, new_figure, styled
from rebench.tables.opening import read_rows

CELLS, BEST = 20, 5
ASSETS = Path(__file__).parent / "assets"
BASELINE = ("fixed", 777)
# Title of each panel, and the run in its right column.
PANELS = {
    "Same recipe, two seeds": ("fixed", 888),
    "Two recipes": ("topology", 888),
}
# Kendall's tau of all 60 cells; the drawn cells have nearly the same.
OF_ALL = (0.50, 0.19)


@styled
def draw_tau() -> Drawing:
    """Draw ranks of single runs: two seeds of one recipe, and two recipes."""
    rows = read_rows("mini")
    rows = rows[(rows["split"] == "ori-test") & rows["recipe"].isin(["fixed", "topology"])]
    every = rows.pivot_table(
        index="index", columns=["recipe", "seed"], values="accuracy", observed=True
    )
    for draw in range(1000):
        runs = every.sample(CELLS, random_state=draw)
        shown = [kendalltau(runs[BASELINE], runs[run]).statistic for run in PANELS.values()]
        if np.allclose(shown, OF_ALL, atol=0.01):
            break
    figure, [panels] = new_figure(columns=2, width_in=2 * COLUMN_IN, height_in=3)
    left = rankdata(-runs[BASELINE])
    data = []
    for panel, (title, run), value in zip(panels, PANELS.items(), shown, strict=True):
        right = rankdata(-runs[run])
        best = left <= BEST
        for cells, colour in ((~best, "#9aa3b0"), (best, COLOURS[1])):
            ends = [left[cells], right[cells]]
            panel.plot([0, 1], ends, "o-", color=colour, linewidth=1.8, markersize=5)
        columns = ["\n".join((recipe, f"seed {seed}")) for recipe, seed in (BASELINE, run)]
        panel.set_xticks([0, 1], columns, fontsize=9)
        panel.set_yticks([1, 5, 10, 15, 20])
        panel.tick_params(labelsize=8)
        panel.set_xlim(-0.15, 1.15)
        panel.set_ylim(CELLS + 0.6, 0.4)
        panel.grid(visible=False)
        panel.set_title(f"{title}: tau = {value:.2f}", fontsize=10)
        ranks = {"panel": title, "cell": runs.index, "left": left, "right": right}
        data.append(pd.DataFrame(ranks))
    panels[0].set_ylabel("rank of the network (1 is best)", fontsize=8)
    return figure.with_data(pd.concat(data, ignore_index=True))


if __name__ == "__main__":
    draw_tau().save(ASSETS / "tau", formats=("svg",))
