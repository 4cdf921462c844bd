"""Import of the package ``cells`` next to this package, even if another module has its name."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Final

__all__ = ["keep_own_cells"]

_OURS: Final = Path(__file__).resolve().parents[1] / "cells" / "__init__.py"


def keep_own_cells() -> None:
    """Make ``import cells`` load the package of rebench, even if a user's ``cells.py`` is first.

    Raises:
        ImportError: another module called ``cells`` is loaded already.
    """
    loaded = sys.modules.get("cells")
    found = importlib.util.find_spec("cells") if loaded is None else loaded.__spec__
    origin = getattr(found, "origin", None) or getattr(loaded, "__file__", None)
    if not _OURS.is_file() or (origin is not None and Path(origin).resolve() == _OURS):
        return
    if loaded is not None:
        raise ImportError(
            f"rebench needs its own package cells, and {origin} hides it: rename that file"
        )
    spec = importlib.util.spec_from_file_location("cells", _OURS)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["cells"] = module
    spec.loader.exec_module(module)
    if origin is not None:
        warnings.warn(
            f"rebench uses its own package cells: {origin} has the same name: rename it",
            stacklevel=3,
        )
