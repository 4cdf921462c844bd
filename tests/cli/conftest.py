"""Shared folder in which every command can be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import prepare


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, its sweep and tables."""
    made = tmp_path_factory.mktemp("typed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        prepare(made)
    return made
