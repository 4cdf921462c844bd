"""What is looked at before jobs are sent: SLURM's times, and nodes on which jobs fail at once."""

import itertools
import math

import pytest
from cluster import Sweep

from rebench.launch.preflight import bad_nodes, without
from rebench.launch.slurm import QueuedJob, minutes, nodes_for
from rebench.sweep import SlurmOptions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:30", 0.5),
        ("1:00", 1.0),
        ("2:00:00", 120.0),
        ("1-00:00:00", 1440.0),
        ("infinite", math.inf),
        ("INVALID", math.inf),
    ],
)
def test_times_of_slurm_are_minutes(text, expected):
    assert minutes(text) == expected


def _jobs(**ends: str) -> list[QueuedJob]:
    """Jobs by node, in order: f failed at once, F after an hour, c completed, r runs."""
    states = {"f": "FAILED", "F": "FAILED", "c": "COMPLETED", "r": "RUNNING"}
    clock = itertools.count(10)
    return [
        QueuedJob(
            str(number),
            states[end],
            "None",
            "rebench-x-1.0",
            node,
            "1:00:00" if end == "F" else "0:05",
            f"2026-01-01T00:00:{number}",
        )
        for node, order in ends.items()
        for number, end in zip(clock, order, strict=False)
    ]


def test_node_is_bad_when_its_last_three_jobs_failed_at_once():
    jobs = _jobs(n1="cfff", n2="fffc", n3="FFF", n4="ff", n5="fffr", n6="fFff")
    assert bad_nodes(reversed(jobs)) == ["n1", "n5"]


def test_no_node_is_to_blame_where_jobs_fail_on_every_one():
    assert bad_nodes(_jobs(n1="fff", n2="fff", n3="fff")) == []
    # One that takes all jobs leaves none to the others.
    assert bad_nodes(_jobs(n1="fffffff")) == ["n1"]


def test_bad_nodes_are_excluded_beside_those_of_the_sweep():
    assert without(SlurmOptions(exclude="n[4-6]"), {"n2": 0.0, "n1": 0.0}).exclude == "n[4-6],n1,n2"
    assert without(SlurmOptions(), {}).exclude is None


def test_bad_nodes_are_excluded_for_every_type_of_device():
    options = SlurmOptions(exclude="n9", types={"a": {"exclude": "n8"}, "b": {"partition": "x"}})
    kept = without(options, ["n1"]).by_type
    assert {name: one.exclude for name, one in kept.items()} == {"a": "n8,n1", "b": "n9,n1"}


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_nodes_for_jobs_are_those_that_are_up_and_not_excluded(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    assert nodes_for(None, None, None) == nodes_for("urgent", None, None) == {"n1", "n2", "n3"}
    assert nodes_for("main,urgent", None, "n[1-2]") == {"n3"}
    assert nodes_for("elsewhere", None, None) == nodes_for(None, "no-such-feature", None) == set()
    cluster.ask("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    try:
        assert nodes_for("main", None, None) == {"n1", "n3"}
    finally:
        cluster.ask("scontrol", "update", "NodeName=n2", "State=RESUME")


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_last_node_of_a_partition_is_never_left_out(limited_cluster, tmp_path):
    """The cluster has one node."""
    sweep = Sweep(tmp_path, limited_cluster, cells=1)
    sweep.submit("--trials-per-job", "2", "--set", "slurm.setup=['exit 1']")
    assert sweep.wait_until_over()["lost"] == 6
    again = sweep.rebench("submit", "--trials-per-job", "2")
    said = [line for line in again.stderr.splitlines() if "failed there at once" in line]
    assert len(said) == 1
    assert said[0].startswith("jobs are sent to n1 although 3 in a row failed there at once:")
    assert sweep.wait_until_over()["done"] == 6


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_black_hole_among_the_nodes_is_named_and_gets_no_more_jobs(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster)
    hole = ["--set", "slurm.setup=['test $SLURMD_NODENAME != n1 || exit 1']"]
    sweep.submit("--trials-per-job", "4", *hole)
    counts = sweep.wait_until_over()
    assert counts["lost"] >= 12
    again = sweep.rebench("submit", *hole, "--trials-per-job", "4")
    assert "no job is sent to n1 for a day: 3 jobs in a row failed there at once" in again.stderr
    assert sweep.wait_until_over()["done"] == 60
    assert sweep.outcomes() == undisturbed
