"""Limit of simultaneous jobs of a run, over all its arrays and submissions."""

import pytest
from cluster import Sweep


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_no_more_jobs_run_at_once_over_arrays_and_submissions(tight_cluster, tmp_path):
    """Arrays have at most two jobs here: of four jobs in two arrays, two may run at once."""
    sweep = Sweep(tmp_path, tight_cluster, cells=1)
    recipes = sweep.spec.read_text().splitlines()[2]
    text = sweep.spec.read_text().replace(recipes, 'recipes = ["nb201", "topology"]')
    sweep.spec.write_text(text.replace("[777, 888]", "[777]"))
    sweep.size = 4
    sending = ["--trials-per-job", "1", "--set", "slurm.array_parallelism=2"]
    assert sweep.submit(*sending)["jobs"] == 2
    sweep.spec.write_text(sweep.spec.read_text().replace("[777]", "[777, 888]"))
    most = 0
    assert sweep.submit(*sending, "--accept-change")["jobs"] == 2

    def over() -> bool:
        nonlocal most
        most = max(most, len(sweep.jobs("RUNNING")))
        return sweep.records() == sweep.size

    sweep.wait_until(over, "all records")
    assert most == 2
    assert sweep.wait_until_over()["done"] == 4
