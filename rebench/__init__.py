"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe.

The names below are what people type; each is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rebench.drawable import Drawable as _Drawable
from rebench.shadow import keep_own_cells as _keep_own_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure as _Figure

_keep_own_cells()

# name -> the module that has it, and its name there; their types are in `__init__.pyi`
_HOMES: Final = {
    "Cell": ("cells", "Cell"),
    "ReBench": ("rebench.nats", "ReBench"),
    "Table": ("rebench.tables", "Table"),
    "Trial": ("rebench.runs", "Trial"),
    "collect": ("rebench.tables.collecting", "collect"),
    "compare": ("rebench.analysis", "compare"),
    "lr": ("rebench.recipes", "learning_rate"),
    "open": ("rebench.tables", "open_any"),
    "space": ("rebench.cell_space", "space"),
    "status": ("rebench.launch.status", "status"),
    "submit": ("rebench.launch.submit", "submit"),
}

__all__ = sorted([*_HOMES, "__version__"])


def _draw(result: object) -> _Figure:
    """Draw a result: figures stand above what they draw, and this package above both."""
    from rebench.report.figures.drawers import draw

    return draw(result)


_Drawable.drawer = staticmethod(_draw)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from rebench.version import version

        return version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
