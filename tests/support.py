"""What tests share and import: the project's root, real data beside it, and the browser."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parent.parent
# The browser of tests marked `browser`, or nothing.
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


def shared_data() -> Path | None:
    """Return the folder of real data beside the project, or None where there is none."""
    folder = Path(os.environ.get("REBENCH_SHARED_DATA", PROJECT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def project_metadata() -> dict[str, Any]:
    """Return what ``pyproject.toml`` says of the project."""
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
