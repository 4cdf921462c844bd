"""NATS-Bench's own tests, on exported files, and with `ReBench` instead of the package.

They run if ``REBENCH_NATS_BENCH`` names a checkout of the benchmark's repository, which has the
files of three cells. Otherwise only the questionnaire compares the answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebench.nats import export_nats
from rebench.nats.choice import Choice
from rebench.nats.ingest import ingest
from rebench.tables import open_table

# Opens our table instead, and counts how often, so that the tests cannot pass without it.
INSTEAD = """
import pathlib
import nats_bench.api_topology
from rebench import ReBench

def instead(folder, fast_mode, verbose):
    with pathlib.Path({opened!r}).open("a") as file:
        file.write("opened\\n")
    return ReBench({table!r})

nats_bench.api_topology.NATStopology = instead
"""


@pytest.fixture(scope="module")
def checkout() -> Path:
    """A checkout of the benchmark's repository."""
    named = os.environ.get("REBENCH_NATS_BENCH")
    if not named:
        pytest.skip("REBENCH_NATS_BENCH names no checkout of NATS-Bench's repository")
    return Path(named)


@pytest.fixture(scope="module")
def home(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the tests want it: cells exported from our table, sizes as published."""
    folder = tmp_path_factory.mktemp("published")
    (topology,) = (checkout / "fake_torch_dir").glob("NATS-tss-*-simple")
    (size,) = (checkout / "fake_torch_dir").glob("NATS-sss-*-simple")
    table = ingest(topology, folder / "nats.parquet", jobs=1).path
    export_nats(Choice(published=open_table(table)), folder / topology.name)
    (folder / size.name).symlink_to(size.resolve())
    return folder


def _passed(checkout: Path, home: Path, *plugins: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *plugins, str(checkout / "tests" / "api_test.py")],
        env={**os.environ, "FAKE_TORCH_HOME": str(home), "PYTHONPATH": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return "8 passed" in done.stdout


def test_the_benchmarks_tests_pass_on_an_exported_folder(checkout, home):
    assert _passed(checkout, home)


def test_the_benchmarks_tests_pass_with_rebench_in_place_of_the_package(checkout, home):
    opened = home / "opened"
    text = INSTEAD.format(opened=str(opened), table=str(home / "nats.parquet"))
    (home / "instead.py").write_text(text)
    assert _passed(checkout, home, "-p", "instead")
    assert len(opened.read_text().splitlines()) == 7  # each test opens it, except that of sizes
