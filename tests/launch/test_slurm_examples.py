"""The sweeps in `slurm/`: planned, shown as scripts, and trained on a private SLURM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from support import PROJECT, json_of

from rebench.cli import main

# For each example: the options that it adds to the command line of sbatch or srun.
SAID = {
    "container": [
        "--partition=gpu",
        "apptainer exec --nv --bind /scratch --bind /usr/bin/scontrol --bind /usr/bin/squeue",
    ],
    "cpu": ["--partition=cpu", "--ntasks-per-node=8", "--cpus-per-task=1", "--mem-per-cpu=2G"],
    "gpu": ["--partition=gpu", "--gpus-per-task=1", "--array=0-66%64", "--mem=16384M"],
    "interactive": ["--cpus-per-task=4"],
    "preemptible": ["--partition=preempt", "--signal=USR2@60", "--requeue", "--time=60"],
}
# Settings that fit the private cluster, whose fake GPUs torch does not see.
SMALL = {"epochs": 1, "cells.random.n": 3, "skeleton.channels": 4, "skeleton.cells_per_stage": 1}
SMALL |= {"slurm.device": "cpu", "slurm.cpus_per_task": 1, "slurm.mem_gb": 0.5, "seeds": [777]}
OWN: dict[str, dict[str, object]] = {
    # This example asks for memory per core.
    "cpu": {"slurm.processes_per_job": 2, "slurm.mem_per_cpu": "200M", "slurm.mem_gb": None},
    "gpu": {},
    "preemptible": {},
}


def copied(name: str, folder: Path) -> Path:
    spec = folder / f"{name}.toml"
    spec.write_text((PROJECT / "slurm" / spec.name).read_text())
    return spec


def settings(values: dict[str, object]) -> list[str]:
    given = {key: value for key, value in values.items() if value is not None}
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def test_every_example_is_rehearsed_short_and_on_the_page():
    examples = [*(PROJECT / "slurm").glob("*.toml")]
    assert {path.stem for path in examples} == set(SAID)
    page = (PROJECT / "slurm" / "README.md").read_text()
    for path in examples:
        lines = path.read_text().splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 100
        assert f"| `{path.name}` |" in page


@pytest.mark.parametrize("name", SAID)
def test_example_is_planned_and_shown_as_a_script(name, tmp_path, capsys):
    spec = copied(name, tmp_path)
    [row] = json_of("sweep", "plan", str(spec))
    assert (row["cells"], row["recipes"], row["seeds"]) == (100, 2, 3)
    assert row["trials"] + row["skipped"] == 600
    assert main(["submit", str(spec), "--dry-run", "--trials-per-job", "9"]) == 0
    shown = capsys.readouterr().out
    assert [said for said in SAID[name] if said not in shown] == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.slurm
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OWN)
def test_example_trains_on_a_cluster(name, tmp_path, cluster: Cluster):
    spec, run = copied(name, tmp_path), tmp_path / "runs" / name
    chosen = settings(SMALL | {"slurm.partition": "main"} | OWN[name])
    rebench = [sys.executable, "-m", "rebench"]
    cluster.ask(*rebench, "submit", str(spec), *chosen)
    cluster.ask(*rebench, "watch", str(run), "--every-s", "0.5")
    [counts] = json.loads(cluster.ask(*rebench, "status", str(run), "--json"))
    assert counts["done"] == counts["trials"] > 0


@pytest.mark.slurm
def test_interactive_example_trains_on_a_node(tmp_path, cluster: Cluster):
    spec = copied("interactive", tmp_path)
    node = ["srun", "--partition=main", "--cpus-per-task=1", "--mem=500M", sys.executable, "-m"]
    own = [*settings(SMALL), "--json"]
    said = cluster.ask(*node, "rebench", "submit", str(spec), "--cluster", "debug", *own)
    [row] = json.loads(said)
    status = ["rebench", "status", str(tmp_path / "runs" / "interactive"), "--json"]
    [counts] = json.loads(cluster.ask(sys.executable, "-m", *status))
    assert counts["done"] == counts["trials"] == row["sent"] > 0
