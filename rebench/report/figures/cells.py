"""Figure of a cell for papers: the drawing of `cells.drawing` by matplotlib."""

from __future__ import annotations

from matplotlib.patches import Circle, PathPatch, Polygon
from matplotlib.path import Path

from cells import Cell
from cells.drawing import (
    HEIGHT,
    OPERATIONS,
    PALE,
    RADIUS,
    VERTEX_COLOUR,
    VERTICES,
    WIDTH,
    arrows,
    depths_text,
)
from rebench.report.figures.style import Drawing, styled

__all__ = ["draw_cell"]


@styled
def draw_cell(cell: Cell) -> Drawing:
    """Draw the graph of a cell: operations, live and dead edges, and depths of its paths."""
    figure = Drawing(figsize=(WIDTH / 144, HEIGHT / 144))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.set_axis_off()
    for arrow in arrows(cell):
        name, colour, _ = OPERATIONS[arrow.op]
        alpha = 1 if arrow.live else PALE
        curve = Path(
            [arrow.start, arrow.control, arrow.end], [Path.MOVETO, Path.CURVE3, Path.CURVE3]
        )
        axes.add_patch(
            PathPatch(curve, edgecolor=colour, facecolor="none", linewidth=1.5, alpha=alpha)
        )
        axes.add_patch(Polygon(arrow.tip, facecolor=colour, edgecolor="none", alpha=alpha))
        axes.text(*arrow.label, name, ha="center", va="bottom", alpha=alpha)
    for vertex, centre in enumerate(VERTICES):
        axes.add_patch(Circle(centre, RADIUS, facecolor=VERTEX_COLOUR, edgecolor="none", zorder=2))
        axes.text(*centre, str(vertex), color="white", ha="center", va="center", zorder=3)
    axes.text(WIDTH / 2, HEIGHT - 14, depths_text(cell), ha="center")
    axes.text(8, 18, cell.title, weight="bold")
    return figure
