"""A sweep's file in a shared run that another user has changed, on a real SLURM."""

import json
import os
import pwd

import pytest
from cluster import Sweep

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away"),
]
COMMENT, USER = "x\\'\"\n", "; touch PWN #"


def test_sweep_of_another_user_runs_no_command_of_theirs(cluster, tmp_path, monkeypatch):
    sweep = Sweep(tmp_path / "s", cluster, cells=1)
    hold = ["--set", "slurm.extra.hold=true", "--trials-per-job", "6"]
    sweep.submit(*hold)
    sweep.rebench("cancel")
    sweep.wait_until_over()
    stored = sweep.run / "spec.json"
    content = json.loads(stored.read_text())
    content["slurm"] |= {"comment": COMMENT, "mail_user": USER, "extra": {}}
    stored.write_text(json.dumps(content))
    stored.chmod(0o666)
    os.chown(stored, pwd.getpwnam("nobody").pw_uid, -1)
    monkeypatch.chdir(tmp_path)
    refused = sweep.rebench("submit RUN", code=1).stderr
    assert f"{stored} belongs to another user" in refused
    assert "`rebench submit` with the sweep file writes it again" in refused
    # Also with --trust-folder, a value that no option may have is refused.
    refused = sweep.rebench("submit RUN", "--trust-folder", code=1).stderr
    assert f"{stored} is damaged" in refused
    assert sweep.jobs("PENDING,RUNNING") == []
    # Without the control character the comment is valid, and SLURM gets it unchanged.
    content["slurm"] |= {"comment": COMMENT.strip(), "extra": {"hold": True}}
    stored.write_text(json.dumps(content))
    sweep.rebench("submit RUN", "--trust-folder")
    (job,) = sweep.jobs("PENDING")
    assert cluster.ask("squeue", "-h", "-j", job, "-o", "%k").strip() == COMMENT.strip()
    cluster.ask("scontrol", "release", job)
    assert sweep.wait_until_over()["done"] == sweep.size
    assert not list(tmp_path.rglob("PWN"))
