"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe.

The names below are what people type; each is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cells import Cell
    from rebench.analysis import rank_agreement as rank
    from rebench.cell_space import space
    from rebench.nats import ReBench
    from rebench.recipes import learning_rate as lr
    from rebench.sweep import Trial
    from rebench.tables import Table
    from rebench.tables import open_table as open  # noqa: A004 - read as rebench.open
    from rebench.tables.collecting import collect
    from rebench.train import train

__all__ = [
    "Cell",
    "ReBench",
    "Table",
    "Trial",
    "__version__",
    "collect",
    "lr",
    "open",
    "rank",
    "space",
    "train",
]

__version__: str

_HOMES: Final = {
    "Cell": ("cells", "Cell"),
    "ReBench": ("rebench.nats", "ReBench"),
    "Table": ("rebench.tables", "Table"),
    "Trial": ("rebench.sweep", "Trial"),
    "collect": ("rebench.tables.collecting", "collect"),
    "lr": ("rebench.recipes", "learning_rate"),
    "open": ("rebench.tables", "open_table"),
    "rank": ("rebench.analysis", "rank_agreement"),
    "space": ("rebench.cell_space", "space"),
    "train": ("rebench.train", "train"),
}


def __getattr__(name: str) -> Any:
    """Load a public name; the version too, since most commands never need it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nas-rebench")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
