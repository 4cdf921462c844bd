"""Figure of each law from its tables: measured points, the paper's law and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from experiments.laws.result import LawResult, command
from rebench.errors import StoreError, UnknownNameError
from rebench.report.figures.style import (
    COLOURS,
    Drawing,
    heat_map,
    identity_line,
    key_above,
    mosaic,
    new_figure,
    series_style,
    styled,
)

# Rows of a table, column of values, columns of interval ends, colour and marker.
_Part: TypeAlias = tuple[pd.DataFrame, str, tuple[str, str], dict[str, Any]]
# Networks of the experiments on graphs, by the beginning of their names.
_NETWORKS = {"mlp": "MLPs", "chain": "chains", "cnn": "CNNs"}


def draw_law(result: LawResult, folder: Path) -> list[Path]:
    """Draw a law's figure into `folder`; its data are the law's tables. Return the paths."""
    return law_figure(result).save(folder / result.law)


@styled
def law_figure(result: LawResult) -> Drawing:
    """Return the figure of a law's result."""
    if result.law not in _DRAWERS:
        raise UnknownNameError("law", result.law, _DRAWERS)
    try:
        return _DRAWERS[result.law](result)
    except KeyError as error:  # the files were changed
        raise StoreError(
            f"the tables of {result.law} lack {error}; {command(result.law)} writes them again"
        ) from error


def _depth(result: LawResult) -> Drawing:
    figure, (left, middle, right) = mosaic("ab", "cc", height_in=3.9)
    growth = result.tables["growth"]
    for (width, part), series in _series(growth, "width"):
        left.errorbar(
            part["depth"], part["second_moment"], 2 * part["standard_error"],
            **series, linestyle="none", label=f"n = {width}",
        )  # fmt: skip
        left.plot(part["depth"], part["exact"], color=series["color"], linewidth=0.8)
    _points(middle, growth, "depth", "maximal_lr", "width", label=None)
    _points(right, growth, "depth", "actual_1", "width", linestyle="-")
    limit = growth[["depth", "limit"]].drop_duplicates().sort_values("depth")
    left.plot(limit["depth"], limit["limit"], "k--", linewidth=0.8, label=r"$n\to\infty$")
    middle.plot(limit["depth"], limit["limit"] ** -0.5, "k--", linewidth=0.8)
    guide = limit["limit"].iloc[0] ** -0.5 * (limit["depth"] / limit["depth"].iloc[0]) ** -1.5
    middle.plot(limit["depth"], guide, ":", color="#777777", label="$L^{-3/2}$")
    for axes, label in (
        (left, r"$E[(\Delta z_\ell)^2]/\eta^2$"), (middle, "maximal learning rate"),
        (right, "actual / first-order update"),
    ):  # fmt: skip
        _log_log(axes, "depth", label, growth["depth"])
    right.set(yscale="linear")
    key_above(left)
    key_above(middle)
    return figure


def _dag(result: LawResult) -> Drawing:
    figure, axes = mosaic("ab", "cd", "ee", "ff", height_in=7.4, ratios=(1, 1, 1.3, 1.3), aligned=2)
    recursion = result.tables["recursion"]
    rates = recursion[["rule", "exact", "update"]].assign(
        exact=recursion["exact"] ** -0.5, update=recursion["update"] ** -0.5
    )
    _points(axes[0], rates, "exact", "update", "rule")
    identity_line(axes[0], rates["exact"].min(), rates["exact"].max())
    _log_log(axes[0], "exact recursion", "Monte Carlo")
    for axis in (axes[0].xaxis, axes[0].yaxis):
        axis.set_minor_formatter(NullFormatter())
    key_above(axes[0], title="degree")
    rates = result.tables["rates"]
    networks = rates["experiment"].str.partition("-")[0]  # mlp of mlp-gelu
    names = networks.map(_NETWORKS).fillna(networks)
    for predictor, panel in (("eq. 8, L", axes[1]), ("exact recursion", axes[2]),
                             ("path count", axes[3])):  # fmt: skip
        _rates(panel, rates, _scaled(rates, predictor), names, f"c x {predictor}")
    key_above(axes[1])
    scores = result.tables["predictors"]
    _score_map(axes[4], scores, "r", "correlation r", (-1.0, 1.0))
    most = float(scores["factor"].max())
    _score_map(axes[5], scores, "factor", "typical factor", (1.0, most), lower_is_better=True)
    axes[4].set_xticklabels([])
    return figure


