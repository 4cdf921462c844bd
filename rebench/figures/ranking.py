"""Figures of re-ranking: the forms of the paper's figures 4, 8 and 9 for any recipe and data set.

Chen et al. (ICLR 2024). Every function takes what `rebench.analysis.rerank` found and draws one
figure with its intervals and its data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rebench.analysis import Reranking, gap_counts, improvement_by
from rebench.analysis.improvement import FEATURES, features
from rebench.errors import InputError
from rebench.figures.style import (
    COLOURS,
    DATASET_NAMES,
    Drawing,
    heat_map,
    identity_line,
    key_above,
    mosaic,
    names_over,
    new_figure,
    series_style,
    styled,
)

__all__ = [
    "draw_contrasts",
    "draw_head_to_head",
    "draw_improvement",
    "draw_reranking",
    "draw_seeds",
    "draw_tau_matrix",
]

# The same in every figure: what is compared with, what is compared, and noise.
_BEFORE, _AFTER = series_style(0), series_style(1)
_NOISE = "#8a8a8a"
_ZERO: Final[dict[str, Any]] = {
    "color": "#444444",
    "linewidth": 0.8,
    "linestyle": "--",
    "zorder": 1,
}
# More points than this are drawn as an image inside the vector figure.
_VECTOR_POINTS = 3000
# Of more rankings than this the values do not fit into a column's width: their colours do.
_WRITTEN = 12
_KEY_LETTERS = 64


@styled
def draw_reranking(found: Reranking | Sequence[Reranking]) -> Drawing:
    """Draw figure 4, two rows per comparison: accuracies, pairwise gaps, tau against top K %.

    The band around tau is its bootstrap interval; the grey band that of what seeds alone leave.
    """
    comparisons = [found] if isinstance(found, Reranking) else list(found)
    if not comparisons:
        raise InputError("a figure needs one comparison at least")
    letters = ascii_lowercase
    places = range(0, 3 * len(comparisons), 3)
    rows = [row for at in places for row in (letters[at : at + 2], 2 * letters[at + 2])]
    figure, panels = mosaic(*rows, height_in=3.7 * len(comparisons))
    data = []
    for place, one in enumerate(comparisons):
        left, right, below = panels[3 * place : 3 * place + 3]
        data += [_scatter(left, one), _gap_histogram(right, one), _tau_curve(below, one)]
        key_above(below)
        if len(comparisons) > 1:
            left.set_title(DATASET_NAMES.get(one.dataset, one.dataset))
    return figure.with_data(pd.concat(data, ignore_index=True))


@styled
def draw_head_to_head(found: Reranking) -> Drawing:
    """Draw figure 8: one recipe against another (muP, say), cell by cell, and the differences."""
    figure, (left, right) = mosaic("ab", height_in=1.9)
    data = [_scatter(left, found)]
    difference = found.after.means - found.before.means
    counts, edges = np.histogram(difference, bins=min(40, max(8, len(difference) // 8)))
    right.stairs(counts, edges, fill=True, color=COLOURS[0], alpha=0.75)
    row = found.improvement
    right.axvline(0, **_ZERO | {"zorder": 2})
    right.axvspan(row["low"], row["high"], color=COLOURS[1], alpha=0.35, linewidth=0)
    right.axvline(row["difference"], color=COLOURS[1], label=f"mean {row['difference']:+.2f}")
    right.set_xlabel("difference (points)")
    right.set_ylabel("cells")
    key_above(right)
    data.append(_tidy("difference", found, x=edges[:-1], y=counts.astype(float)))
    return figure.with_data(pd.concat(data, ignore_index=True))


@styled
def draw_seeds(found: Reranking) -> Drawing:
    """Draw figure 9: our tau against top K %, beside the tau between the benchmark's seeds."""
    figure, [[axes]] = new_figure(height_in=2.4)
    data = [_tau_curve(axes, found)]
    pairs = found.seeds.copy()
    pairs["pair"] = [
        f"{min(a, b)} / {max(a, b)}" for a, b in zip(pairs["first"], pairs["second"], strict=True)
    ]
    for place, (name, both) in enumerate(pairs.groupby("pair", sort=False)):
        curve = both.groupby("top_percent", sort=False)["tau"].mean().dropna()
        axes.plot(
            curve.index,
            curve.to_numpy(),
            **series_style(2 + place),
            linestyle=":",
            linewidth=1,
            label=f"seeds {name}",
        )
        data.append(_tidy(f"seeds {name}", found, x=curve.index, y=curve.to_numpy()))
    key_above(axes)
    return figure.with_data(pd.concat(data, ignore_index=True))


