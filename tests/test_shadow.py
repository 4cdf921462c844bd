"""A module in the working folder, such as a user's ``cells.py``, does not hide rebench."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cells.py").write_text("print('mine')\nmine = 1\n")
    return tmp_path


def test_rebench_uses_its_own_cells_and_says_what_is_hidden(folder: Path):
    done = python("-c", "import rebench; print(rebench.Cell.from_index(11).code)", folder=folder)
    assert (done.returncode, done.stdout) == (0, "3_34_034\n"), done.stderr
    assert f"{folder / 'cells.py'} has the same name" in done.stderr
    shown = python("-m", "rebench", "cells", "show", "11", folder=folder)
    assert shown.returncode == 0, shown.stderr
    assert "3_34_034" in shown.stdout


def test_a_loaded_module_cells_is_named_in_one_line(folder: Path):
    done = python("-c", "import cells, rebench", folder=folder)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: rebench needs its own package cells, and ")
    assert "cells.py hides it" in last


def test_no_warning_without_another_module_cells(tmp_path: Path):
    done = python("-W", "error", "-c", "import rebench", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_rebench_is_found_in_the_folder_that_holds_a_clone(tmp_path: Path):
    """The clone's folder is called rebench, too, but has no ``__init__.py``.

    `scripts/setup` makes Python find the package before this folder.
    """
    (tmp_path / "rebench" / "rebench").mkdir(parents=True)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import rebench; print(rebench.open.__name__)"]
    done = subprocess.run(
        command, cwd=tmp_path, env=inherited, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "open_any\n"), done.stderr
