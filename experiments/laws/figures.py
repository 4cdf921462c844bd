"""Figure of each law from its tables: measured points, the paper's law and ours."""

from __future__ import annotations

import re
from collections import Counter
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
    MARKERS,
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
    except KeyError as error:  # a file of the tables was changed
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
    middle.plot(limit["depth"], guide, ":", color="#777777")
    for axes, label in (
        (left, r"$E[(\Delta z_\ell)^2]/\eta^2$"), (middle, "one-step rate"),
        (right, "actual / first-order update"),
    ):  # fmt: skip
        _log_log(axes, "depth", label, growth["depth"])
    right.set(yscale="linear")
    handles, labels = left.get_legend_handles_labels()
    handles, labels = [*handles, middle.lines[-1]], [*labels, "$L^{-3/2}$"]
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    return figure


def _dag(result: LawResult) -> Drawing:
    figure, axes = mosaic("ab", "cd", "ee", "ff", height_in=7.4, ratios=(1, 1, 1.3, 1.3), aligned=2)
    recursion = result.tables["recursion"]
    rates = recursion[["rule", "exact", "update"]].assign(
        exact=recursion["exact"] ** -0.5, update=recursion["update"] ** -0.5
    )
    _points(axes[0], rates, "exact", "update", "rule", first=len(_NETWORKS))
    identity_line(axes[0], rates["exact"].min(), rates["exact"].max())
    _log_log(axes[0], "exact recursion", "measured")
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
    """Draw values with their intervals in the rows of their names, a style for each part."""
    counts = Counter(name for rows, *_ in parts for name in rows.index)
    drawn: Counter[str] = Counter()
    for rows, column, ends, series in parts:
        y = []
        for name in rows.index:  # a row shows the values of a name next to each other
            y.append(names.index(name) + 0.3 * (drawn[name] - (counts[name] - 1) / 2))
            drawn[name] += 1
        axes.hlines(y, rows[ends[0]], rows[ends[1]], color=series["color"], linewidth=0.6)
        axes.plot(rows[column], y, **series, linestyle="none", markersize=2.5)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)


def _bars(axes: Axes, scores: pd.DataFrame, column: str, label: str) -> None:
    """Draw every experiment's score as a dot with interval, in the predictor's row."""
    known = scores.dropna(subset=[column])
    ends = (f"{column}_low", f"{column}_high")
    parts = [
        (part.set_index("predictor"), column, ends, series)
        for (_, part), series in _series(known, "experiment")
    ]
    _rows(axes, list(dict.fromkeys(known["predictor"])), parts)
    axes.set_xlabel(label)