@styled
def draw_improvement(found: Reranking) -> Drawing:
    """Draw the mean improvement against path count, depth, multiplier and cost, with intervals."""
    figure, rows = new_figure(2, 2, height_in=3.0)
    known = features(found.before.cells)
    panels = [axis for row in rows for axis in row]
    data = []
    for axis, (name, label) in zip(panels, FEATURES.items(), strict=True):
        table = improvement_by(found.paired, known[name].to_numpy())
        centre = (table["low"] + table["high"]) / 2
        spread = [
            table["difference"] - table["difference_low"],
            table["difference_high"] - table["difference"],
        ]
        axis.errorbar(centre, table["difference"], yerr=np.nan_to_num(spread), fmt="o-")
        axis.axhline(0, **_ZERO)
        axis.set_xlabel(label)
        data.append(table.assign(feature=name))
    for axis in panels[1:]:
        axis.sharey(panels[0])
    for first, second in rows:
        first.set_ylabel("improvement (points)")
        second.tick_params(labelleft=False)
    return figure.with_data(pd.concat(data, ignore_index=True))


@styled
def draw_contrasts(table: pd.DataFrame) -> Drawing:
    """Draw recipes against their controls: mean paired differences with intervals, one a line."""
    if table.empty:
        raise InputError("no contrast to draw: fewer than two recipes")
    figure, [[axes]] = new_figure(height_in=0.5 + 0.27 * len(table))
    place = np.arange(len(table))[::-1]
    spread = [table["difference"] - table["low"], table["high"] - table["difference"]]
    axes.errorbar(table["difference"], place, xerr=np.nan_to_num(spread), fmt="o")
    axes.axvline(0, **_ZERO)
    pairs = zip(table["after"], table["before"], strict=True)
    names_over(axes, [f"{after} minus {before}" for after, before in pairs], place.tolist())
    axes.set_ylim(-0.3, len(table) - 0.3)
    axes.set_xlabel("difference in accuracy (points, 95 % interval)")
    return figure.with_data(table)


