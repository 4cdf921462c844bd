"""Figures of compared NAS algorithms: regret over time, ranks, and regret on two tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)

from rebench.errors import UnknownNameError
from rebench.report.figures.style import (
    Drawing,
    files_of,
    key_above,
    label,
    mosaic,
    new_figure,
    series_style,
    styled,
)
from rebench.search.comparison import Comparison

__all__ = [
    "agreement_figure",
    "anytime_figure",
    "comparison_files",
    "draw_search",
    "ranks_figure",
    "save_comparison",
]


@styled
def anytime_figure(results: Sequence[Comparison]) -> Drawing:
    """Draw mean regret over the budget spent, with its 95 % interval; one panel per table."""
    figure, panels = mosaic(*ascii_lowercase[: len(results)], height_in=2.4 * len(results))
    frames = []
    for axes, result in zip(panels, results, strict=True):
        curves = result.anytime()
        frames.append(curves.assign(table=result.table.name))
        for number, name in enumerate(result.algorithms):
            part = curves[curves["algorithm"] == name]
            style, spent = series_style(number), part["spent"]
            axes.plot(spent, part["regret"], **style, label=label(name), markevery=(2 * number, 15))
            axes.fill_between(
                spent, part["low"], part["high"], color=style["color"], alpha=0.2, lw=0
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        _label_plainly(axes.xaxis)
        _label_plainly(axes.yaxis)
        unit = "simulated GPU-seconds" if result.budget.unit == "seconds" else "evaluations"
        axes.set_xlabel(f"{unit}, {label(result.table.dataset)}, {label(result.table.name)}")
        axes.set_ylabel(_regret_of(result))
    key_above(panels[0])
    return figure.with_data(pd.concat(frames, ignore_index=True))


def _regret_of(result: Comparison) -> str:
    """Return the label of an axis of regrets."""
    return f"regret ({label(result.table.measure.points)}, {result.table.split})"


@styled
def ranks_figure(results: Sequence[Comparison]) -> Drawing:
    """Draw average ranks, best first.

    The length of a bar is Nemenyi's critical difference, and its centre is the rank. Two
    algorithms without overlap of their bars differ at the 5 % level.
    """
    most = max(len(result.algorithms) for result in results)
    height_in = (0.8 + 0.16 * most) * len(results)
    figure, panels = mosaic(*ascii_lowercase[: len(results)], height_in=height_in)
    frames = []
    for axes, result in zip(panels, results, strict=True):
        ranks = result.ranks()
        difference = float(ranks["critical_difference"].iloc[0])
        average = ranks.set_index("algorithm")["average_rank"].iloc[::-1]
        heights = range(len(average))
        axes.errorbar(average, heights, xerr=difference / 2, fmt="o", clip_on=False)
        axes.set_yticks(heights, [f"{label(name)} {rank:.2f}" for name, rank in average.items()])
        axes.set_title(label(result.table.name))
        axes.set_xlabel(
            f"average rank, 1 is best; critical difference {difference:.2f}\n"
            "bars without overlap: different at the 5 % level"
        )
        frames.append(ranks.assign(table=result.table.name, repeats=len(result.finals)))
    return figure.with_data(pd.concat(frames, ignore_index=True))


def _label_plainly(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis in full; below two decades, also label 2 and 5.

    A range below a factor of 5 has ticks at equal distances, because it may contain none of 1, 2,
    5.
    """
    plain = StrMethodFormatter("{x:g}")
    low, high = axis.get_view_interval()
    axis.set_major_formatter(plain)
    if high < 5 * low:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_minor_locator(LogLocator(subs=(2, 5)) if high >= 5 * low else NullLocator())
    axis.set_minor_formatter(plain if high < 100 * low else NullFormatter())


@styled
def agreement_figure(results: Sequence[Comparison]) -> Drawing:
    """Draw each algorithm's mean final regret on two tables, joined, with 95 % intervals."""
    first, second = results
    figure, ((axes,),) = new_figure(height_in=2.6)
    frames = []
    for side, result in enumerate((first, second)):
        frames.append(result.summary().assign(table=result.table.name, side=side))
    data = pd.concat(frames, ignore_index=True)
    for number, name in enumerate(first.algorithms):
        part = data[data["algorithm"] == name].sort_values("side")
        axes.errorbar(
            part["side"] + 0.06 * (number - (len(first.algorithms) - 1) / 2),
            part["regret"],
            yerr=np.array([part["mean"] - part["low"], part["high"] - part["mean"]]),
            **series_style(number),
            label=label(name),
        )
    axes.set_xticks([0, 1], [label(one.table.name) for one in results])
    axes.set_ylabel(_regret_of(first))
    key_above(axes)
    return figure.with_data(data)


def _figures(tables: int) -> Mapping[str, Callable[[Sequence[Comparison]], Drawing]]:
    """Return the figures of one or two comparisons by name."""
    figures = {"anytime": anytime_figure, "ranks": ranks_figure}
    return figures | {"rerank": agreement_figure} if tables == 2 else figures


def draw_search(results: Sequence[Comparison], name: str = "anytime") -> Drawing:
    """Draw a figure of one or two comparisons by its name."""
    figures = _figures(len(results))
    if name not in figures:
        raise UnknownNameError("figure", name, figures)
    return figures[name](results)


def comparison_files(tables: int, path: Path) -> list[Path]:
    """Return the files that `save_comparison` writes for one or two tables."""
    stems = [path.with_name(f"{path.name}-{name}") for name in _figures(tables)]
    return [file for stem in stems for file in files_of(stem)]


def save_comparison(results: Sequence[Comparison], path: Path) -> list[Path]:
    """Save every figure of one or two comparisons under `path`."""
    written: list[Path] = []
    for name, figure in _figures(len(results)).items():
        written += figure(results).save(path.with_name(f"{path.name}-{name}"))
    return written
