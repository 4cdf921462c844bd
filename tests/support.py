"""What tests share and import: the project's root and the folder of real data beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parent.parent


def shared_data() -> Path | None:
    """Return the folder of real data beside the project, or None where there is none."""
    folder = Path(os.environ.get("REBENCH_SHARED_DATA", PROJECT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def project_metadata() -> dict[str, Any]:
    """Return what ``pyproject.toml`` says of the project."""
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
