"""Common style of all figures, and saving in vector and bitmap formats with the data."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.rcsetup import cycler

from rebench.errors import InputError
from rebench.printable import printable, without_formulas

__all__ = [
    "COLOURS",
    "COLUMN_IN",
    "FORMATS",
    "MARKERS",
    "REFERENCE",
    "STYLE",
    "Drawing",
    "files_of",
    "heat_map",
    "identity_line",
    "key_above",
    "label",
    "mosaic",
    "new_figure",
    "series_style",
    "styled",
]

# Okabe and Ito's palette, distinct for all common kinds of colour blindness and in grey. Its yellow
# is omitted, because it is too pale for lines on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Series also differ by marker, so that figures can be read without colours.
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")

# Style of reference lines: equality, or no difference.
REFERENCE: Final[dict[str, Any]] = {
    "color": "#777777",
    "linewidth": 0.8,
    "linestyle": "--",
    "zorder": 1,
}

# Figures have the width of a column of a conference paper, so that their text keeps its size.
COLUMN_IN: Final = 3.3

FORMATS: Final = ("pdf", "svg", "png")

_FILE: Final = Path(__file__).with_name("house.mplstyle")
STYLE: Final = mpl.rc_params_from_file(_FILE, use_default_template=False)
STYLE["axes.prop_cycle"] = cycler(color=list(COLOURS))

# Width of a legend's entry without its letters, and width of a letter, in points.
_ENTRY_PT: Final = 24.0
_LETTER_PT: Final = 3.7
_TICKS_PT: Final = 26.0


def files_of(stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Return the files of a figure: one for each format, and its data."""
    return [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*formats, "csv")]


