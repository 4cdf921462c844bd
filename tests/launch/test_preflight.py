"""What is looked at before jobs are sent: SLURM's times, and nodes on which jobs fail at once."""

import itertools
import math

import pytest
from cluster import Sweep

from rebench.launch.preflight import bad_nodes, without
from rebench.launch.slurm import QueuedJob, minutes
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
