"""Figures of re-ranking: the forms of the paper's figures 4, 8 and 9 for any recipe and data set.

Chen et al. (ICLR 2024). Every function takes what `rebench.analysis.rerank` found, draws one
figure with its intervals, and saves it with its data: `save_figure` says in which formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from cells import trainable_networks
from rebench.analysis import Reranking, cell_means, gap_counts, improvement_by
from rebench.analysis.improvement import FEATURES, features
from rebench.errors import InputError
from rebench.figures.style import (
    COLOURS,
    COLUMN_IN,
    DATASET_NAMES,
    MARKERS,
    PAGE_IN,
    identity_line,
    new_figure,
    panel_letter,
    save_figure,
    styled,
)

__all__ = [
    "draw_contrasts",
    "draw_head_to_head",
    "draw_improvement",
    "draw_reranking",
    "draw_seeds",
]

_FORMATS = ("pdf", "svg", "png")
_NOISE = "#9a9a9a"
# More points than this are drawn as an image inside the vector figure.
_VECTOR_POINTS = 3000


@styled
def draw_reranking(
    found: Reranking | Sequence[Reranking], path: Path, *, formats: tuple[str, ...] = _FORMATS
) -> list[Path]:
    """Draw figure 4, a row per comparison: accuracies, tau against top K %, pairwise gaps.

    The band around tau is its bootstrap interval; the grey band is what seed noise alone gives.
    """
    rows = [found] if isinstance(found, Reranking) else list(found)
    if not rows:
        raise InputError("a figure needs one comparison at least")
    figure, axes = new_figure(len(rows), 3, height_in=0.3 + 2.1 * len(rows))
    data = []
    for row, (left, middle, right) in zip(rows, axes, strict=True):
        data += [_scatter(left, row), _tau_curve(middle, row), _gap_histogram(right, row)]
        left.set_title(DATASET_NAMES.get(row.dataset, row.dataset), loc="right")
    for letter, axis in zip("abc", axes[0], strict=True):
        panel_letter(axis, letter)
    return save_figure(figure, path, pd.concat(data, ignore_index=True), formats=formats)


@styled
def draw_head_to_head(
    found: Reranking, path: Path, *, formats: tuple[str, ...] = _FORMATS
) -> list[Path]:
    """Draw figure 8: one recipe against another (muP, say), cell by cell, and the differences."""
    figure, [[left, right]] = new_figure(1, 2, width_in=PAGE_IN * 0.72)
    data = [_scatter(left, found)]
    difference = cell_means(found.after.runs) - cell_means(found.before.runs)
    counts, edges = np.histogram(difference, bins=min(40, max(8, len(difference) // 8)))
    right.stairs(counts, edges, fill=True, color=COLOURS[0], alpha=0.75)
    row = found.improvement
    right.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
    right.axvspan(row["low"], row["high"], color=COLOURS[1], alpha=0.35, linewidth=0)
    right.axvline(row["difference"], color=COLOURS[1], label=f"mean {row['difference']:+.2f}")
    right.set_xlabel("difference in accuracy (points)")
    right.set_ylabel("cells")
    right.legend()
    data.append(_tidy("difference", found, x=edges[:-1], y=counts.astype(float)))
    panel_letter(left, "a")
    panel_letter(right, "b")
    return save_figure(figure, path, pd.concat(data, ignore_index=True), formats=formats)


@styled
def draw_seeds(found: Reranking, path: Path, *, formats: tuple[str, ...] = _FORMATS) -> list[Path]:
    """Draw figure 9: our tau against top K %, beside the tau between the benchmark's seeds."""
    figure, [[axes]] = new_figure(width_in=COLUMN_IN, height_in=2.6)
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
            color=COLOURS[2 + place % 4],
            marker=MARKERS[2 + place % 4],
            linestyle=":",
            linewidth=1,
            label=f"seeds {name}",
        )
        data.append(_tidy(f"seeds {name}", found, x=curve.index, y=curve.to_numpy()))
    axes.legend(loc="lower left")
    return save_figure(figure, path, pd.concat(data, ignore_index=True), formats=formats)


@styled
def draw_improvement(
    found: Reranking, path: Path, *, formats: tuple[str, ...] = _FORMATS
) -> list[Path]:
    """Draw the mean improvement against path count, depth, multiplier and cost, with intervals."""
    figure, [axes] = new_figure(1, len(FEATURES), height_in=2.0)
    known = features(found.before.cells)
    classes = trainable_networks(found.before.cells)
    data = []
    for axis, (name, label) in zip(axes, FEATURES.items(), strict=True):
        table = improvement_by(
            found.before.runs, found.after.runs, known[name].to_numpy(), classes=classes
        )
        centre = (table["low"] + table["high"]) / 2
        spread = [
            table["difference"] - table["difference_low"],
            table["difference_high"] - table["difference"],
        ]
        axis.errorbar(
            centre,
            table["difference"],
            yerr=np.nan_to_num(spread),
            fmt="o-",
            capsize=2,
            linewidth=1,
        )
        axis.axhline(0, color="#444444", linewidth=0.8, linestyle="--")
        axis.set_xlabel(label)
        data.append(table.assign(feature=name))
    axes[0].set_ylabel("improvement (points)")
    for axis in axes[1:]:
        axis.sharey(axes[0])
        axis.tick_params(labelleft=False)
    return save_figure(figure, path, pd.concat(data, ignore_index=True), formats=formats)


