"""Checks of SLURM's nodes before jobs are submitted."""

import pytest
from cluster import Sweep, unsafe_cifar

from rebench.launch.clusters.commands import nodes
from rebench.runs import SlurmOptions


def _up(**asked) -> set[str]:
    return {node.name for node in nodes(SlurmOptions(**asked)) if node.up}


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_nodes_for_jobs_are_those_that_are_up_and_not_excluded(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    assert _up() == _up(partition="urgent") == {"n1", "n2", "n3"}
    assert _up(partition="main,urgent", exclude="n[1-2]") == {"n3"}
    assert _up(partition="elsewhere") == _up(constraint="no-such-feature") == set()
    assert {node.memory_mb for node in nodes(SlurmOptions())} == {4000.0}
    cluster.ask("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    try:
        assert _up(partition="main") == {"n1", "n3"}
    finally:
        cluster.ask("scontrol", "update", "NodeName=n2", "State=RESUME")


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_black_hole_among_the_nodes_is_named_and_gets_no_more_jobs(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=5)
    hole = ["--set", "slurm.setup=['test $SLURMD_NODENAME != n1 || exit 1']"]
    sweep.submit("--trials-per-job", "6", *hole)
    counts = sweep.wait_until_over()
    assert counts["lost"] >= 18
    again = sweep.rebench("submit", *hole, "--trials-per-job", "15")
    assert "no job is sent to n1 for an hour: 3 jobs in a row failed there, each" in again.stderr
    assert sweep.wait_until_over()["done"] == 30
    assert sweep.outcomes().items() <= undisturbed.items()


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_node_on_which_torch_does_not_load_fails_no_trial_and_gets_no_more_jobs(
    cluster, tmp_path, undisturbed
):
    sweep = Sweep(tmp_path, cluster, cells=3)
    # Without torch, a worker uses 135 MB of virtual memory, with torch 616 MB.
    small = ["--set", "slurm.setup=['test $SLURMD_NODENAME != n1 || ulimit -v 400000']"]
    sweep.submit("--trials-per-job", "6", *small, "--set", "slurm.nodelist=n1")
    counts = sweep.wait_until_over()
    assert (counts["lost"], counts["failed"]) == (18, 0)
    assert "node n1 cannot train (ImportError: " in sweep.trials("lost")[0]["reason"]
    again = sweep.rebench("submit", *small, "--trials-per-job", "9")
    assert "no job is sent to n1 for an hour: 3 jobs in a row failed there, each" in again.stderr
    assert sweep.wait_until_over()["done"] == 18
    assert sweep.outcomes().items() <= undisturbed.items()


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_node_without_the_data_ends_its_jobs_and_fails_no_trial(cluster, tmp_path):
    sweep = Sweep(tmp_path, cluster, cells=1)
    sweep.spec.write_text(sweep.spec.read_text().replace('["digits"]', '["cifar10"]'))
    for node in ("n2", "n3"):
        unsafe_cifar(tmp_path / node)
    own = ["--set", f"slurm.setup='export REBENCH_DATA={tmp_path}/$SLURMD_NODENAME'"]
    sending = ["--no-preflight", "--trials-per-job", "6", *own]
    sweep.submit(*sending, "--set", "slurm.nodelist=n1")
    counts = sweep.wait_until_over()
    assert (counts["lost"], counts["failed"]) == (6, 0)
    assert "cifar10: missing" in sweep.trials("lost")[0]["reason"]
    sweep.submit(*sending, "--set", "slurm.exclude=n1")
    # On the other nodes the files exist, but they are refused as unsafe. No trial fails there.
    counts = sweep.wait_until_over()
    assert (counts["lost"], counts["failed"]) == (6, 0)
    assert "UnsafeFileError" in sweep.trials("lost")[0]["reason"]