@styled
def draw_tau_matrix(found: pd.DataFrame, title: str = "") -> Drawing:
    """Draw `analysis.matrix.tau_matrix` at its largest K as a heat map with its values.

    Tau is above the diagonal, that of seed noise alone below it.
    """
    found = found[found["top_percent"] == found["top_percent"].max()].dropna(subset=["tau"])
    names = list(dict.fromkeys([*found["first"], *found["second"]]))
    place = {name: number for number, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    for row in found.to_dict("records"):
        one, other = place[row["first"]], place[row["second"]]
        values[one, other] = row["tau"]
        values[other, one] = row["noise"]
    numbered = ",  ".join(f"{place[name] + 1}:\N{NO-BREAK SPACE}{name}" for name in names)
    key = textwrap.wrap(numbered, _KEY_LETTERS, break_long_words=False, break_on_hyphens=False)
    figure, [[axes]] = new_figure(height_in=0.7 + 0.12 * len(key) + 0.21 * max(len(names), 4))
    # Equal agreement has one colour in every figure: the scale is tau's own.
    low = min(0.0, float(np.nanmin(values)))
    written = len(names) <= _WRITTEN
    image = heat_map(axes, values, (low, 1.0), written=written)
    numbers = [str(number + 1) for number in range(len(names))]
    axes.set_xticks(range(len(names)), numbers)
    axes.set_yticks(range(len(names)), numbers)
    if not written:
        figure.colorbar(image, ax=axes)
    axes.set_title(title)
    said = "above the diagonal: Kendall's τ; below: τ by seed noise alone"
    axes.set_xlabel("\n".join([*key, said]))
    return figure.with_data(found)


def _scatter(axes: Axes, found: Reranking) -> pd.DataFrame:
    before, after = found.before.means, found.after.means
    low, high = _sensible_range(np.concatenate([before, after]))
    many = len(before) > _VECTOR_POINTS
    axes.plot(
        before,
        after,
        ".",
        color=COLOURS[0],
        markersize=2 if many else 6,
        alpha=0.35 if many else 0.7,
        markeredgewidth=0,
        rasterized=many,
    )
    identity_line(axes, low, high)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    hidden = int(((before < low) | (after < low)).sum())
    below = f"\n({hidden} more below)" if hidden else ""
    axes.set_xlabel(f"{_short(found.before.name)} (%){below}")
    axes.set_ylabel(f"{_short(found.after.name)} (%)")
    data = _tidy("accuracy", found, x=before, y=after)
    data["index"] = found.before.cells
    return data


def _tau_curve(axes: Axes, found: Reranking) -> pd.DataFrame:
    curve = found.curve.dropna(subset=["tau"])
    place = curve["top_percent"]
    data = [
        _tidy("tau", found, x=place, y=curve["tau"], low=curve["tau_low"], high=curve["tau_high"])
    ]
    if curve["noise"].notna().any():
        low, high = curve["noise_low"], curve["noise_high"]
        axes.fill_between(place, low, high, color=_NOISE, alpha=0.3, linewidth=0)
        axes.plot(place, curve["noise"], "--", color=_NOISE, label="seed noise alone")
        noise = _tidy("seed noise alone", found, x=place, y=curve["noise"], low=low, high=high)
        data.append(noise)
    _draw_tau(axes, curve, _short(found.after.name, 36))
    axes.set_xlabel(f"top K % by {_short(found.before.name, 36)}")
    return pd.concat(data, ignore_index=True)


def _draw_tau(axes: Axes, curve: pd.DataFrame, label: str) -> None:
    """Draw tau and its interval, from all cells on the left to the best on the right."""
    axes.set_ylabel("Kendall's τ")
    if curve.empty:
        axes.text(0.5, 0.5, "too few cells", ha="center", va="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return
    place, low, high = curve["top_percent"], curve["tau_low"], curve["tau_high"]
    axes.fill_between(place, low, high, color=_AFTER["color"], alpha=0.2, linewidth=0)
    axes.plot(place, curve["tau"], **_AFTER, label=label)
    axes.invert_xaxis()


def _gap_histogram(axes: Axes, found: Reranking) -> pd.DataFrame:
    sides = [(one.name, one.means) for one in (found.before, found.after)]
    longest = max(np.quantile(values, 0.98) - np.quantile(values, 0.1) for _, values in sides)
    n_bins = 30 if len(found.before.cells) >= 100 else 12
    edges = np.linspace(0, max(float(longest), 1e-3), n_bins + 1)
    data = []
    for (name, values), series, line in zip(sides, (_BEFORE, _AFTER), ("--", "-"), strict=True):
        pairs = len(values) * (len(values) - 1) / 2
        share = 100 * gap_counts(values, edges) / max(pairs, 1)
        axes.stairs(share, edges, color=series["color"], linestyle=line, label=_short(name))
        data.append(_tidy(f"gaps, {name}", found, x=edges[:-1], y=share))
    axes.set_xlabel("gap of two cells (points)")
    axes.set_ylabel("pairs (%)")
    key_above(axes)
    return pd.concat(data, ignore_index=True)


def _sensible_range(values: np.ndarray) -> tuple[float, float]:
    """Axis limits that show nearly all cells: the few that failed to train would hide the rest."""
    high = float(values.max())
    low = float(np.quantile(values, 0.02)) if len(values) >= 100 else float(values.min())
    margin = max(0.04 * (high - low), 0.05)
    return low - margin, high + margin


def _tidy(series: str, found: Reranking, **columns: object) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(
        {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    )
    table.insert(0, "series", series)
    table.insert(0, "dataset", found.dataset)
    return table


def _short(name: str, longest: int = 20) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
