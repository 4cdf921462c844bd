"""The doctor: installed software, and the other program called rebench."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from packages import install
from support import PROJECT, run_here

import rebench.cli.doctor
from rebench.cli.doctor import Finding, examine

# Every other folder with a rebench leaves the path: Python would find an intact rebench there.
DOCTOR = """
import pathlib, sys
sys.path = [path for path in sys.path if not pathlib.Path(path, "rebench").is_dir()]
sys.path.insert(0, "")
from rebench.cli import main
sys.exit(main(["doctor", "--json"]))
"""


def _found() -> dict[str, Finding]:
    return {one.what: one for one in examine(PROJECT / "nowhere")}


def _doctor_of(tree: Path) -> tuple[int, dict[str, dict]]:
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {row["what"]: row for row in json.loads(done.stdout)}


def test_doctor_detects_the_other_distribution(tmp_path, monkeypatch):
    assert "no other rebench" not in _found()
    install(tmp_path, "rebench", "", "console_scripts", rebench="rebench.rebench:main_func")
    (tmp_path / "rebench.py").unlink()  # only its metadata are read; ours stays importable
    monkeypatch.syspath_prepend(tmp_path)
    other = _found()["no other rebench"]
    assert (other.found, other.required) == (None, True)
    assert "rebench 1.0 is another program" in other.get
    assert "pip uninstall rebench" in other.get
    assert "--force-reinstall --no-deps SOURCE" in other.get


@pytest.mark.parametrize("left", ["replaced", "removed"])
def test_doctor_detects_another_package_rebench(left, tmp_path):
    """The other package replaces our rebench/__init__.py; its removal deletes this file."""
    for name in ("cells", "rebench"):
        shutil.copytree(
            PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    ours = tmp_path / "rebench" / "__init__.py"
    if left == "replaced":
        ours.write_text("__version__ = '1.4.0'\n")
    else:
        ours.unlink()
    code, rows = _doctor_of(tmp_path)
    assert code == 1
    assert rows["import rebench"]["found"] is None
    assert "--force-reinstall --no-deps SOURCE" in rows["import rebench"]["how_to_get_it"]


def test_doctor_detects_another_command_rebench(tmp_path, monkeypatch):
    script = tmp_path / "rebench"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _found()["command rebench"].get.endswith("or activate the environment")
    for module, found in (("rebench.cli", str(script)), ("rebench.rebench", None)):
        script.write_text(f"#!/usr/bin/python\nfrom {module} import main\n")
        script.chmod(0o755)
        assert _found()["command rebench"].found == found
    assert f"{script} is another program" in _found()["command rebench"].get


def test_first_line_says_whether_this_machine_can_train(tmp_path):
    plain = run_here("doctor", "--data-root", tmp_path)
    assert plain.returncode == 0
    assert plain.stdout.startswith("Ready to train on this machine: on ")
    assert "digits" in plain.stdout
    assert "numpy" not in plain.stdout
    every = run_here("doctor", "--all", "--data-root", tmp_path).stdout
    assert "numpy" in every
    assert "data: cifar10" in every


def test_missing_software_is_named_in_the_first_line(monkeypatch):
    monkeypatch.setattr(
        rebench.cli.doctor, "_version", lambda name: None if name == "numpy" else "1"
    )
    done = run_here("doctor")
    assert done.returncode == 1
    first, *rest = done.stdout.splitlines()
    assert first.startswith("Not ready to train on this machine: ")
    assert "numpy" in first
    assert any("pip install numpy" in line for line in rest)


def test_doctor_finds_what_is_installed_and_how_to_get_the_rest(tmp_path):
    findings = {one.what: one for one in examine(tmp_path)}
    assert all(one.found for one in findings.values() if one.required)
    assert findings["data: digits"].found == "present"
    assert findings["data: cifar10"].found is None
    assert findings["data: cifar10"].get == "rebench data fetch cifar10"


@pytest.mark.parametrize(
    ("cuda", "advice"),
    [
        (None, "NVIDIA's driver is here, but torch has no CUDA: install torch for CUDA"),
        ("12.4", "a driver for torch's CUDA 12.4, and a job that has a GPU"),
    ],
)
def test_a_driver_without_a_usable_gpu_names_the_wrong_part(cuda, advice, stand_in, monkeypatch):
    stand_in("nvidia-smi", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    gpu = _found()["GPU"]
    assert (gpu.found, gpu.get) == (None, advice)


def test_partitions_are_listed_once_each_by_name(stand_in):
    stand_in("sinfo", "printf '%s\\n' slow gpu long short slow big")
    assert _found()["SLURM answers"].found == "partitions: big, gpu, long, short, slow"


def test_a_controller_that_does_not_answer_is_quoted(stand_in):
    stand_in("sinfo", "echo 'Unable to contact slurm controller' >&2; exit 1")
    slurm = _found()["SLURM answers"]
    assert slurm.found is None
    assert slurm.get.endswith("of the documentation (Unable to contact slurm controller)")
