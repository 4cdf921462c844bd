"""Results that draw themselves: `plot()` looks up the function that draws them when it is called.

Results stand below figures in the layers, and most who compute one draw none: a result says by name
what draws it, and matplotlib is loaded by the first `plot()`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawable"]


class Drawable:
    """A result that a function of `rebench.figures` draws."""

    __slots__ = ()

    drawn_by: ClassVar[str]
    """``module:function``; the function takes the result."""

    def plot(self) -> Figure:
        """Return the figure of this result: notebooks show it, its ``save(path)`` writes files."""
        module, function = self.drawn_by.split(":")
        figure: Figure = getattr(importlib.import_module(module), function)(self)
        return figure
