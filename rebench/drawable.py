"""Base class of results that have a figure.

The modules of results may not import the modules of figures, and most results are never drawn. So
the root of the package sets the function that draws. The first `plot()` loads matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawable"]


class Drawable:
    """Result with a figure in `rebench.report.figures`; `str(result)` gives the finding."""

    __slots__ = ()

    drawer: ClassVar[Callable[..., Figure]]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def plot(self, *name: str) -> Figure:
        """Return a figure of this result; notebooks show it, and ``save(path)`` writes files.

        Args:
            name: figure of a rank comparison: ``reranking``, ``curve`` (tau over K) or
                ``differences``; of a comparison of algorithms: ``anytime``, ``ranks`` or
                ``rerank`` (for two tables). The default is the first name.
        """
        return Drawable.drawer(self, *name)
