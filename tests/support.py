"""What tests share and import: the project's root, real data, and the browser."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import unittest.mock
from collections.abc import Mapping
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
    """The folder of real data that REBENCH_SHARED_DATA names, or None where it is not set.

    A relative folder counts from the project's root. A test that has a stand-in asks this and is
    marked `shared_data`; one that has none asks the fixture `real_data`.
    """
    named = os.environ.get("REBENCH_SHARED_DATA")
    if not named:
        return None
    folder = (PROJECT / named).resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"REBENCH_SHARED_DATA must name a folder, got {named}")
    return folder


def project_metadata(*tool: str) -> dict[str, Any]:
    """What ``pyproject.toml`` says of the project, or of a tool."""
    told = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return told["tool"][tool[0]] if tool else told["project"]


def run_here(
    *arguments: object, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run a rebench command in this process, where its libraries are imported once."""
    from rebench.cli import main

    words, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        unittest.mock.patch.dict(os.environ, {**environment}, clear=True),
    ):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