@styled
def draw_contrasts(
    table: pd.DataFrame, path: Path, *, formats: tuple[str, ...] = _FORMATS
) -> list[Path]:
    """Draw recipes against their controls: mean paired differences with intervals, one a line."""
    if table.empty:
        raise InputError("no contrast to draw: fewer than two recipes")
    figure, [[axes]] = new_figure(width_in=PAGE_IN * 0.72, height_in=0.7 + 0.24 * len(table))
    place = np.arange(len(table))[::-1]
    spread = [table["difference"] - table["low"], table["high"] - table["difference"]]
    axes.errorbar(table["difference"], place, xerr=np.nan_to_num(spread), fmt="o", capsize=2)
    axes.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
    labels = [f"{a} minus {b}" for a, b in zip(table["after"], table["before"], strict=True)]
    axes.set_yticks(place, labels)
    axes.set_ylim(-0.7, len(table) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("difference in accuracy (points, 95 % interval)")
    return save_figure(figure, path, table, formats=formats)


def _scatter(axes: Axes, found: Reranking) -> pd.DataFrame:
    before, after = cell_means(found.before.runs), cell_means(found.after.runs)
    low, high = _sensible_range(np.concatenate([before, after]))
    many = len(before) > _VECTOR_POINTS
    axes.plot(
        before,
        after,
        ".",
        color=COLOURS[0],
        markersize=1.5 if many else 4,
        alpha=0.35 if many else 0.7,
        markeredgewidth=0,
        rasterized=many,
    )
    identity_line(axes, low, high)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set_xlabel(f"{_short(found.before.name)}, accuracy (%)")
    axes.set_ylabel(f"{_short(found.after.name)}, accuracy (%)")
    hidden = int(((before < low) | (after < low)).sum())
    if hidden:
        axes.annotate(
            f"{hidden} cells below",
            (0.03, 0.94),
            xycoords="axes fraction",
            fontsize=6,
            color="#555",
        )
    data = _tidy("accuracy", found, x=before, y=after)
    data["index"] = found.before.cells
    return data


def _tau_curve(axes: Axes, found: Reranking) -> pd.DataFrame:
    curve = found.curve.dropna(subset=["tau"])
    place = curve["top_percent"]
    data = [
        _tidy("tau", found, x=place, y=curve["tau"], low=curve["tau_low"], high=curve["tau_high"])
    ]
    if "null_tau" in curve:
        axes.fill_between(
            place, curve["null_low"], curve["null_high"], color=_NOISE, alpha=0.3, linewidth=0
        )
        axes.plot(place, curve["null_tau"], "--", color=_NOISE, label="seed noise alone")
        data.append(
            _tidy(
                "seed noise alone",
                found,
                x=place,
                y=curve["null_tau"],
                low=curve["null_low"],
                high=curve["null_high"],
            )
        )
    axes.fill_between(
        place, curve["tau_low"], curve["tau_high"], color=COLOURS[1], alpha=0.2, linewidth=0
    )
    axes.plot(place, curve["tau"], "o-", color=COLOURS[1], label=_short(found.after.name))
    axes.set_xlim(102, -2)
    lowest = float(np.nanmin([series["low"].min() for series in data])) if len(curve) else 0.0
    axes.set_ylim(min(0.0, 1.1 * lowest) if lowest < 0 else 0.0, 1.02)
    axes.set_xlabel(f"top K % by {_short(found.before.name)}")
    axes.set_ylabel("Kendall's τ")
    axes.legend(loc="lower left")
    return pd.concat(data, ignore_index=True)


def _gap_histogram(axes: Axes, found: Reranking) -> pd.DataFrame:
    sides = {
        _short(found.before.name): cell_means(found.before.runs),
        _short(found.after.name): cell_means(found.after.runs),
    }
    longest = max(np.quantile(values, 0.98) - np.quantile(values, 0.1) for values in sides.values())
    n_bins = 30 if len(found.before.cells) >= 100 else 12
    edges = np.linspace(0, max(float(longest), 1e-3), n_bins + 1)
    data = []
    for (name, values), colour, style in zip(sides.items(), COLOURS, ("--", "-"), strict=False):
        pairs = len(values) * (len(values) - 1) / 2
        share = 100 * gap_counts(values, edges) / max(pairs, 1)
        axes.stairs(share, edges, color=colour, linestyle=style, label=name, linewidth=1.3)
        data.append(_tidy(f"gaps, {name}", found, x=edges[:-1], y=share))
    axes.set_xlim(0, edges[-1])
    axes.set_xlabel("gap between two cells (points)")
    axes.set_ylabel("pairs (%)")
    axes.legend(loc="upper right")
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


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"
