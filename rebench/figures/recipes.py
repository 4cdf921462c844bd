"""Figures of the recipes: the base learning rate's curve, muP's coordinate check."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pandas as pd

from rebench.figures.style import COLOURS, Drawing, key_above, new_figure, series_style, styled
from rebench.theory.base_lr import BaseLearningRate
from rebench.theory.coordinates import Coordinate, width_slopes

__all__ = ["draw_base_lr", "draw_coordinates"]


@styled
def draw_base_lr(found: BaseLearningRate) -> Drawing:
    """Draw the loss over the grid, every seed as a dot, and the rate that was chosen."""
    rows = [
        {"learning_rate": point.learning_rate, "run": run, "loss": loss}
        for point in found.curve
        for run, loss in enumerate(point.losses)
    ]
    table = pd.DataFrame(rows)
    figure, ((axes,),) = new_figure()
    finite = table[table["loss"].map(math.isfinite)]
    axes.scatter(finite["learning_rate"], finite["loss"], s=6, color=COLOURS[0], alpha=0.5)
    means = [
        (point.learning_rate, point.mean) for point in found.curve if math.isfinite(point.mean)
    ]
    axes.plot(*zip(*means, strict=True), marker="o", color=COLOURS[0], label="mean over seeds")
    axes.axhline(found.threshold, color=COLOURS[6], linestyle=":", label="smallest, within noise")
    axes.axvline(found.learning_rate, color=COLOURS[1], linestyle="--", label="chosen")
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("training loss, first epoch")
    highest = finite["loss"].max()
    axes.set_ylim(top=min(_ceiling(means), highest + 0.04 * (highest - finite["loss"].min())))
    key_above(axes)
    return figure.with_data(table)


def _ceiling(means: list[tuple[float, float]]) -> float:
    """Leave out what lies far above the smallest rate's loss: runs that all but diverged."""
    low, first = min(loss for _, loss in means), means[0][1]
    return first + 0.3 * (first - low) + 0.05


@styled
def draw_coordinates(found: Sequence[Coordinate], title: str) -> Drawing:
    """Draw how far each layer's output has moved after the last step, over the width."""
    table = pd.DataFrame([dataclasses.asdict(coordinate) for coordinate in found])
    last = table[table["step"] == table["step"].max()]
    figure, ((axes,),) = new_figure(height_in=2.8)
    for place, (layer, slope) in enumerate(width_slopes(found).items()):
        curve = last[last["layer"] == layer]
        axes.plot(
            curve["width"],
            curve["change"],
            **series_style(place),
            label=f"{layer} ({slope:+.2f})",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    widths = sorted(last["width"].unique())
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.set_xlabel("width")
    axes.set_ylabel("rms change of the output")
    key_above(axes, title=f"{title}: layer (exponent)")
    return figure.with_data(table)
