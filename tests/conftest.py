"""Fixtures that many tests use, and a quiet, fixed environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import PROJECT, shared_data

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root."""
    return PROJECT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    folder = shared_data()
    if folder is None:
        pytest.skip("no ../shared/data beside the project")
    return folder
