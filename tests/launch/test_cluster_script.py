"""``slurm/cluster`` starts one real SLURM or several at once, and leaves nothing behind."""

import tempfile
import time
from pathlib import Path

import pytest
from cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def test_nodes_run_jobs_and_number_their_gpus(cluster):
    assert cluster.ask("sinfo", "-h", "-p", "main", "-o", "%D %T").split() == ["3", "idle"]
    seen = cluster.ask("srun", "-n1", "--gpus-per-task=2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert seen.strip() == "0,1"


def test_accounting_answers(accounting_cluster):
    accounting_cluster.ask("srun", "-n1", "--job-name", "hello", "true")
    for _ in range(20):
        jobs = accounting_cluster.ask("sacct", "-n", "-X", "-P", "-o", "JobName,State")
        if "hello|COMPLETED" in jobs.splitlines():
            return
        time.sleep(0.5)
    pytest.fail(f"sacct says {jobs!r}")


def test_second_cluster_stands_beside_and_stop_leaves_no_process(cluster):
    with tempfile.TemporaryDirectory(prefix="rebench-") as folder:
        other = Cluster(Path(folder) / "c")
        other.script("start", "--nodes", "1")
        other.ask("sbatch", "-o", "/dev/null", "--wrap", "sleep 1000")
        other.script("kill", "n1")
        other.script("stop")
        environments = [
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/environ") if _readable(path)
        ]
        assert not [one for one in environments if folder.encode() in one]
    assert "idle" in cluster.ask("sinfo")


def _readable(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False