def _released(result: LawResult) -> Drawing:
    figure, (rule, paths, r, off) = mosaic(
        "ab", "cc", "dd", height_in=5.8, ratios=(1, 1.1, 1.1), aligned=1
    )
    rates, scores = result.tables["rates"], result.tables["scores"]
    scores = scores[scores["criterion"] == scores["criterion"].iloc[0]]
    for axes, predictor in ((rule, "eq. 8, L+3"), (paths, "path count")):
        by = rates.get(f"{predictor}, q = side", rates[predictor]).fillna(rates[predictor])
        of_base = (rates["measured"] / by).groupby(rates["experiment"]).transform("first")
        _rates(axes, rates, of_base * by, rates["experiment"], f"rate by {predictor}")
        for axis in (axes.xaxis, axes.yaxis):
            _plain_ticks(axis, (2, 5, 10))
    paths.set_ylabel("")
    _bars(r, scores, "r", "correlation r")
    _bars(off, scores, "off", "factor from the identity line")
    off.set(xscale="log")
    _plain_ticks(off.xaxis, (1, 1.5, 2, 3, 5))
    figure.legend(*rule.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _cells(result: LawResult) -> Drawing:
    figure, axes = mosaic("ab", "c.", "dd", "ee", height_in=6.2, ratios=(1.2, 1.2, 1, 1), aligned=2)
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
    figure, axes = mosaic("ab", "cc", "de", height_in=5.6)
    identity = result.tables["identity"]
    for panel, cut, title in ((axes[0], True, "at cuts"), (axes[1], False, "on edges in cells")):
        _dots(panel, identity[identity["cut"] == cut], "formula", "aligned", title)
        _log_log(panel, r"$S\,\sum C$", "aligned update, rms")
    alignment = result.tables["alignment"]
    last = alignment[alignment["layer"] == alignment["depth"]]
    _points(axes[2], last, "depth", "cosine", "branch", line="limit")
    _log_log(axes[2], "depth L", "cosine with -gradient", last["depth"])
    axes[2].set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
    axes[2].yaxis.set_minor_locator(NullLocator())
    key_above(axes[2])
    drops = result.tables["invariance"]
    for panel, rule in ((axes[3], "equal contributions"), (axes[4], "one rate")):
        _dots(panel, drops[drops["rule"] == rule], "as_drawn", "rescaled", rule)
        panel.set(xlabel="loss drop, as drawn", ylabel="with layers rescaled")
    return figure


def _dots(axes: Axes, table: pd.DataFrame, x: str, y: str, title: str) -> None:
    """Draw column `y` over `x` as black points, with the line y = x."""
    identity_line(axes, table[x].min(), table[x].max())
    axes.plot(table[x], table[y], "o", color=COLOURS[-1], markersize=2)
    axes.set_title(title, loc="left")


def _fsc(result: LawResult) -> Drawing:
    figure, (left, middle, right, last) = mosaic("ab", "cd", height_in=3.9)
    layers = result.tables["layers"]
    networks = layers["network"].nunique()
    few = max(1, len(layers) // networks // 10)
    for axes, column, limit, label in (
        (left, "update", "limit_update", "update at rate 1, rms"),
        (middle, "cosine", "limit", "cosine with -gradient"),
        (right, "sensitivity", None, "sensitivity"),
    ):
        _points(axes, layers, "layer", column, "network", line=limit, markersize=2, markevery=few)
        _log_log(axes, "layer", label)
    scalings = result.tables["scalings"]
    scalings = scalings[scalings["network"] == scalings["network"].iloc[0]]
    _points(last, scalings, "depth", "sensitivity", "scaling", linestyle="-", first=networks)
    _log_log(last, "depth", "sensitivity, MLP", scalings["depth"])
    key_above(last)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _am_mup(result: LawResult) -> Drawing:
    figure, (plain, residual, trained, rows) = mosaic(
        "a", "b", "c", "d", height_in=9.4, ratios=(1.25, 1.1, 1.25, 1), aligned=3
    )
    moments = result.tables["moments"]
    exponents = result.tables["exponents"].set_index("family")
    transfer = result.tables["transfer"]
    looks = _by_kind([*exponents.index, *transfer["network"].unique()])
    branches = moments["family"].str.startswith("residual")
    for axes, families in ((plain, moments[~branches]), (residual, moments[branches])):
        for family, part in families.groupby("family", sort=False):
            axes.plot(part["depth"], part["rate"], **looks[str(family)], label=_short(str(family)))
        _log_log(axes, "depth L", "rate with mean update 1", families["depth"])
        key_above(axes)
    for network, part in transfer.groupby("network", sort=False):
        best = np.exp(np.log(part["best_lr"]).groupby(part["depth"]).mean())
        look = looks[str(network)]
        trained.plot(best.index, best, **look, label=_short(str(network)))
        rule = best.iloc[0] * (best.index / best.index[0]) ** -1.5
        trained.plot(best.index, rule, ":", color=look["color"], linewidth=0.6)
    _log_log(trained, "depth L (dotted: -3/2)", "best rate of one epoch", transfer["depth"])
    key_above(trained)
    parts = [
        (exponents.loc[[family]].rename(_short), "exponent", ("low", "high"), looks[str(family)])
        for family in exponents.index
    ]
    rows.axvline(-1.5, color="#777777", linestyle="--", linewidth=0.8, zorder=1)
    _rows(rows, [_short(str(family)) for family in exponents.index], parts)
    rows.set_xlabel("exponent in L")
    return figure


def _by_kind(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a style for each network: a colour for its kind, and a marker within the kind."""
    seen: dict[str, list[str]] = {}
    styles = {}
    for name in names:
        kind = re.sub(r" \d+x\d+", "", name.partition(",")[0])  # such as "CNN 2-D"
        variants = seen.setdefault(kind, [])
        colour = COLOURS[list(seen).index(kind) % len(COLOURS)]
        styles[name] = {"color": colour, "marker": MARKERS[len(variants) % len(MARKERS)]}
        variants.append(name)
    return styles


def _short(name: str) -> str:
    """Return a network's name for a legend."""
    return name.replace("residual", "res.").replace("-activation", "")


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
    """Set ticks at `subs` times a power of ten, for a range below a decade."""
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
    table: pd.DataFrame, column: str, first: int = 0
) -> list[tuple[tuple[object, pd.DataFrame], dict[str, Any]]]:
    """Return ((value, rows), style) for each value of a column, in order, from a first style."""
    groups = enumerate(table.groupby(column, sort=False), first)
    return [((value, part), series_style(place)) for place, (value, part) in groups]


def _points(
    axes: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    line: str | None = None,
    first: int = 0,
    **style: Any,
) -> None:
    """Draw column `y` over `x`, a series for each value of `by`, and `line` as a thin line.

    `first` is the number of the first style; it is not 0 if other panels show other series.
    """
    for (value, part), series in _series(table, by, first):
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
