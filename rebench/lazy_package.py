"""Packages whose public names are loaded when they are first asked for.

Such a package lists its names once, as imports under ``if TYPE_CHECKING:`` in its ``__init__``,
where type checkers and people read them, and ends in ``load_on_demand(__name__)``. Importing it, or
one light module of it, then costs nothing of what its other modules need.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["load_on_demand"]


def load_on_demand(package: str) -> None:
    """Load each name that `package` imports under ``if TYPE_CHECKING:`` when it is asked for."""
    sys.modules[package].__class__ = _LazyPackage


class _LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        homes = _homes(self.__name__)
        if name not in homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, attribute = homes[name]
        value = getattr(importlib.import_module(module), attribute)
        return self.__dict__.setdefault(name, value)

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a module binds it in its package: not over a public name that it shares, as
        # the function `study` of `rebench.analysis.study`.
        shared = isinstance(value, ModuleType) and not hasattr(value, "__path__")
        if not (shared and name in _homes(self.__name__)):
            super().__setattr__(name, value)

    def __call__(self, *args: Any, **options: Any) -> Any:
        # `rebench.train` is a function of `rebench` until the package of that name is imported.
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


@functools.cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Return for each public name the module that has it, and its name there."""
    source = Path(sys.modules[package].__file__ or "").read_text(encoding="utf-8")
    return {
        alias.asname or alias.name: (line.module or "", alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
