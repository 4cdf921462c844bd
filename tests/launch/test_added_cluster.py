"""A cluster of another package: it is announced by an entry point, and has four methods."""

from packages import install
from support import python

CLUSTER = '''
import os, subprocess
from dataclasses import replace
from rebench.launch.clusters import Cluster, Limits
from rebench.launch.clusters.base import worker_command
from rebench.launch.journal import JobState, Sent


class Shell(Cluster):
    """Jobs that a shell runs, one after the other."""

    name = "shell"

    def limits(self, options):
        return Limits(largest=3)

    def submit(self, jobs, work, *, after=(), dry_run=False):
        script = "".join(worker_command(job, str(job.task)) + "\\n" for job in jobs)
        if dry_run:
            return Sent(jobs=(), script=script)
        for number, line in enumerate(script.splitlines()):
            own = os.environ | {"REBENCH_JOB": f"7_{number}"}
            subprocess.run(line, shell=True, check=True, env=own)
        return Sent.of_array("7", len(jobs))

    def look(self, jobs, *, done=None, tell=print):
        return [replace(job, state=JobState("ended", "gone")) for job in jobs]

    def stop(self, jobs, *, requeue=False):
        return []


SHELL = Shell()
'''
SWEEP = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1, 2]
epochs = 1
[cells]
indices = [6111]
[skeleton]
channels = 2
cells_per_stage = 1
"""


def test_cluster_of_another_package_trains_a_sweep(tmp_path):
    packages = tmp_path / "packages"
    install(packages, "shells", CLUSTER, "rebench.clusters", shell="shells:SHELL")
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(SWEEP)
    typed = ["-m", "rebench", "submit", str(sweep), "--cluster"]
    done = python(*typed, "shell", "--json", path=[packages])
    assert done.returncode == 0, done.stderr
    assert '"sent": 2' in done.stdout
    told = python("-m", "rebench", "status", str(tmp_path / "runs/sweep"), path=[packages])
    assert told.returncode == 0, told.stderr
    assert "2" in told.stdout
    assert list(tmp_path.glob("runs/sweep/results/0001-7*.jsonl"))
    unknown = python(*typed, "shel", path=[packages])
    assert unknown.returncode == 2
    assert "shell" in unknown.stderr
