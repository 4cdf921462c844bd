"""The figure of a learning-rate surface: accuracy over the rate, re-ranking, regret of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rebench.analysis.concordance import Floats
from rebench.figures.style import COLOURS, Drawing, key_above, mosaic, series_style, styled

if TYPE_CHECKING:
    from rebench.report.surface import SurfaceAnswers

__all__ = ["draw_surface"]


@styled
def draw_surface(answers: SurfaceAnswers) -> Drawing:
    """Draw the surface, how far it re-ranks, and how far each rule falls short."""
    figure, (top, middle, bottom) = mosaic("a", "b", "c", height_in=5.6)
    _draw_cells(top, answers)
    _draw_moves(middle, answers)
    _draw_regrets(bottom, answers.curve, answers.surface.rates)
    return figure.with_data(_accuracies(answers))


def _accuracies(answers: SurfaceAnswers) -> pd.DataFrame:
    found = answers.surface
    cells, rates = np.repeat(found.cells, len(found.rates)), np.tile(found.rates, len(found.cells))
    values = found.accuracy.reshape(len(cells), -1)
    by_seed = {f"seed_{seed}": values[:, place] for place, seed in enumerate(found.seeds)}
    return pd.DataFrame({"cell": cells, "rate": rates} | by_seed)


def _draw_cells(axes: Axes, answers: SurfaceAnswers) -> None:
    found = answers.surface
    means = found.accuracy.mean(axis=2)
    axes.plot(found.rates, means.T, color="#b8bec8", linewidth=0.6, zorder=1)
    best = np.argmax(means, axis=1)
    axes.scatter(
        found.rates[best], means[np.arange(len(best)), best], s=9, color=COLOURS[1], zorder=3,
        label="a cell's best rate",
    )  # fmt: skip
    axes.plot(found.rates, means.mean(axis=0), color=COLOURS[0], label="mean over cells", zorder=2)
    _rate_axis(axes, found.rates, "learning rate")
    axes.set_ylabel("accuracy, %")
    key_above(axes)


def _draw_moves(axes: Axes, answers: SurfaceAnswers) -> None:
    """Draw how far rankings move beyond noise, over the rate at which the networks learn."""
    moves = answers.single_rates
    if moves.empty:
        axes.text(0.5, 0.5, "too few cells or seeds", ha="center", va="center")
        axes.set_axis_off()
        return
    axes.axhline(0, color="#777777", linewidth=0.8, linestyle="--", label="seeds alone", zorder=1)
    axes.fill_between(
        moves["rate"], moves["reranked_low"], moves["reranked_high"], color=COLOURS[0], alpha=0.2,
        linewidth=0,
    )  # fmt: skip
    axes.plot(
        moves["rate"], moves["reranked"], **series_style(0), markersize=3, label="one rate for all"
    )
    if len(answers.direct_reranking):
        _draw_trained(axes, answers.direct_reranking)
    _rate_axis(axes, answers.surface.rates, "effective learning rate")
    axes.set_ylabel("tau lost beyond noise")
    key_above(axes)


def _draw_trained(axes: Axes, moves: pd.DataFrame) -> None:
    whole = moves[moves["top_percent"] == 100].dropna(subset=["effective_rate"])
    for place, (label, one) in enumerate(whole.groupby("recipe", sort=False), 1):
        moved = one["reranked"].to_numpy()
        spread = np.abs(one[["reranked_low", "reranked_high"]].to_numpy().T - moved)
        axes.errorbar(
            one["effective_rate"], moved, yerr=spread, **series_style(place), linestyle="none",
            linewidth=1, markersize=4, label=str(label),
        )  # fmt: skip


def _draw_regrets(axes: Axes, table: pd.DataFrame, rates: Floats) -> None:
    for place, (rule, rows) in enumerate(table.groupby("rule", sort=False)):
        axes.plot(
            rows["mean_rate"], rows["regret"], **series_style(place), markevery=(2 * place, 16),
            label=str(rule),
        )  # fmt: skip
    # Far from the best base every rule is bad: what tells them apart lies near the floor.
    lowest = float(table["regret"].min())
    ceiling = max(4.0, 3 * lowest)
    axes.set_ylim(min(0.0, lowest) - 0.1, ceiling)
    shown = table.loc[table["regret"] <= ceiling, "mean_rate"]
    _rate_axis(axes, rates, "mean learning rate")
    axes.set_xlim(0.95 * shown.min(), 1.05 * shown.max())
    axes.set_ylabel("regret, points")
    key_above(axes)


def _rate_axis(axes: Axes, rates: Floats, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(rates[::2], [f"{rate:g}" for rate in rates[::2]])
    axes.set_xlabel(label)
