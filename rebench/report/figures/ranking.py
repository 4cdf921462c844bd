"""Figures of rank comparisons, with intervals: figures 4 and 8 of Chen et al. (ICLR 2024).

Every function draws a result of `rebench.analysis` and keeps the data that it shows.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from rebench.analysis import Reranking
from rebench.analysis.result_table import LEVEL
from rebench.errors import UnknownNameError
from rebench.report.figures.style import (
    COLOURS,
    REFERENCE,
    Drawing,
    heat_map,
    identity_line,
    key_above,
    label,
    mosaic,
    new_figure,
    series_style,
    styled,
)
from rebench.tables.seed_effects import TIE_WIDTH

__all__ = [
    "draw_comparison",
    "draw_curve",
    "draw_head_to_head",
    "draw_reranking",
    "draw_tau_matrix",
]

# Styles of the baseline, of the compared table and of seed tau, equal in all figures.
_BEFORE, _AFTER = series_style(0), series_style(1)
_SEEDS = "#8a8a8a"
# Ticks of K, of which those inside the axis are shown.
_PERCENTS = (100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1)
# More points than this are drawn as an image inside the vector figure.
_VECTOR_POINTS = 3000
# With more rankings than this, values do not fit into the width of a column: only colours are
# shown.
_WRITTEN = 12
_KEY_LETTERS = 64
_NAME_LETTERS = 20


@styled
def draw_reranking(reranking: Reranking) -> Drawing:
    """Draw figure 4: accuracies, gaps between cells, and tau over K (as `draw_curve`)."""
    figure, (left, right, below) = mosaic("ab", "cc", height_in=3.7)
    data = [_scatter(left, reranking), _gap_histogram(right, reranking)]
    right.set_box_aspect(1)  # the same height as the panel next to it
    data.append(_tau_curve(below, reranking))
    key_above(below)
    return figure.with_data(pd.concat(data, ignore_index=True))


@styled
def draw_curve(reranking: Reranking) -> Drawing:
    """Draw tau over K, for a column of a paper.

    Bands are 95 % bootstrap intervals over cells: in colour that of tau, in grey that of seed tau.
    """
    figure, [[axes]] = new_figure(height_in=2.0)
    data = _tau_curve(axes, reranking)
    key_above(axes)
    return figure.with_data(data)


@styled
def draw_head_to_head(reranking: Reranking) -> Drawing:
    """Draw figure 8: accuracies of the cells under both recipes, and their differences."""
    figure, (left, right) = mosaic("ab", height_in=1.9)
    data = [_scatter(left, reranking)]
    difference = reranking.other.means - reranking.baseline.means
    counts, edges = np.histogram(difference, bins=min(40, max(8, len(difference) // 8)))
    right.stairs(counts, edges, fill=True, color=COLOURS[0], alpha=0.75)
    row = reranking.improvement
    right.axvline(0, **REFERENCE | {"zorder": 2})
    right.axvspan(row["low"], row["high"], color=COLOURS[1], alpha=0.35, linewidth=0)
    right.axvline(row["difference"], color=COLOURS[1], label=f"mean {row['difference']:+.2f}")
    right.set_xlabel("difference (points)")
    right.set_ylabel("cells")
    right.set_box_aspect(1)
    key_above(right)
    data.append(_tidy("difference", reranking, x=edges[:-1], y=counts.astype(float)))
    return figure.with_data(pd.concat(data, ignore_index=True))


def draw_comparison(reranking: Reranking, name: str = "reranking") -> Drawing:
    """Draw a figure of a comparison by name: `reranking`, `curve` or `differences`."""
    figures = {"reranking": draw_reranking, "curve": draw_curve, "differences": draw_head_to_head}
    if name not in figures:
        raise UnknownNameError("figure", name, figures)
    return figures[name](reranking)


@styled
def draw_tau_matrix(pairs: pd.DataFrame, title: str = "") -> Drawing:
    """Draw `analysis.matrix.tau_matrix` at its largest K as a heat map with its values.

    Tau is above the diagonal, with a star if it is significantly below seed tau; seed tau is below.
    """
    percent = pairs["top_percent"].max()
    pairs = pairs[pairs["top_percent"] == percent].dropna(subset=["tau"])
    names = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    numbers = {name: number for number, name in enumerate(names, start=1)}
    values = np.full((len(names), len(names)), np.nan)
    starred = np.zeros(values.shape, dtype=bool)
    for row in pairs.to_dict("records"):
        first, second = (numbers[row[side]] - 1 for side in ("first", "second"))
        values[first, second] = row["tau"]
        values[second, first] = row["seed_tau"]
        starred[first, second] = row["p_adjusted"] <= LEVEL
    numbered = ",  ".join(
        f"{number}:\N{NO-BREAK SPACE}{label(name, _KEY_LETTERS)}"
        for name, number in numbers.items()
    )
    key = textwrap.wrap(numbered, _KEY_LETTERS, break_long_words=False, break_on_hyphens=False)
    lines = [*key, "above the diagonal: tau; below: seed tau"]
    if (written := len(names) <= _WRITTEN) and starred.any():
        lines.append(f"* below seed tau by more than seeds explain (p <= {LEVEL:g})")
    height_in = 0.58 + 0.12 * len(lines) + 0.21 * max(len(names), 4)
    figure, [[axes]] = new_figure(height_in=height_in)
    # The colour scale is the range of tau, so equal values have the same colour in every figure.
    low = min(0.0, float(np.nanmin(values)))
    image = heat_map(axes, values, (low, 1.0), written=written, starred=starred)
    ticks = [str(number) for number in numbers.values()]
    axes.set_xticks(range(len(names)), ticks)
    axes.set_yticks(range(len(names)), ticks)
    if not written:
        figure.colorbar(image, ax=axes)
    axes.set_title(label(f"{title}, top {percent:g} %" if title else f"top {percent:g} %", 64))
    axes.set_xlabel("\n".join(lines))
    return figure.with_data(pairs)


def _scatter(axes: Axes, reranking: Reranking) -> pd.DataFrame:
    baseline, other = reranking.baseline.means, reranking.other.means
    low, high = _sensible_range(np.concatenate([baseline, other]))
    many = len(baseline) > _VECTOR_POINTS
    size, alpha = (2, 0.35) if many else (6, 0.7)
    axes.plot(
        baseline, other, ".", color=COLOURS[0], markersize=size, alpha=alpha, markeredgewidth=0,
        rasterized=many,
    )  # fmt: skip
    identity_line(axes, low, high)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    if hidden := int(((baseline < low) | (other < low)).sum()):
        axes.annotate(
            f"not shown: {hidden} lower", (0.04, 0.96), xycoords="axes fraction", va="top",
            fontsize=6,
        )  # fmt: skip
    axes.set_xlabel(f"{label(reranking.baseline.name, _NAME_LETTERS)} (%)")
    axes.set_ylabel(f"{label(reranking.other.name, _NAME_LETTERS)} (%)")
    data = _tidy("accuracy", reranking, x=baseline, y=other)
    data["index"] = reranking.baseline.cells
    return data


def _tau_curve(axes: Axes, reranking: Reranking) -> pd.DataFrame:
    """Draw tau and seed tau with intervals, from all cells on the left to the best cells."""
    curve = reranking.frame().dropna(subset=["tau"])
    percent = curve["top_percent"]
    tau = {"y": curve["tau"], "low": curve["tau_low"], "high": curve["tau_high"]}
    data = [_tidy("tau", reranking, x=percent, **tau)]
    if curve["seed_tau"].notna().any():
        low, high = curve["seed_tau_low"], curve["seed_tau_high"]
        axes.fill_between(percent, low, high, color=_SEEDS, alpha=0.3, linewidth=0)
        axes.plot(percent, curve["seed_tau"], "--", color=_SEEDS, label="seed tau")
        seeds = {"y": curve["seed_tau"], "low": low, "high": high}
        data.append(_tidy("seed tau", reranking, x=percent, **seeds))
    if curve.empty:
        axes.text(0.5, 0.5, "too few cells", ha="center", va="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    else:
        low, high = curve["tau_low"], curve["tau_high"]
        axes.fill_between(percent, low, high, color=_AFTER["color"], alpha=0.2, linewidth=0)
        axes.plot(percent, curve["tau"], **_AFTER, label=f"tau of {label(reranking.other.name)}")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_PERCENTS if percent.min() <= 50 else percent))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.invert_xaxis()
    axes.set_ylabel("Kendall's tau")
    axes.set_xlabel(f"K: top K % of the cells by {label(reranking.chooser, 30)}")
    return pd.concat(data, ignore_index=True)


def _gap_histogram(axes: Axes, reranking: Reranking) -> pd.DataFrame:
    sides = [(table.name, table.means) for table in (reranking.baseline, reranking.other)]
    longest = max(np.quantile(values, 0.98) - np.quantile(values, 0.1) for _, values in sides)
    n_bins = 30 if len(reranking.baseline.cells) >= 100 else 12
    edges = np.linspace(0, max(float(longest), 1e-3), n_bins + 1)
    data = []
    for (name, values), series, line in zip(sides, (_BEFORE, _AFTER), ("--", "-"), strict=True):
        pairs = len(values) * (len(values) - 1) / 2
        share = 100 * _pairs_by_gap(values, edges) / max(pairs, 1)
        axes.stairs(
            share, edges, color=series["color"], linestyle=line, label=label(name, _NAME_LETTERS)
        )
        data.append(_tidy(f"gaps, {name}", reranking, x=edges[:-1], y=share))
    axes.set_xlabel("gap of two cells (points)")
    axes.set_ylabel("pairs of cells (%)")
    key_above(axes)
    return pd.concat(data, ignore_index=True)


def _pairs_by_gap(means: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the pairs of cells by their gap, in bins from 0; only the last contains its right edge.

    The count is exact for any number of cells. Pairs are counted in the sorted means by binary
    search, without a list of pairs.
    """
    ordered, places = np.sort(means), np.arange(1, len(means) + 1)
    reach = np.append(edges[1:-1] - TIE_WIDTH, edges[-1] + TIE_WIDTH)
    below = [(np.searchsorted(ordered, ordered + gap) - places).sum() for gap in reach]
    return np.diff([0, *below])


def _sensible_range(values: np.ndarray) -> tuple[float, float]:
    """Return axis limits that show nearly all cells; the few cells that failed may be outside."""
    high = float(values.max())
    low = float(np.quantile(values, 0.02)) if len(values) >= 100 else float(values.min())
    margin = max(0.04 * (high - low), 0.05)
    return low - margin, high + margin


def _tidy(series: str, reranking: Reranking, **columns: object) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(
        {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    )
    table.insert(0, "series", series)
    table.insert(0, "dataset", reranking.dataset)
    return table
