"""Drawing of a cell as SVG text: its graph, its live and dead edges, and the depths of its paths.

The edges are data (`arrows`), so that other formats can draw the same picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from cells.graph import Graph
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3, SKIP

__all__ = [
    "HEIGHT",
    "OPERATIONS",
    "PALE",
    "RADIUS",
    "VERTEX_COLOUR",
    "VERTICES",
    "WIDTH",
    "Arrow",
    "arrows",
    "depths_text",
    "svg",
    "svg_pieces",
]

Point: TypeAlias = tuple[float, float]

WIDTH: Final = 480
HEIGHT: Final = 226
VERTICES: Final[tuple[Point, ...]] = ((40, 120), (173, 120), (307, 120), (440, 120))
"""Centres of the four vertices, in pixels from the top left corner."""
RADIUS: Final = 14
VERTEX_COLOUR: Final = "#3b4454"
PALE: Final = 0.4
"""Opacity of a dead edge."""

OPERATIONS: Final = {
    SKIP: ("skip", "#6b7280", "#9ca3af"),
    CONV_1X1: ("conv 1x1", "#0072b2", "#56b4e9"),
    CONV_3X3: ("conv 3x3", "#d55e00", "#ff9447"),
    AVG_POOL: ("avg pool", "#008563", "#2fc79a"),
}
"""Label of each operation, and its colour on a light and on a dark background."""

# Heights of the control points of curved edges: (target, source). Other edges are straight.
_BENDS: Final = {(3, 0): -62.0, (3, 1): 24.0, (2, 0): 222.0}
_TIP: Final = 9.0

# Programs without style sheets use the attributes of the shapes, which are the light colours.
_DARK: Final = "".join(f".cell .op{op}{{color:{dark}}}" for op, (_, _, dark) in OPERATIONS.items())
_HEAD: Final = (
    f'<svg xmlns="http://www.w3.org/2000/svg" class="cell" viewBox="0 0 {WIDTH} {HEIGHT}" '
    f'width="{WIDTH}" height="{HEIGHT}" role="img" font-family="sans-serif" font-size="14" '
    'fill="#1d2430" text-anchor="middle"><style>@media screen and (prefers-color-scheme:dark){'
    ".cell{fill:#e4e8ee}.cell .paper{fill:#171b22}"
    f".cell .vertex{{fill:#aab4c3}}{_DARK}}}</style>"
    f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Drawn edge: a quadratic curve, the corners of its tip, and the place below its label."""

    op: int
    live: bool
    start: Point
    control: Point
    end: Point
    tip: tuple[Point, Point, Point]
    label: Point


def arrows(graph: Graph) -> Iterator[Arrow]:
    """Yield the drawn edges of a graph of four vertices; dead edges first, below the others."""
    live = graph.edges(live=True)
    for edge in sorted(graph.edges(), key=live.__contains__):
        target, source, op = edge
        start, centre = VERTICES[source], VERTICES[target]
        bend = _BENDS.get((target, source), start[1])
        control = ((start[0] + centre[0]) / 2, bend)
        across, down = centre[0] - control[0], centre[1] - control[1]
        length = (across**2 + down**2) ** 0.5
        x, y = across / length, down / length
        point = (centre[0] - RADIUS * x, centre[1] - RADIUS * y)
        end = (point[0] - _TIP * x, point[1] - _TIP * y)
        left = (end[0] - _TIP * y / 2, end[1] + _TIP * x / 2)
        right = (end[0] + _TIP * y / 2, end[1] - _TIP * x / 2)
        middle = (start[1] + 2 * bend + centre[1]) / 4
        yield Arrow(
            op=op,
            live=edge in live,
            start=start,
            control=control,
            end=end,
            tip=(point, left, right),
            label=(control[0], middle - 7),
        )


def depths_text(graph: Graph) -> str:
    """Return the depths of all paths as text; a depth is the number of convolutions plus 1."""
    depths: list[str] = []
    for convolutions, count in enumerate(graph.depth_polynomial()):
        depths += [f"{convolutions + 1}"] * count
    if not depths:
        return "no path from 0 to 3"
    if len(depths) == 1:
        return f"1 path, of depth {depths[0]}"
    return f"{len(depths)} paths, of depths {', '.join(depths)}"


def svg_pieces(graph: Graph) -> list[str]:
    """Return the parts of the drawing without its title; their texts, joined, are the SVG.

    Drawings of many graphs share most of their parts.
    """
    return [
        _HEAD,
        *map(_edge_svg, arrows(graph)),
        "".join(map(_vertex_svg, range(len(VERTICES)))),
        _text_svg((WIDTH / 2, HEIGHT - 14), depths_text(graph)) + "</svg>",
    ]


def svg(graph: Graph) -> str:
    """Return the drawing with its title as the text of an SVG file."""
    head, *rest = svg_pieces(graph)
    title = f'<text x="8" y="18" text-anchor="start" font-weight="bold">{graph.title}</text>'
    return "".join([head, title, *rest])


def _edge_svg(arrow: Arrow) -> str:
    name, colour, _ = OPERATIONS[arrow.op]
    opacity = 1 if arrow.live else PALE
    curve = f"M{_at(arrow.start)}Q{_at(arrow.control)} {_at(arrow.end)}"
    tip = "L".join(map(_at, arrow.tip))
    line = f'<path d="{curve}" fill="none" stroke="currentColor" stroke-width="3"/>'
    return (
        f'<g class="op{arrow.op}" color="{colour}" opacity="{opacity}">{line}'
        f'<path d="M{tip}z" fill="currentColor"/>{_text_svg(arrow.label, name)}</g>'
    )


def _vertex_svg(vertex: int) -> str:
    x, y = VERTICES[vertex]
    circle = f'<circle class="vertex" cx="{x}" cy="{y}" r="{RADIUS}" fill="{VERTEX_COLOUR}"/>'
    return f'{circle}<text class="paper" x="{x}" y="{y + 5}" fill="#fff">{vertex}</text>'


def _text_svg(place: Point, text: str) -> str:
    return f'<text x="{place[0]:g}" y="{place[1]:g}">{text}</text>'


def _at(point: Point) -> str:
    return f"{point[0]:.4g} {point[1]:.4g}"
