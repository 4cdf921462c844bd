"""Two users of one run, on a real SLURM that shows users only their own jobs."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from cluster import Sweep
from support import PROJECT

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users"),
    pytest.mark.needs("setpriv"),
]
NOBODY = (
    *("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"),
    # Python itself may be in a folder that only root may read.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
    *("env", "HOME=/nonexistent", "USER=nobody", "LOGNAME=nobody"),
)


@pytest.fixture
def shared_folder():
    """A folder that other users may enter, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="rebench-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_jobs_that_a_colleague_cannot_see_count_as_live(private_cluster, shared_folder):
    mine = Sweep(shared_folder / "s", private_cluster, cells=1)
    hold = ["--set", "slurm.extra.hold=true", "--trials-per-job", "6"]
    assert mine.submit(*hold)["sent"] == 6
    (job,) = mine.jobs("PENDING")
    subprocess.run(["chmod", "-R", "a+rwX", shared_folder], check=True)
    theirs = Sweep(shared_folder / "s", private_cluster, cells=1)
    theirs.prefix = NOBODY
    hidden = theirs.cluster.ask(*NOBODY, "squeue", "-h", "-t", "all")
    assert hidden == "", "the cluster shows no user the jobs of another"
    reason = "a job of root, which you may not see"
    told = theirs.rebench("status")
    assert f"1 jobs count as live: {reason}" in told.stderr
    assert {one["reason"] for one in theirs.trials("queued")} == {f"unknown: {reason}"}
    again = theirs.submit(*hold)
    assert (again["sent"], again["held_by_live_jobs"]) == (0, 6)
    assert "cancelled 0 jobs" in theirs.rebench("cancel").stdout
    assert mine.jobs("PENDING") == [job]
    # The owner sees the job, and later also that it has ended.
    assert len(mine.trials("queued")) == 6
    mine.rebench("cancel")
    assert mine.wait_until_over()["lost"] == 6


def test_two_users_who_submit_at_once_send_every_trial_once(private_cluster, shared_folder):
    mine = Sweep(shared_folder / "s", private_cluster, cells=1)
    hold = ["--set", "slurm.extra.hold=true"]
    mine.submit(*hold)
    mine.rebench("cancel")
    mine.wait_until_over()
    subprocess.run(["chmod", "-R", "a+rwX", shared_folder], check=True)
    theirs = Sweep(shared_folder / "s", private_cluster, cells=1)
    theirs.prefix = NOBODY
    both = [
        subprocess.Popen(
            one.command("submit", *hold, "--json"),
            env=one.environment,
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for one in (mine, theirs)
    ]
    said = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    # The second user cannot see that the jobs of the first have ended: they count as live.
    assert sum(json.loads(out)[0]["sent"] for out, _ in said) == 6
    mine.rebench("cancel")
    mine.wait_until_over()
