"""Measures of legibility, for every kind of figure in the column of a paper."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
from drawings import KINDS, drawing
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.legend import Legend

from rebench.report.figures.style import Drawing, series_style

pytestmark = pytest.mark.slow

# Width of a placed figure in inches, and size of its smallest text in points.
PLACED_IN, LEAST_PT = 3.3, 6
# Free room at each end of an axis, as a share of the data's extent; markers need some.
BEYOND = 0.08


# All tests of a figure run in one process, which draws it once.
FIGURES = [
    pytest.param(kind, marks=pytest.mark.xdist_group(f"figure: {kind}"), id=kind) for kind in KINDS
]


@pytest.fixture(scope="module", params=FIGURES)
def figure(request) -> Drawing:
    drawn = drawing(request.param)
    drawn.draw_without_rendering()
    return drawn


def legends(figure: Drawing) -> list[Legend]:
    return [one for axes in figure.axes if (one := axes.get_legend())] + list(figure.legends)


def drawn_points(axes: Axes) -> np.ndarray:
    """Return the positions of data on the paper, [points, 2]: lines, dots, intervals and areas."""
    found = [line.get_transform().transform(line.get_xydata()) for line in axes.lines]
    for one in axes.collections:
        to_paper = one.get_transform()
        if len(one.get_offsets()) > 1:
            found.append(one.get_offset_transform().transform(one.get_offsets()))
        else:
            found += [to_paper.transform(path.vertices) for path in one.get_paths()]
    found += [patch.get_transform().transform(patch.get_path().vertices) for patch in axes.patches]
    points = np.concatenate([np.empty((0, 2)), *found])
    inside = axes.bbox.padded(0.5)
    return points[[inside.contains(*point) for point in points]]


def test_text_is_six_points_where_the_figure_is_placed_in_a_column(figure, tmp_path):
    """Read the sizes of letters from the file, in which outlines are scaled by size / 100.

    Superscripts would be smaller, so figures must have none.
    """
    [written, *_] = figure.save(tmp_path / "figure", formats=("svg",))
    text = written.read_text()
    [width_pt] = re.findall(r'<svg[^>]* width="([\d.]+)pt"', text)
    sizes = {100 * float(size) for size in re.findall(r" scale\(([\d.]+) -[\d.]+\)", text)}
    placed = 72 * PLACED_IN / float(width_pt)
    assert sizes
    assert min(sizes) * placed >= LEAST_PT


def test_legends_cover_no_data(figure):
    for legend, axes in itertools.product(legends(figure), figure.axes):
        box = legend.get_window_extent()
        covered = [point for point in drawn_points(axes) if box.contains(*point)]
        assert not covered, [text.get_text() for text in legend.get_texts()]


def test_nothing_that_is_written_ends_outside_the_figure(figure):
    page = figure.bbox.padded(1)
    texts = [text for axes in figure.axes for text in (*axes.texts, axes.title) if text.get_text()]
    keys = [text for legend in legends(figure) for text in legend.get_texts()]
    for one in [*keys, *texts]:
        box = one.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1


def test_numbers_beside_an_axis_stand_apart(figure):
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for one, other in itertools.combinations(_shown_labels(axis), 2):
                assert not one.get_window_extent().overlaps(other.get_window_extent())


def _shown_labels(axis: Axis) -> list:
    if not axis.axes.axison:
        return []
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1
        for tick in axis.get_major_ticks()
        if tick.label1.get_visible() and tick.label1.get_text() and low <= tick.get_loc() <= high
    ]


def test_axes_end_where_the_data_end(figure):
    for axes in figure.axes:
        if not axes.axison or not axes.has_data():
            continue
        side_by_side = axes.get_shared_y_axes().get_siblings(axes)
        heights = np.concatenate([one.dataLim.intervaly for one in side_by_side])
        extents = {"x": axes.dataLim.intervalx, "y": (heights.min(), heights.max())}
        if axes.get_aspect() == 1:  # of equal scales, for the line of equality
            both = np.concatenate(list(extents.values()))
            extents = dict.fromkeys(extents, (both.min(), both.max()))
        for name, data in extents.items():
            axis = axes.xaxis if name == "x" else axes.yaxis
            if len(axis.get_ticklocs()) == 0:  # names instead of numbers
                continue
            scaled = axis.get_transform().transform
            low, high = scaled(np.sort(data))
            first, last = scaled(np.sort(axis.get_view_interval()))
            room = BEYOND * (high - low)
            assert first >= low - room, (axes.get_xlabel(), name)
            assert last <= high + room, (axes.get_xlabel(), name)


def _named_styles(axes: Axes) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the label of every series of a panel with its colour, marker and kind of line."""
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle
        if hasattr(line, "get_marker"):
            yield label, (to_hex(line.get_color()), line.get_marker(), line.get_linestyle())


def test_series_has_one_style_and_each_its_own(figure):
    in_figure: dict[str, set] = {}
    for axes in figure.axes:
        styles = list(_named_styles(axes))
        assert len({style for _, style in styles}) == len(styles)
        for label, style in styles:
            in_figure.setdefault(label, set()).add(style)
    assert all(len(different) == 1 for different in in_figure.values()), in_figure


def test_styles_repeat_after_49_series():
    styles = [tuple(series_style(place).values()) for place in range(50)]
    assert len(set(styles[:49])) == 49
    assert styles[49] == styles[0]


def test_measures_see_a_bad_figure():
    """Each of the measures above is broken on purpose: none of them holds of just any figure."""
    bad = drawing_of_old()
    bad.draw_without_rendering()
    for check in (
        test_legends_cover_no_data,
        test_axes_end_where_the_data_end,
        test_numbers_beside_an_axis_stand_apart,
        test_nothing_that_is_written_ends_outside_the_figure,
        test_series_has_one_style_and_each_its_own,
    ):
        with pytest.raises(AssertionError):
            check(bad)


def drawing_of_old() -> Drawing:
    """Return a figure with all faults: a legend on a curve, empty room, crowded numbers."""
    figure = Drawing(figsize=(3.3, 2))
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1, 1, 1], color="C0", label="one")
    axes.plot([0, 1, 2], [0, 1, 2], color="C0", label="other")
    axes.set_xlim(-5, 5)
    axes.set_xticks([0, 0.01, 0.02], ["100", "90", "80"])
    axes.text(0.9, 0.5, "a long name " * 5, transform=axes.transAxes)
    axes.legend(loc="center")
    return figure