def _rates(
    axes: Axes, rates: pd.DataFrame, predicted: pd.Series[float], names: pd.Series[str], label: str
) -> None:
    """Draw measured rates over predicted rates, a style for each name, with the line y = x."""
    _points(
        axes, rates.assign(predicted=predicted, name=names), "predicted", "measured", "name",
        markersize=2.5,
    )  # fmt: skip
    identity_line(axes, rates["measured"].min(), rates["measured"].max())
    _log_log(axes, label, "one-epoch rate")


def _scaled(rates: pd.DataFrame, predictor: str) -> pd.Series[float]:
    """Return the predictions times the best scale of each experiment."""
    off = (rates["measured"] / rates[predictor]).map(np.log)
    return off.groupby(rates["experiment"]).transform("mean").map(np.exp) * rates[predictor]


def _score_map(
    axes: Axes,
    scores: pd.DataFrame,
    column: str,
    title: str,
    limits: tuple[float, float],
    *,
    lower_is_better: bool = False,
) -> None:
    """Draw a heat map of scores, predictors by experiments."""
    table = scores.pivot_table(column, "predictor", "experiment", sort=False)
    image = heat_map(axes, table.to_numpy(float), limits, lower_is_better=lower_is_better)
    axes.figure.colorbar(image, ax=axes)
    axes.set_yticks(range(len(table)), [str(name) for name in table.index])
    axes.set_xticks(range(len(table.columns)), map(str, table.columns), rotation=90)
    axes.tick_params(length=0)
    axes.set_title(title, loc="left")


def _rows(axes: Axes, names: Sequence[str], parts: Sequence[_Part]) -> None:
    """Draw values with their intervals under their names, a style for each part."""
    below: dict[str, int] = {}
    for rows, column, ends, series in parts:
        y = []
        for name in rows.index:  # one below another, in the space above the next name
            below[name] = below.get(name, -1) + 1
            y.append(names.index(name) + 0.2 + 0.2 * below[name])
        axes.hlines(y, rows[ends[0]], rows[ends[1]], color=series["color"], linewidth=0.6)
        axes.plot(rows[column], y, **series, linestyle="none", markersize=2.5)
    axes.invert_yaxis()
    for height, name in enumerate(names):  # above its line: the axis has no space
        axes.annotate(
            name, (0, height), (1, 3), xycoords=("axes fraction", "data"), zorder=1.5,
            textcoords="offset points", bbox={"fc": "white", "ec": "none", "pad": 0.5},
        )  # fmt: skip
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _bars(axes: Axes, scores: pd.DataFrame, column: str, label: str) -> None:
    """Draw every experiment's score as a dot with interval, below the predictor's name."""
    known = scores.dropna(subset=[column])
    ends = (f"{column}_low", f"{column}_high")
    parts = [
        (part.set_index("predictor"), column, ends, series)
        for (_, part), series in _series(known, "experiment")
    ]
    _rows(axes, list(dict.fromkeys(known["predictor"])), parts)
    axes.set_xlabel(label)


