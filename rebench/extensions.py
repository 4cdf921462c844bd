"""How a recipe, an algorithm or a data set is found: in a file of ours, or in another package.

A package of the user's announces what it adds as an entry point, in its own ``pyproject.toml``::

    [project.entry-points."rebench.recipes"]
    mine = "my_package.my_recipes"
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import warnings
from pathlib import Path
from typing import Any, Literal, TypeAlias

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]  # Python 3.10 alone

__all__ = ["Kind", "announced", "entries", "import_modules"]

Kind: TypeAlias = Literal["recipes", "algorithms", "datasets"]


def entries(module: str, name: str) -> dict[str, Any]:
    """The entries of our TOML file of a name, beside a module by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


@functools.cache
def import_modules(package: str) -> None:
    """Import every module of a package of ours, so that what they register is known."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


@functools.cache
def announced(kind: Kind) -> tuple[object, ...]:
    """Load and return what installed packages announce as ``rebench.<kind>``.

    One that cannot be loaded is a warning that names it: it must not stop what does without it.
    """
    from importlib.metadata import entry_points  # no question of ours needs it

    found = []
    for entry in entry_points(group=f"rebench.{kind}"):
        try:
            found.append(entry.load())
        # Another's code, which may even end the process that imports it.
        except (Exception, SystemExit) as error:  # noqa: BLE001, PERF203
            origin = entry.dist.name if entry.dist is not None else "an unnamed package"
            warnings.warn(
                f"{origin} adds {entry.name} = {entry.value} to rebench.{kind}, which cannot be"
                f" loaded ({type(error).__name__}: {error}); it is left out",
                stacklevel=2,
            )
    return tuple(found)
