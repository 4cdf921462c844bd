"""The drawing of a cell: its edges, labels and depths, as an SVG that a browser can read."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from cells import Cell, all_cells
from cells.drawing import VERTICES, arrows, depths_text, svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(cell: Cell) -> ET.Element:
    return ET.fromstring(cell._repr_svg_())


def edges(cell: Cell) -> list[tuple[str, bool]]:
    """Return the label of each drawn edge, and whether it is pale, in the order of drawing."""
    groups = drawn(cell).findall(f"{SVG}g")
    return [(group.find(f"{SVG}text").text, group.attrib["opacity"] != "1") for group in groups]


def test_every_edge_has_a_label_and_dead_edges_are_pale_below_the_others():
    """In 3_33_130 vertex 2 leads nowhere: its two edges are dead."""
    assert edges(Cell.parse("3_33_130")) == [
        ("conv 3x3", True),
        ("conv 3x3", True),
        ("conv 3x3", False),
        ("skip", False),
        ("conv 3x3", False),
    ]
    assert [name for name, _ in edges(Cell.parse("4_21_000"))] == ["avg pool", "conv 1x1", "skip"]
    assert edges(Cell.parse("0_00_000")) == []


def test_title_and_depths_are_written():
    """Cell 1696 has three paths without and one path with a convolution."""
    texts = [text.text for text in drawn(Cell.from_index(1696)).iter(f"{SVG}text")]
    assert (texts[0], texts[-1]) == ("cell 1696", "4 paths, of depths 1, 1, 1, 2")
    assert depths_text(Cell.parse("0_00_000")) == "no path from 0 to 3"
    assert depths_text(Cell.parse("0_00_300")) == "1 path, of depth 2"


def test_an_arrow_leads_from_its_source_to_the_border_of_its_target():
    [arrow] = arrows(Cell.parse("0_00_030"))
    assert arrow.start == VERTICES[1]
    x, y = arrow.tip[0]
    assert (x - VERTICES[3][0]) ** 2 + (y - VERTICES[3][1]) ** 2 == pytest.approx(14**2)
    assert arrow.end[0] < x


def test_every_cell_can_be_drawn_in_a_small_text():
    assert max(len(svg(cell)) for cell in all_cells()) < 4000
