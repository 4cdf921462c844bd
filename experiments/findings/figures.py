"""The figures of the pages of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from experiments.findings.estimate import Estimate
from experiments.findings.full_size import DATASETS, against_published, seed_agreement
from experiments.findings.small import change
from rebench.report.figures.style import (
    COLOURS,
    REFERENCE,
    Drawing,
    key_above,
    new_figure,
    series_style,
    styled,
)

__all__ = ["draw_claims", "draw_procedures", "draw_seeds"]

_SHOWN = {"baseline": "same recipe", "qat": "quantisation-aware", "analog": "hardware-aware"}
_TICKS = (100, 50, 20, 10, 5, 1)


class _Drop(NamedTuple):
    """A drop between the recipes `fixed` and `topology`."""

    name: str
    drop: Estimate
    claim: int
    is_predicted: bool


def _drops() -> list[_Drop]:
    def between(table: str, cells: str = "all", level: float = 0.95) -> Estimate:
        return change(table, "fixed", "topology", cells=cells, level=level).drop

    return [
        _Drop("5 epochs, 60 cells", between("mini"), 1, False),
        _Drop("5 epochs, 500 random networks", between("mini-all", "random 500"), 27, True),
        _Drop("the better half of these", between("mini-all", "upper half of them"), 28, True),
        _Drop("60 epochs, 120 cells", between("mini-60ep", level=0.975), 8, True),
        _Drop("60 epochs, no weight decay", between("mini-60ep-nodecay"), 10, True),
        _Drop("2 epochs, larger networks", between("mini-32px"), 24, True),
    ]


@styled
def draw_claims() -> Drawing:
    """Draw the drop of six trainings with its interval; predicted claims are filled."""
    figure, [[axes]] = new_figure(height_in=2.1)
    drops = _drops()
    for height, one in enumerate(reversed(drops)):
        value, low, high = one.drop
        axes.errorbar(
            value,
            height,
            xerr=[[value - low], [high - value]],
            fmt="o",
            color=COLOURS[0],
            markerfacecolor=COLOURS[0] if one.is_predicted else "white",
        )
    axes.axvline(0, **REFERENCE)
    axes.set_yticks(range(len(drops)), [f"{one.name} ({one.claim})" for one in reversed(drops)])
    axes.set(xlabel="drop (0: no more than another seed)")
    rows = [(one.name, *one.drop, one.claim, one.is_predicted) for one in drops]
    columns = ["series", "y", "low", "high", "claim", "predicted"]
    return figure.with_data(pd.DataFrame(rows, columns=columns))


@styled
def draw_seeds() -> Drawing:
    """Draw tau between two seeds over K, one curve per data set."""
    figure, [[axes]] = new_figure(height_in=2.4)
    frames = []
    for at, (dataset, name) in enumerate(DATASETS.items()):
        frames.append(_curve(axes, seed_agreement(dataset), at, name))
    _finish(axes, _TICKS)
    return figure.with_data(pd.concat(frames))


@styled
def draw_procedures() -> Drawing:
    """Draw tau with the published runs, and the seed tau that it is compared with (dashed)."""
    figure, [[axes]] = new_figure(height_in=2.4)
    frames = []
    percents = [100.0, 50.0, 20.0, 10.0, 5.0]
    for at, (recipe, name) in enumerate(_SHOWN.items()):
        rows = {percent: against_published(recipe, percent) for percent in percents}
        frames.append(_curve(axes, {k: row["tau"] for k, row in rows.items()}, at, name))
        seeds = [row["seed_tau"].value for row in rows.values()]
        axes.plot(percents, seeds, "--", color=series_style(at)["color"], linewidth=0.9)
        frames.append(pd.DataFrame({"series": f"{name}, seed tau", "x": percents, "y": seeds}))
    _finish(axes, _TICKS[:-1])
    return figure.with_data(pd.concat(frames))


def _curve(axes: Axes, values: Mapping[float, Estimate], at: int, name: str) -> pd.DataFrame:
    frame = pd.DataFrame(values.values(), index=pd.Index(values, name="x")).reset_index()
    style = series_style(at)
    axes.fill_between(frame["x"], frame["low"], frame["high"], color=style["color"], alpha=0.2,
                      linewidth=0)  # fmt: skip
    axes.plot(frame["x"], frame["value"], **style, markersize=3, label=name)
    return frame.rename(columns={"value": "y"}).assign(series=name)


def _finish(axes: Axes, ticks: tuple[int, ...]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.invert_xaxis()
    axes.set(xlabel="top K % of the cells", ylabel="Kendall's τ", ylim=(0, 1))
    key_above(axes)
