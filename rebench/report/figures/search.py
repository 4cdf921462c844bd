"""Figures of NAS algorithms compared: regret over time, final accuracy, ranks, old against new."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from rebench.report.figures.style import (
    COLOURS,
    DATASET_NAMES,
    Drawing,
    key_above,
    mosaic,
    new_figure,
    series_style,
    styled,
)
from rebench.search.comparison import Comparison, Ranks

__all__ = ["agreement_figure", "anytime_figure", "cliques", "ranks_figure", "save_comparison"]


@styled
def anytime_figure(results: Comparison | Sequence[Comparison]) -> Drawing:
    """Draw mean regret against what was spent, with its 95 % interval; a panel a table."""
    compared = _listed(results)
    figure, panels = _stacked(len(compared), height_in=2.4)
    frames = []
    for axes, result in zip(panels, compared, strict=True):
        curves = result.anytime()
        frames.append(curves.assign(table=result.table.name))
        for place, name in enumerate(result.algorithms):
            part = curves[curves["algorithm"] == name]
            style = series_style(place)
            axes.plot(part["spent"], part["regret"], **style, label=name, markevery=(2 * place, 15))
            axes.fill_between(
                part["spent"], part["low"], part["high"], color=style["color"], alpha=0.2, lw=0
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        _label_plainly(axes.yaxis)
        unit = "simulated GPU-seconds" if result.budget.unit == "seconds" else "evaluations"
        dataset = DATASET_NAMES.get(result.table.dataset, result.table.dataset)
        axes.set_xlabel(f"{unit}, {dataset}, {result.table.name}")
        axes.set_ylabel("regret in test accuracy (%)")
    key_above(panels[0])
    return figure.with_data(pd.concat(frames, ignore_index=True))


@styled
def ranks_figure(results: Comparison | Sequence[Comparison]) -> Drawing:
    """Draw critical-difference diagrams: average ranks; bars join what is not told apart."""
    compared = _listed(results)
    height = 0.5 + 0.13 * max(len(result.algorithms) for result in compared)
    figure, panels = _stacked(len(compared), height_in=max(1.3, height))
    frames = []
    for axes, result in zip(panels, compared, strict=True):
        ranks = result.ranks()
        _draw_ranks(axes, ranks)
        axes.set_title(result.table.name)
        frames.append(
            pd.DataFrame({"algorithm": list(ranks.average), "average_rank": ranks.average.values()})
            .assign(table=result.table.name, critical_difference=ranks.critical_difference)
            .assign(friedman_p=ranks.p_value, repeats=ranks.blocks)
        )
    return figure.with_data(pd.concat(frames, ignore_index=True))


def _label_plainly(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis out; within one decade those between, too."""
    plain = StrMethodFormatter("{x:g}")
    low, high = axis.get_view_interval()
    axis.set_major_formatter(plain)
    axis.set_minor_formatter(plain if high < 10 * low else NullFormatter())


def _listed(results: Comparison | Sequence[Comparison]) -> list[Comparison]:
    return [results] if isinstance(results, Comparison) else list(results)


def _stacked(number: int, *, height_in: float) -> tuple[Drawing, list[Axes]]:
    """Return a figure of panels under each other, each as wide as the figure."""
    if number == 1:
        figure, [[axes]] = new_figure(height_in=height_in)
        return figure, [axes]
    return mosaic(*ascii_lowercase[:number], height_in=height_in * number)


def cliques(average: Sequence[float], critical_difference: float) -> list[tuple[int, int]]:
    """Return the longest runs (first, last) of sorted ranks that span less than the difference."""
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(average):
        last = max(i for i, other in enumerate(average) if other - rank < critical_difference)
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def _draw_ranks(axes: Axes, ranks: Ranks) -> None:
    ordered = sorted(ranks.average.items(), key=lambda pair: pair[1])
    count = len(ordered)
    low, high = 1.0, float(count)
    half = (count + 1) // 2
    axes.set_xlim(low - 0.35 * count, high + 0.35 * count)
    axes.set_ylim(-half - 0.6, 2.1)
    axes.plot([low, high], [0.5, 0.5], color="black", lw=0.8)
    for tick in range(1, count + 1):
        axes.plot([tick, tick], [0.5, 0.65], color="black", lw=0.8)
        axes.text(tick, 0.72, str(tick), ha="center", va="bottom")
    for place, (name, rank) in enumerate(ordered):
        left = place < half
        depth = -(place + 1 if left else count - place) + 0.2
        edge = low - 0.05 * count if left else high + 0.05 * count
        axes.plot([rank, rank, edge], [0.5, depth, depth], color="#444444", lw=0.7)
        axes.text(
            edge,
            depth,
            f" {name} {rank:.2f} ",
            ha="right" if left else "left",
            va="center",
        )
    for level, (first, last) in enumerate(
        cliques([rank for _, rank in ordered], ranks.critical_difference)
    ):
        height = 0.3 - 0.18 * level
        ends = [ordered[first][1] - 0.03, ordered[last][1] + 0.03]
        axes.plot(ends, [height, height], color=COLOURS[1], lw=2.2, solid_capstyle="butt")
    axes.plot([low, low + ranks.critical_difference], [1.85, 1.85], color=COLOURS[0], lw=2.2)
    axes.text(low + ranks.critical_difference, 1.85, f"  CD {ranks.critical_difference:.2f}",
              va="center")  # fmt: skip
    axes.axis("off")


@styled
def agreement_figure(first: Comparison, second: Comparison) -> Drawing:
    """Draw each algorithm's mean final accuracy on two tables, joined, with 95 % intervals."""
    figure, ((axes,),) = new_figure(height_in=2.6)
    frames = []
    for place, result in enumerate((first, second)):
        frames.append(result.summary().assign(table=result.table.name, place=place))
    data = pd.concat(frames, ignore_index=True)
    for number, name in enumerate(first.algorithms):
        part = data[data["algorithm"] == name].sort_values("place")
        axes.errorbar(
            part["place"] + 0.02 * (number - len(first.algorithms) / 2),
            part["regret"],
            yerr=np.array([part["mean"] - part["low"], part["high"] - part["mean"]]),
            **series_style(number),
            label=name,
        )
    axes.set_xticks([0, 1], [first.table.name, second.table.name])
    axes.set_ylabel("regret in test accuracy (%)")
    key_above(axes)
    return figure.with_data(data)


def save_comparison(results: Sequence[Comparison], path: Path) -> list[Path]:
    """Save every figure of one comparison, or of two, beside each other under `path`."""
    figures = {"anytime": anytime_figure(results), "ranks": ranks_figure(results)}
    if len(results) == 2:
        figures["rerank"] = agreement_figure(results[0], results[1])
    written: list[Path] = []
    for name, figure in figures.items():
        written += figure.save(path.with_name(f"{path.name}-{name}"))
    return written
