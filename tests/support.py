"""Helpers that tests import: the project's root, real data and processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parent.parent


def shared_data() -> Path | None:
    """Return the folder of real data in REBENCH_SHARED_DATA, or None if the variable is not set.

    A relative folder counts from the project's root. A test that can use generated data instead
    calls this function and is marked `shared_data`; a test that needs real data uses the fixture
    `real_data`.
    """
    named = os.environ.get("REBENCH_SHARED_DATA")
    if not named:
        return None
    folder = (PROJECT / named).resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"REBENCH_SHARED_DATA must name a folder, got {named}")
    return folder


def project_metadata(*tool: str) -> dict[str, Any]:
    """Return the table of the project, or of a tool, in ``pyproject.toml``."""
    told = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return told["tool"][tool[0]] if tool else told["project"]


def python(
    *arguments: object, folder: Path = PROJECT, path: Sequence[Path] = (PROJECT,), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with `path` before all other modules; any exit code is accepted."""
    found = os.pathsep.join(filter(None, [*map(str, path), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": found, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def run_here(
    *arguments: object, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run a rebench command in this process, so that libraries are imported only once."""
    from rebench.cli import main

    words, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        unittest.mock.patch.dict(os.environ, {**environment}, clear=True),
    ):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def json_of(*arguments: object) -> Any:
    """Return the page that a rebench command prints with ``--json``; the command must succeed."""
    done = run_here(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal_of(*arguments: object, code: int = 2) -> str:
    """Return the only line that a rebench command prints if it refuses, with this exit code."""
    done = run_here(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    return done.stderr


@contextlib.contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """Mount a disk of its own at a folder, with options of tmpfs; skip the test without rights."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip() or 'not root'}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
