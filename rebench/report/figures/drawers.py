"""The function that draws each kind of result."""

from __future__ import annotations

import functools

from rebench.analysis import Reranking
from rebench.report.figures.ranking import draw_comparison
from rebench.report.figures.search import draw_search
from rebench.report.figures.style import Drawing
from rebench.search.comparison import Compared, Comparison

__all__ = ["draw"]


@functools.singledispatch
def draw(result: object, *_: str) -> Drawing:
    """Draw a result by its class, and by name if it has several figures."""
    raise TypeError(f"no figure of a {type(result).__name__}")


draw.register(Reranking, draw_comparison)
draw.register(Comparison, lambda comparison, *name: draw_search([comparison], *name))
draw.register(Compared, lambda compared, *name: draw_search(compared.results, *name))
