"""Random faults on a real SLURM, a short run of the benchmark that counts hundreds."""

import json
import subprocess
import sys

import pytest
from support import PROJECT

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


SHORT = ("--kills", "6", "--cells", "3", "--seed", "1", "--json")


def chaos(*options: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(PROJECT / "scripts" / "bench" / "chaos.py"), *SHORT, *options]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def counts_of(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["what"]: row["count"] for row in json.loads(done.stdout)}


def test_faults_from_a_plan_lose_double_and_change_nothing():
    counts = counts_of(chaos("--kills", "4"))
    assert counts["faults"] == 4
    assert sum(count for name, count in counts.items() if name.startswith("fault: ")) == 4
    assert counts["trials"] == 18 * counts["rounds"] > 0
    bad = ("lost", "double", "changed", "silently missing", "stuck")
    assert {name: counts[name] for name in bad} == dict.fromkeys(bad, 0)


def test_run_that_was_interrupted_goes_on_after_its_last_round(tmp_path):
    kept = tmp_path / "progress.json"
    plan = {"seed": 1, "kills": 6, "cells": 3, "epochs": 2}
    before = {"rounds": 2, "done": {"node down": 5}, "found": {"double": 0}}
    kept.write_text(json.dumps({"plan": plan, **before}))
    refused = chaos("--progress", str(kept), "--kills", "7")
    assert "is of another run" in refused.stderr
    assert refused.returncode == 1
    counts = counts_of(chaos("--progress", str(kept)))
    assert counts["faults"] == 6
    assert counts["rounds"] == 3
    assert counts["trials"] == 3 * 18
    assert not kept.exists(), "the next run starts from the beginning"
