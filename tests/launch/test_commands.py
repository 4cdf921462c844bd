"""The commands around a sweep, run as a user runs them."""

import json
import subprocess
import sys

from support import PROJECT

from rebench.launch.doctor import examine


def rebench(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rebench", *arguments]
    done = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_doctor_finds_what_is_installed_and_how_to_get_the_rest(tmp_path):
    findings = {one.what: one for one in examine(tmp_path)}
    assert all(one.found for one in findings.values() if one.required)
    assert findings["data: digits"].found == "present"
    assert findings["data: cifar10"].found is None
    assert findings["data: cifar10"].get == "rebench data fetch cifar10"


def test_new_check_and_plan_of_the_example(tmp_path):
    spec = tmp_path / "sweep.toml"
    rebench("sweep", "new", str(spec))
    assert "exists" in rebench("sweep", "new", str(spec), code=2).stderr
    checked = json.loads(rebench("sweep", "check", str(spec), "--json").stdout)[0]
    # 2 + 8 cells, 2 recipes, 3 seeds; what has no path has no topology trial.
    assert checked["trials"] + checked["skipped"] == 10 * 2 * 3
    plan = json.loads(rebench("sweep", "plan", str(spec), "--json").stdout)[0]
    assert plan["trials"] == checked["trials"]
    assert plan["already done"] == 0
    assert plan["device hours"] > 0


def test_check_says_what_is_skipped_and_why(tmp_path):
    """The cell 0_00_000 has no path: topology has no learning rate for it, nb201 has."""
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        'datasets = ["digits"]\nseeds = [1]\nrecipes = ["nb201", "topology"]\n'
        '[cells]\nstrings = ["0_00_000", "1_01_001"]\n'
    )
    done = rebench("sweep", "check", str(spec), "--json")
    assert json.loads(done.stdout)[0]["trials"] == 3
    assert "skipped 1: recipe 'topology' has no learning rate" in done.stderr


def test_status_of_a_folder_that_is_no_run_is_bad_input(tmp_path):
    assert "is not a run" in rebench("status", str(tmp_path), code=2).stderr
