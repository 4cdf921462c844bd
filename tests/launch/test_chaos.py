"""Random faults on a real SLURM, a short run of the benchmark that counts hundreds."""

import json
import subprocess
import sys

import pytest
from support import PROJECT

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def test_faults_from_a_plan_lose_double_and_change_nothing():
    script = PROJECT / "scripts" / "bench" / "chaos.py"
    short = ["--kills", "6", "--cells", "3", "--seed", "1", "--json"]
    done = subprocess.run(
        [sys.executable, str(script), *short], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {row["what"]: row["count"] for row in json.loads(done.stdout)}
    assert counts["faults"] == 6
    assert sum(count for name, count in counts.items() if name.startswith("fault: ")) == 6
    assert counts["trials"] == 18 * counts["rounds"] > 0
    assert [counts[name] for name in ("lost", "double", "changed", "stuck")] == [0, 0, 0, 0]
