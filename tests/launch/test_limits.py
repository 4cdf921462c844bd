"""More jobs than the scheduler accepts: accepted jobs are sent now, the others later."""

import json

import pytest
from cluster import Sweep

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def test_what_fits_is_sent_and_the_rest_follows_until_the_run_is_over(
    limited_cluster, tmp_path, undisturbed
):
    sweep = Sweep(tmp_path, limited_cluster, cells=2)
    held = sweep.rebench(
        "submit", "--trials-per-job", "1", "--set", "slurm.extra.hold=true", "--json", code=1
    )
    # The jobs are sent in arrays of three, one and one; a sixth job is refused.
    row = json.loads(held.stdout)[0]
    assert (row["jobs"], row["waiting"]) == (5, 7)
    assert "7 trials wait: SLURM takes no more jobs now (" in held.stderr
    intent = json.loads((sweep.run / "submissions/0001/intent.json").read_text())
    assert [len(chunk["jobs"]) for chunk in intent["chunks"]] == [3, 1, 1]
    scripts = (sweep.run / "submissions/0001").glob("chunk.*.sbatch")
    assert len(list(scripts)) == 3, "nothing is left of what was refused"
    counts = sweep.counts()
    assert (counts["queued"], counts["pending"]) == (5, 7)
    again = sweep.rebench("submit", "--trials-per-job", "1", "--json", code=1)
    assert json.loads(again.stdout)[0]["sent"] == 0
    assert again.stderr.count("held by live jobs") == 1
    assert "5 trials are held by live jobs" in again.stderr
    for job in sweep.jobs("PENDING")[:4]:
        limited_cluster.ask("scancel", job)
    for job in sweep.jobs("PENDING"):
        limited_cluster.ask("scontrol", "release", job)
    # The released jobs end; the other trials are sent as soon as there is room, two in each job.
    later = ["--trials-per-job", "2", "--set", "slurm.array_parallelism=4"]
    sweep.rebench("submit", *later, code=1)
    done = sweep.rebench("watch", "--resubmit", "--every-s", "1")
    assert " trials in " in done.stderr
    assert sweep.counts()["done"] == 12
    assert sweep.outcomes().items() <= undisturbed.items()
    assert sweep.records() == 12
