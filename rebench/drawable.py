"""Base class of results that have a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawable"]


class Drawable:
    """Result with a figure (`rebench.report.draw`); `str(result)` gives the finding."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def plot(self, *name: str) -> Figure:
        """Return a figure of this result; notebooks show it, and ``save(path)`` writes files.

        Args:
            name: figure of a rank comparison: ``reranking``, ``curve`` (tau over K) or
                ``differences``; of a comparison of algorithms: ``anytime``, ``ranks`` or
                ``rerank`` (for two tables). The default is the first name.
        """
        # Most results are never drawn, and matplotlib takes a second to load.
        from rebench.report.figures.drawers import draw

        return draw(self, *name)
