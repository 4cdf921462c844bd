"""Fixtures that many tests use, and a quiet, fixed environment."""

from __future__ import annotations

import http.server
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import shared_data

from rebench.machine import search_garbage_rarely

# What a private cluster runs (slurm/cluster); the last two only with accounting.
_SLURM = ("munged", "sbatch", "slurmctld", "slurmd", "mariadbd", "slurmdbd")
_OF_TERMINALS = {
    "CI",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "LINES",
    "NO_COLOR",
    "PY_COLORS",
    "TERM",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
}
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The terminal, CI and SLURM job in which the tests are started are not those of the tests.
for _name in [*os.environ]:
    if _name in _OF_TERMINALS or _name.startswith("SLURM"):
        del os.environ[_name]
search_garbage_rarely()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with the fixture `real_data` as `shared_data`, skip tests, and sort them.

    Tests whose programs are missing are skipped. The longest tests come first, so that at the end
    all processes have work.
    """
    path = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin:/sbin"
    for item in items:
        if item.get_closest_marker("slurm"):
            item.add_marker(pytest.mark.needs(*_SLURM))
        programs = [name for marker in item.iter_markers("needs") for name in marker.args]
        missing = [name for name in programs if not shutil.which(name, path=path)]
        if missing:
            reason = f"needs {', '.join(missing)}, of a package in .ci/packages"
            item.add_marker(pytest.mark.skip(reason=reason))
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("shared_data")
    items.sort(key=_may_take_s, reverse=True)


def _may_take_s(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return limit.args[0] if limit else 0


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Seed the global generators, so that every test draws the same numbers each time."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data; skip the test if it is absent."""
    folder = shared_data()
    if folder is None:
        pytest.skip("REBENCH_SHARED_DATA is not set")
    return folder


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> Callable[[str, str], None]:
    """A function that replaces a command by a shell script.

    In the script, ``$here`` is the folder of the script.
    """
    folder = tmp_path / "slurm"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\nhere={folder}\n{script}\n")
        (folder / name).chmod(0o755)

    return put


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a local server of its files."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