class Drawing(Figure):
    """A figure with the data that it shows; notebooks display it, `save` writes both."""

    data: pd.DataFrame | None = None

    def save(self, path: str | Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
        """Save the figure under `path` (without a suffix) in every format, and its data as CSV.

        Files depend only on the figure (no dates, no random ids), so equal figures give equal
        files. Returns the paths written.
        """
        stem = Path(path)
        if stem.suffix[1:] in (*FORMATS, "csv"):
            raise InputError(f"the path of a figure must have no suffix, got {stem}: remove it")
        no_date = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
        *targets, table = files_of(stem, formats)
        layout = self.get_layout_engine()
        try:
            stem.parent.mkdir(parents=True, exist_ok=True)
            with mpl.rc_context(rc=STYLE):
                for target in targets:
                    self.savefig(target, metadata=no_date.get(target.suffix[1:]))
                    # All formats use the first layout, because a layout takes as long as drawing.
                    self.set_layout_engine("none")
            if self.data is not None:
                without_formulas(self.data).to_csv(table, index=False)
        finally:
            self.set_layout_engine(layout)
        return targets if self.data is None else [*targets, table]

    def with_data(self, data: pd.DataFrame) -> Drawing:
        """Set the data of the figure, and return it."""
        self.data = data
        return self

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture for a notebook, and its width in pixels."""
        picture = io.BytesIO()
        with mpl.rc_context(rc=STYLE):
            self.savefig(picture, format="png", metadata={"Software": None})
        return picture.getvalue(), {"width": round(self.get_figwidth() * _SCREEN_DPI)}


# Pixels of a notebook per inch of paper.
_SCREEN_DPI: Final = 150


styled = mpl.rc_context(STYLE)
"""Decorator: run a drawing function in the common style."""


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    width_in: float = COLUMN_IN,
    height_in: float = 2.2,
) -> tuple[Drawing, list[list[Axes]]]:
    """Return a figure and its axes as rows of columns; call it inside a `styled` function.

    The figure is not registered with pyplot, so it need not be closed.
    """
    figure = Drawing(figsize=(width_in, height_in), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def mosaic(
    *rows: str, height_in: float, ratios: Sequence[float] | None = None, aligned: int | None = None
) -> tuple[Drawing, list[Axes]]:
    """Return a figure and its panels, laid out as in ``"ab", "cc"``; several have letters.

    The heights of the rows are equal, or have the given ratios. Panels have a common left edge;
    the rows after the first `aligned` rows have separate left edges, because their tick labels may
    be long.
    """
    figure = Drawing(figsize=(COLUMN_IN, height_in), layout="constrained")
    heights = np.ones(len(rows)) if ratios is None else np.asarray(ratios)
    parts = [slice(None)] if aligned is None else [slice(aligned), slice(aligned, None)]
    shares = [float(heights[part].sum()) for part in parts]
    panels: dict[str, Axes] = {}
    for part, group in zip(
        parts, figure.subfigures(len(parts), squeeze=False, height_ratios=shares)[:, 0], strict=True
    ):
        panels |= group.subplot_mosaic("\n".join(rows[part]), height_ratios=heights[part])
    for letter, axes in panels.items() if len(panels) > 1 else ():
        # At the top left corner, left of a legend above the panel.
        axes.annotate(
            letter, (0, 1), (-7, 4), xycoords="axes fraction", textcoords="offset points",
            fontweight="bold", fontsize=8, ha="right", va="bottom",
        )  # fmt: skip
    return figure, [panels[letter] for letter in sorted(panels)]


def series_style(number: int) -> dict[str, Any]:
    """Return the colour and the marker of series `number`; the first 49 pairs are distinct."""
    turn, at = divmod(number, len(COLOURS))
    return {"color": COLOURS[at], "marker": MARKERS[(at + turn) % len(MARKERS)]}


def label(name: object, longest: int = 40) -> str:
    """Return a name for a figure: short, on one line, without formulas of matplotlib."""
    text = " ".join(printable(str(name)).split())
    if len(text) > longest:  # variants of a recipe differ at the end
        text = f"{text[: longest // 2]}…{text[len(text) - (longest - 1) // 2 :]}"
    return text.replace("$", r"\$")


def key_above(axes: Axes, *, title: str = "") -> None:
    """Put the legend above the panel, with the largest number of columns that fits."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    spec = axes.get_subplotspec()
    share = 1.0 if spec is None else len(spec.colspan) / spec.get_gridspec().ncols
    room = 72 * COLUMN_IN * share - _TICKS_PT
    widths = [_ENTRY_PT + _LETTER_PT * len(label) for label in labels]
    ncols = len(labels)
    while ncols > 1 and sum(map(max, np.array_split(widths, ncols))) > room:
        ncols -= 1
    axes.legend(
        handles, labels, title=title, alignment="left", loc="lower left", bbox_to_anchor=(0, 1),
        ncols=ncols,
    )  # fmt: skip


def heat_map(
    axes: Axes,
    values: npt.NDArray[np.float64],
    limits: tuple[float, float],
    *,
    lower_is_better: bool = False,
    written: bool = True,
    starred: npt.NDArray[np.bool_] | None = None,
) -> AxesImage:
    """Draw values as colours, better values lighter, and write each value into its field."""
    colours = "viridis_r" if lower_is_better else "viridis"
    low, high = limits
    image = axes.imshow(values, vmin=low, vmax=high, cmap=colours, aspect="auto")
    axes.grid(visible=False)
    stars = np.zeros(values.shape, dtype=bool) if starred is None else starred
    for (row, column), value in np.ndenumerate(values):
        if written and np.isfinite(value):
            light = np.mean(image.to_rgba(value)[:3])
            axes.text(
                column, row, f"{value:.2f}{'*' * int(stars[row, column])}",
                ha="center", va="center", fontsize=6,
                color="black" if light > 0.4 else "white",  # the stronger contrast
            )  # fmt: skip
    return image


def identity_line(axes: Axes, low: float, high: float) -> None:
    """Draw y = x between `low` and `high` as a thin dashed line."""
    axes.plot([low, high], [low, high], **REFERENCE)