def _released(result: LawResult) -> Drawing:
    figure, (rule, paths, r, off) = mosaic("ab", "cc", "dd", height_in=7.4, ratios=(1, 1.6, 1.6))
    rates, scores = result.tables["rates"], result.tables["scores"]
    scores = scores[scores["criterion"] == scores["criterion"].iloc[0]]
    for axes, predictor in ((rule, "eq. 8, L+3"), (paths, "path count")):
        by = rates.get(f"{predictor}, q = side", rates[predictor]).fillna(rates[predictor])
        of_base = (rates["measured"] / by).groupby(rates["experiment"]).transform("first")
        _rates(axes, rates, of_base * by, rates["experiment"], f"rate by {predictor}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    paths.set_ylabel("")
    _bars(r, scores, "r", "correlation r")
    _bars(off, scores, "off", "factor from the identity line")
    off.set(xscale="log")
    _plain_ticks(off.xaxis, (1, 1.5, 2, 3, 5))
    figure.legend(*rule.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _cells(result: LawResult) -> Drawing:
    figure, axes = mosaic("ab", "cc", "dd", "ee", height_in=8.0, ratios=(1, 1, 1.5, 1.5))
    rates, scores = result.tables["rates"], result.tables["predictors"]
    rules = ("eq. 8, L+1", "one step", "path count")
    for predictor, panel in zip(rules, axes[:3], strict=True):
        predicted = _scaled(rates, predictor)
        _rates(panel, rates, predicted, rates["experiment"], f"c x {predictor}")
        for axis in (panel.xaxis, panel.yaxis):
            _plain_ticks(axis, (1, 2, 5))
    _bars(axes[3], scores, "r", "correlation r")
    _bars(axes[4], scores, "factor", "typical factor")
    return figure


def _bafu(result: LawResult) -> Drawing:
    figure, (left, middle, right) = mosaic("ab", "cc", height_in=4.0)
    identity = result.tables["identity"]
    where = identity["cut"].map({True: "cut", False: "edge in a cell"})
    _points(left, identity.assign(where=where), "formula", "aligned", "where", markersize=3)
    identity_line(left, identity["formula"].min(), identity["formula"].max())
    _log_log(left, r"$S\,\sum C$", "aligned update, rms")
    alignment = result.tables["alignment"]
    last = alignment[alignment["layer"] == alignment["depth"]]
    _points(middle, last, "depth", "cosine", "branch", line="limit")
    _log_log(middle, "depth", "cosine with -gradient", last["depth"])
    middle.set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
    middle.yaxis.set_minor_locator(NullLocator())
    drops = result.tables["invariance"].iloc[::-1]  # equal contributions in front of the others
    _points(right, drops, "as_drawn", "rescaled", "rule", markersize=2)
    identity_line(right, drops["as_drawn"].min(), drops["as_drawn"].max())
    right.set(xlabel="loss drop of a step, as drawn", ylabel="with layers rescaled")
    key_above(left)
    key_above(right)
    figure.legend(*middle.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _fsc(result: LawResult) -> Drawing:
    figure, (left, middle, right, last) = mosaic("ab", "cd", height_in=3.9)
    layers = result.tables["layers"]
    few = max(1, len(layers) // layers["network"].nunique() // 10)
    for axes, column, limit, label in (
        (left, "update", "limit_update", "update at rate 1, rms"),
        (middle, "cosine", "limit", "cosine with -gradient"),
        (right, "sensitivity", None, "sensitivity"),
    ):
        _points(axes, layers, "layer", column, "network", line=limit, markersize=2, markevery=few)
        _log_log(axes, "layer", label)
    scalings = result.tables["scalings"]
    scalings = scalings[scalings["network"] == scalings["network"].iloc[0]]
    _points(last, scalings, "depth", "sensitivity", "scaling", linestyle="-")
    _log_log(last, "depth", "sensitivity, MLP", scalings["depth"])
    key_above(last)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _am_mup(result: LawResult) -> Drawing:
    figure, (left, middle, right) = mosaic("a", "b", "c", height_in=7.4, ratios=(1, 1.7, 1))
    moments = result.tables["moments"]
    _points(left, moments, "depth", "rate", "family", linestyle="-")
    _log_log(left, "depth L", "rate with mean update 1, as in b", moments["depth"])
    exponents = result.tables["exponents"].set_index("family")
    parts = [
        (exponents.iloc[[at]], "exponent", ("low", "high"), series_style(at))
        for at in range(len(exponents))
    ]
    middle.axvline(-1.5, color="#777777", linestyle="--", linewidth=0.8, zorder=1)
    _rows(middle, list(exponents.index), parts)
    middle.set_xlabel("exponent in L")
    transfer = result.tables["transfer"]
    for (network, part), series in _series(transfer, "network"):
        best = np.exp(np.log(part["best_lr"]).groupby(part["depth"]).mean())
        right.plot(best.index, best, **series, label=f"{network}")
        rule = best.iloc[0] * (best.index / best.index[0]) ** -1.5
        right.plot(best.index, rule, ":", color=series["color"], linewidth=0.6)
    _log_log(right, "depth L (dots: -3/2)", "best rate of one epoch", transfer["depth"])
    key_above(right)
    return figure


def _base_lr(result: LawResult) -> Drawing:
    figure, ((axes,),) = new_figure()
    curve, [choice] = result.tables["curve"], result.tables["choice"].to_dict("records")
    finite = curve[np.isfinite(curve["loss"])]
    axes.scatter(finite["learning_rate"], finite["loss"], s=6, color=COLOURS[0], alpha=0.5)
    means = curve.groupby("learning_rate")["loss"].mean()
    means = means[np.isfinite(means)]
    axes.plot(means.index, means, marker="o", color=COLOURS[0], label="mean over seeds")
    axes.axhline(
        choice["threshold"], color=COLOURS[6], linestyle=":", label="smallest, within noise"
    )
    axes.axvline(choice["learning_rate"], color=COLOURS[1], linestyle="--", label="chosen")
    axes.set(xscale="log", xlabel="learning rate", ylabel="training loss, first epoch")
    # Losses far above that of the smallest rate are omitted: these runs nearly diverged.
    lowest, first, highest = means.min(), means.iloc[0], finite["loss"].max()
    ceiling = first + 0.3 * (first - lowest) + 0.05
    axes.set_ylim(top=min(ceiling, highest + 0.04 * (highest - finite["loss"].min())))
    key_above(axes)
    return figure


def _plain_ticks(axis: Axis, subs: Sequence[float]) -> None:
    """Tick less than a decade at these multiples of its power of ten, as plain numbers."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


_DRAWERS: dict[str, Callable[[LawResult], Drawing]] = {
    "depth": _depth,
    "dag": _dag,
    "released": _released,
    "cells": _cells,
    "bafu": _bafu,
    "fsc": _fsc,
    "am-mup": _am_mup,
    "base-lr": _base_lr,
}


def _series(
    table: pd.DataFrame, column: str
) -> list[tuple[tuple[object, pd.DataFrame], dict[str, Any]]]:
    """Return ((value, rows), style) for each value of a column, in order."""
    groups = enumerate(table.groupby(column, sort=False))
    return [((value, part), series_style(place)) for place, (value, part) in groups]


def _points(
    axes: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    line: str | None = None,
    **style: Any,
) -> None:
    """Draw a column over another, a series for each value of `by`; a third as a thin line."""
    for (value, part), series in _series(table, by):
        axes.plot(part[x], part[y], **{"linestyle": "none", "label": f"{value}"} | series | style)
        if line:
            axes.plot(part[x], part[line], color=series["color"], linewidth=0.8)


def _log_log(axes: Axes, x: str, y: str, depths: pd.Series[int] | None = None) -> None:
    """Make both scales logarithmic; depths are ticked at powers of two as plain numbers."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    if depths is not None:
        low, high = int(depths.min()), int(depths.max())
        ticks = sorted({low, *(2**k for k in range(10) if low <= 2**k <= high)})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
