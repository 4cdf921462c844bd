"""Discovery of recipes, algorithms, data sets and clusters in all installed packages.

Another package announces its additions as entry points in its ``pyproject.toml``::

    [project.entry-points."rebench.recipes"]
    mine = "my_package.my_recipes"
"""

from __future__ import annotations

import functools
import importlib
import logging
import pkgutil
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]  # only for Python 3.10

__all__ = ["ExtensionKind", "announced", "entries", "import_modules"]

_log = logging.getLogger("rebench.extensions")

ExtensionKind: TypeAlias = Literal["recipes", "algorithms", "datasets", "clusters", "spaces"]


def entries(module: str, name: str) -> dict[str, Any]:
    """Return the entries of a TOML file in the folder of a module, given by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


@functools.cache
def import_modules(package: str) -> None:
    """Import every module of a rebench package, so that each registers its entries."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


@functools.cache
def announced(kind: ExtensionKind) -> tuple[object, ...]:
    """Load and return the objects that installed packages announce as ``rebench.<kind>``.

    An object that cannot be loaded gives a warning that names it; the others still work.
    """
    from importlib.metadata import entry_points  # most commands do not need it

    found = []
    for entry in entry_points(group=f"rebench.{kind}"):
        try:
            found.append(entry.load())
        # Foreign code can raise anything at import, SystemExit included.
        except (Exception, SystemExit) as error:  # noqa: BLE001, PERF203
            origin = entry.dist.name if entry.dist is not None else "an unnamed package"
            _log.warning(
                "rebench: warning: %s adds %s = %s to rebench.%s; it cannot be loaded (%s: %s) and"
                " is ignored: update or uninstall that package",
                origin, entry.name, entry.value, kind, type(error).__name__, error,
            )  # fmt: skip
    return tuple(found)
