"""The figures of the page on noise."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from experiments.findings.estimate import Estimate
from experiments.findings.full_size import DATASETS, against_published, seed_agreement
from rebench.report.figures.style import Drawing, key_above, new_figure, series_style, styled

__all__ = ["draw_procedures", "draw_seeds"]

_SHOWN = {"baseline": "same recipe", "qat": "quantisation-aware", "analog": "hardware-aware"}
_TICKS = (100, 50, 20, 10, 5, 1)


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
