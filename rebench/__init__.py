"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe.

The names below are what people type; each is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from cells import Cell
    from rebench.analysis import rank_agreement as rank
    from rebench.cell_space import space
    from rebench.launch.session import status, submit
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
    "status",
    "submit",
    "train",
]

__version__: str

load_on_demand(__name__)


def __getattr__(name: str) -> str:
    """Return the version, which is looked up when it is asked for: most commands never need it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nas-rebench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
