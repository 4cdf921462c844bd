"""Results that draw themselves.

Results stand below figures in the layers, and most who compute one draw none. So the root of the
package, above both, passes what draws them; matplotlib is loaded by the first `plot()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawable"]


class Drawable:
    """A result of which `rebench.report.figures` has a figure; it says itself what was found."""

    __slots__ = ()

    drawer: ClassVar[Callable[..., Figure]]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def plot(self, *name: str) -> Figure:
        """Return a figure of this result; notebooks show it, and ``save(path)`` writes files.

        Args:
            name: figure of a rank comparison: ``reranking``, ``curve`` (tau over K) or
                ``differences``; of a comparison of algorithms: ``anytime``, ``ranks`` or
                ``rerank``. The first of them if not given.
        """
        return Drawable.drawer(self, *name)
