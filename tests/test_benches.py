"""Every benchmark that the project publishes figures of still runs, at a small part of its size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from support import PROJECT

BENCHES = ("analysis", "export", "plan", "query", "search")
# Those that train on images of ours.
ON_IMAGES = ("init_memory", "jpeg_cost")


def run(name: str) -> str:
    """Run a benchmark at a thousandth of its size and return what it printed."""
    kept = PROJECT / "scripts" / "bench" / "results" / f"{name}.json"
    before = kept.read_bytes()
    done = subprocess.run(
        [sys.executable, f"scripts/bench/{name}.py"],
        cwd=PROJECT, env=os.environ | {"REBENCH_BENCH_SCALE": "0.001"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nothing is written: measured at a scale of 0.001" in done.stdout
    assert kept.read_bytes() == before
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_benchmark_runs(name: str):
    run(name)


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ON_IMAGES)
def test_benchmark_on_images_runs(name: str):
    run(name)


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.xdist_group("slurm")
@pytest.mark.skipif(shutil.which("slurmctld") is None, reason="no slurm-wlm on this machine")
def test_benchmark_of_the_launcher_runs():
    assert "status, 40 waiting" in run("launch")


def measured(name: str) -> list[dict]:
    kept = PROJECT / "scripts" / "bench" / "results" / f"{name}.json"
    return json.loads(kept.read_text())["rows"]


def test_page_on_training_says_what_was_measured():
    page = (PROJECT / "docs" / "explanation" / "training.md").read_text()
    [row] = measured("learning-C8-N1-from1000")
    assert len(row["reference"].split()) == len(row["float32"].split()) == 60
    told = [f"cell 284 by {row['difference']} [{row['low_95']}, {row['high_95']}] (60 fresh seeds"]
    last = {row["split"]: row for row in measured("published-cifar10-jpeg-valid-12")}
    for row in (last["train"], last["ori-test"]):
        theirs = " and ".join(row["published_seeds"].split())
        told.append(f"ends at {row['ours']:.2f} %, the published runs at {theirs}")
    for row in measured("jpeg_cost"):
        interval = f"[{row['low']:.1f}, {row['high']:.1f}]"
        told.append(
            f"{round(row['difference'], 1) + 0.0:.1f} points {interval} for cell {row['cell']}"
        )
    assert [one for one in told if one not in page] == []
