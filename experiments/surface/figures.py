"""Figures of a learning-rate surface: accuracy over the rate, drop, regret of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rebench.analysis.tau import Floats
from rebench.report.figures.style import (
    COLOURS,
    MARKERS,
    REFERENCE,
    Drawing,
    key_above,
    label,
    mosaic,
    series_style,
    styled,
)

if TYPE_CHECKING:
    from experiments.surface.answers import SurfaceAnswers

__all__ = ["draw_surface"]

# Points of nearly equal rates are drawn this many octaves apart.
_APART: Final = 0.12
# Recipes have these colours in all panels; the first of the common colours is one rate for all.
_RECIPES: Final = (*COLOURS[1:], "#8C564B")


@styled
def draw_surface(answers: SurfaceAnswers) -> Drawing:
    """Draw the accuracies, the drop of each rate and the regret of each rule."""
    figure, (top, middle, bottom) = mosaic("a", "b", "c", height_in=5.6)
    _draw_cells(top, answers)
    _draw_moves(middle, answers)
    key_above(middle)
    _draw_regrets(bottom, answers.curve, answers.surface.rates, _styles(answers))
    return figure.with_data(_accuracies(answers))


def _accuracies(answers: SurfaceAnswers) -> pd.DataFrame:
    surface = answers.surface
    cells = np.repeat(surface.cells, len(surface.rates))
    rates = np.tile(surface.rates, len(surface.cells))
    values = surface.accuracy.reshape(len(cells), -1)
    by_seed = {f"seed_{seed}": values[:, column] for column, seed in enumerate(surface.seeds)}
    return pd.DataFrame({"cell": cells, "rate": rates} | by_seed)


def _draw_cells(axes: Axes, answers: SurfaceAnswers) -> None:
    surface = answers.surface
    means = surface.means
    axes.plot(surface.rates, means.T, color="#b8bec8", linewidth=0.6, zorder=1)
    best = np.argmax(means, axis=1)
    axes.scatter(
        surface.rates[best], means[np.arange(len(best)), best], s=7, color="#444444", zorder=3,
        label="a cell's best rate",
    )  # fmt: skip
    axes.plot(
        surface.rates, means.mean(axis=0), color=COLOURS[0], label="mean over cells", zorder=2
    )
    _rate_axis(axes, surface.rates, "learning rate")
    axes.set_ylabel("accuracy, %")
    key_above(axes)


def _draw_moves(axes: Axes, answers: SurfaceAnswers) -> None:
    """Draw the drop of tau over the effective learning rate."""
    moves = answers.single_rates
    if moves.empty:
        axes.text(0.5, 0.5, "too few cells or seeds", ha="center", va="center")
        axes.set_axis_off()
        return
    axes.axhline(0, **REFERENCE, label="no drop")
    axes.fill_between(
        moves["rate"], moves["drop_low"], moves["drop_high"], color=COLOURS[0], alpha=0.2,
        linewidth=0,
    )  # fmt: skip
    axes.plot(
        moves["rate"], moves["drop"], **series_style(0), markersize=3, label="one rate for all"
    )
    if len(answers.direct_reranking):
        _draw_trained(axes, answers.direct_reranking, _styles(answers))
    _rate_axis(axes, answers.surface.rates, "effective learning rate")
    axes.set_ylabel("drop: seed tau - tau")


def _styles(answers: SurfaceAnswers) -> dict[str, dict[str, Any]]:
    """Return a style for each recipe: a colour by its name, and a marker by its parameters."""
    variants: dict[str, list[str]] = {}
    for table, column in ((answers.direct_reranking, "recipe"), (answers.curve, "rule")):
        for name in map(str, table[column].unique() if len(table) else ()):
            names = variants.setdefault(name.partition("(")[0], [])
            if name not in names:
                names.append(name)
    variants.pop("constant", None)
    return {
        name: {
            "color": _RECIPES[number % len(_RECIPES)],
            "marker": MARKERS[(1 + number + 3 * variant) % len(MARKERS)],
        }
        for number, names in enumerate(variants.values())
        for variant, name in enumerate(names)
    }


def _draw_trained(axes: Axes, moves: pd.DataFrame, styles: Mapping[str, dict[str, Any]]) -> None:
    whole = moves[moves["top_percent"] == 100].dropna(subset=["effective_rate"])
    drawn: list[float] = []
    for recipe, own in whole.groupby("recipe", sort=False):
        rate, moved = float(own["effective_rate"].iloc[0]), own["drop"].to_numpy()
        beside = sum(abs(np.log2(rate / other)) < _APART for other in drawn)
        drawn.append(rate)
        spread = np.abs(own[["drop_low", "drop_high"]].to_numpy().T - moved)
        axes.errorbar(
            [rate * 2 ** (_APART * beside)], moved, yerr=spread, **styles[str(recipe)],
            linestyle="none", linewidth=1, markersize=4, label=label(recipe),
        )  # fmt: skip


def _draw_regrets(
    axes: Axes, table: pd.DataFrame, rates: Floats, styles: Mapping[str, dict[str, Any]]
) -> None:
    """Draw the regret of rules, compared with one rate for all cells with the same mean rate."""
    constant = table[table["rule"] == "constant"]
    # Far from the best base rate every rule is bad, so differences are not informative.
    known = constant[constant["regret"] <= max(2.0, 3 * constant["regret"].min())]
    axes.axhline(0, **series_style(0) | {"marker": "None"}, linestyle=":", label="constant")
    rules = table[table["rule"] != "constant"]
    for number, (rule, rows) in enumerate(rules.groupby("rule", sort=False), 1):
        near = rows[rows["mean_rate"].between(*known["mean_rate"].agg(["min", "max"]))]
        alone = np.interp(np.log(near["mean_rate"]), np.log(known["mean_rate"]), known["regret"])
        axes.plot(
            near["mean_rate"], near["regret"] - alone, **styles[str(rule)],
            markevery=(2 * number, 16), label=label(rule),
        )  # fmt: skip
    _rate_axis(axes, rates, "mean learning rate")
    axes.set_xlim(0.95 * known["mean_rate"].min(), 1.05 * known["mean_rate"].max())
    axes.set_ylabel("regret over constant")
    key_above(axes)


def _rate_axis(axes: Axes, rates: Floats, name: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(rates[::2], [f"{rate:g}" for rate in rates[::2]])
    axes.set_xlabel(name)
