"""The shared style: equal figures give equal files, colours stay apart, nothing leaks."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from rebench.errors import InputError
from rebench.report.figures.style import COLOURS, key_above, mosaic, new_figure, styled

DATA = pd.DataFrame({"x": [1, 2, 3], "tau": [0.5, 0.25, 0.125]})

# Linear-RGB simulation of the three dichromacies (Vienot, Brettel & Mollon 1999; tritan from
# Brettel et al. 1997 as one matrix), applied below to the palette.
DICHROMACIES = {
    "protan": [[0.112, 0.888, 0.0], [0.112, 0.888, 0.0], [0.004, -0.004, 1.0]],
    "deutan": [[0.292, 0.708, 0.0], [0.292, 0.708, 0.0], [-0.022, 0.022, 1.0]],
    "tritan": [[1.0, 0.152, -0.152], [0.0, 0.868, 0.132], [0.0, 0.868, 0.132]],
}


@styled
def _draw():
    figure, [[axes]] = new_figure()
    axes.plot(DATA["x"], DATA["tau"], label="tau")
    axes.legend()
    return figure


def test_figure_is_saved_as_vector_bitmap_and_data(tmp_path):
    written = _draw().with_data(DATA).save(tmp_path / "new" / "figure4")
    assert [path.name for path in written] == [f"figure4.{s}" for s in ("pdf", "svg", "png", "csv")]
    assert (tmp_path / "new" / "figure4.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "new" / "figure4.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "new" / "figure4.svg").read_text()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "new" / "figure4.csv"), DATA)


def test_equal_figures_give_equal_files(tmp_path):
    first = _draw().save(tmp_path / "a")
    second = _draw().save(tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_saved_figure_can_be_changed_and_is_laid_out_again(tmp_path):
    figure = _draw()
    figure.save(tmp_path / "once")
    [axes] = figure.axes
    left = axes.get_position().x0
    axes.set_ylabel("a label\nof two lines")
    figure.save(tmp_path / "again", formats=("png",))
    assert axes.get_position().x0 > left + 0.01


def test_style_does_not_leak_into_the_callers():
    before = dict(mpl.rcParams)
    _draw()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("kind", DICHROMACIES)
def test_colours_stay_apart_for_colour_blind_readers(kind):
    linear = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in COLOURS]) ** 2.2
    seen = np.clip(linear @ np.array(DICHROMACIES[kind]).T, 0, 1) ** (1 / 2.2)
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert closest > 0.1  # of a cube with sides 1; matplotlib's default colours give 0.04 (protan)


def test_a_suffix_in_the_path_is_refused(tmp_path):
    with pytest.raises(InputError, match="no suffix"):
        _draw().save(tmp_path / "figure4.png")


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        _draw().save(tmp_path / "file" / "figure4")


@styled
def _with_key(columns: int, labels: list[str]):
    _, [[axes, *_]] = new_figure(columns=columns)
    for label in labels:
        axes.plot([0, 1], label=label)
    key_above(axes)
    return axes.get_legend()


def test_panel_without_labels_has_no_legend():
    assert _with_key(1, []) is None


@pytest.mark.parametrize(
    ("columns", "labels", "expected"),
    [
        (1, ["x" * 10] * 3, 3),  # 3 x (24 + 37) pt of 72 x 3.3 - 26 = 211.6
        (1, ["x" * 10] * 4, 3),
        (1, [*["x" * 5] * 4, "x" * 4], 5),  # 5 x 24 + 24 x 3.7 = 208.8
        (1, ["x" * 5] * 5, 4),  # 5 x 24 + 25 x 3.7 = 212.5
        (1, ["x" * 16] * 4, 2),
        (1, ["x" * 100] * 2, 1),
        (2, ["x" * 10] * 3, 1),  # 92.8 pt of half the width
    ],
)
def test_legend_has_as_many_columns_as_there_is_room_for(columns, labels, expected):
    assert _with_key(columns, labels)._ncols == expected


def test_letters_of_panels_stand_at_the_top_left_corner_in_points():
    _, panels = mosaic("ab", "cc", height_in=2)
    letters = [axes.texts[0] for axes in panels]
    assert [text.get_text() for text in letters] == ["a", "b", "c"]
    assert {(text.xy, text.xyann, text.get_ha(), text.get_va()) for text in letters} == {
        ((0, 1), (-7, 4), "right", "bottom")
    }
    _, [alone] = mosaic("a", height_in=2)
    assert not alone.texts
