"""One look for every figure, and one way to save it: vector, bitmap and the data beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from rebench.errors import InputError, StoreError

__all__ = [
    "COLOURS",
    "COLUMN_IN",
    "DATASET_NAMES",
    "MARKERS",
    "PAGE_IN",
    "STYLE",
    "identity_line",
    "new_figure",
    "panel_letter",
    "save_figure",
    "styled",
]

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's palette: distinct for all common kinds of colour blindness, and in grey. Its
# yellow is left out: it is too pale for lines on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Series differ by marker too, so that no figure needs its colours to be read.
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")

# Widths, in inches, of one column and of the full page of a conference paper.
COLUMN_IN: Final = 3.4
PAGE_IN: Final = 7.0

DATASET_NAMES: Final[Mapping[str, str]] = {
    "cifar10": "CIFAR-10",
    "cifar10-valid": "CIFAR-10 (25k/25k)",
    "cifar100": "CIFAR-100",
    "ImageNet16-120": "ImageNet16-120",
    "digits": "digits",
    "fashion": "Fashion-MNIST",
}

STYLE: Final[dict[str, object]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=list(COLOURS)),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "figure.dpi": 100,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,  # text stays text for editors and reviewers' searches
    "savefig.dpi": 200,
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "rebench",  # equal data gives equal files
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Make a drawing function run under the shared style, whatever the caller's own style is."""

    @functools.wraps(draw)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(rc=STYLE):  # type: ignore[arg-type]  # rc names are plain strings
            return draw(*args, **kwargs)

    return run


def new_figure(
    rows: int = 1, columns: int = 1, *, width_in: float = PAGE_IN, height_in: float = 2.3
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its axes as rows of columns; call it inside a `styled` function.

    The figure is its own object: nothing is registered with pyplot, so nothing must be closed.
    """
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def panel_letter(axes: Axes, letter: str) -> None:
    """Write a bold panel letter over the top left corner of `axes`."""
    axes.set_title(letter, loc="left", fontweight="bold")


def identity_line(axes: Axes, low: float, high: float) -> None:
    """Draw y = x between `low` and `high` as a thin dashed line."""
    axes.plot([low, high], [low, high], color="#777777", linewidth=0.8, linestyle="--", zorder=1)


def save_figure(
    figure: Figure,
    path: str | Path,
    data: pd.DataFrame | None = None,
    *,
    formats: tuple[str, ...] = ("pdf", "svg", "png"),
) -> list[Path]:
    """Save `figure` under `path` (without a suffix) in every format, and `data` as CSV beside it.

    Files depend on the figure alone (no dates, no random ids), so an equal figure gives equal
    files. Returns the paths written.
    """
    stem = Path(path)
    if stem.suffix in {".pdf", ".svg", ".png", ".csv"}:
        raise InputError(f"a figure's path has no suffix (the formats add theirs), got {stem}")
    no_date = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
    written = []
    layout = figure.get_layout_engine()
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(rc=STYLE):  # type: ignore[arg-type]  # rc names are plain strings
            for suffix in formats:
                target = stem.with_name(f"{stem.name}.{suffix}")
                figure.savefig(target, metadata=no_date.get(suffix))
                written.append(target)
                # Laying out takes as long as drawing; every format has the layout of the first.
                figure.set_layout_engine("none")
        if data is not None:
            table = stem.with_name(f"{stem.name}.csv")
            data.to_csv(table, index=False)
            written.append(table)
    except OSError as error:
        raise StoreError(f"cannot write the figure {stem}: {error}") from error
    finally:
        figure.set_layout_engine(layout)
    return written
