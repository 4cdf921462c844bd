"""How many jobs of a run may run at once, over all its arrays and submissions."""

import pytest
from cluster import Sweep

from rebench.launch.clusters import SlurmCluster
from rebench.launch.journal import Chunk
from rebench.launch.sending import chunks_of
from rebench.launch.turns import Turns
from rebench.sweep import Job, SlurmOptions


def _chunk(jobs: int) -> Chunk:
    return Chunk(name="rebench-x-1.0", jobs=((("0123456789abcdef",),),) * jobs)


def _options(live, jobs, **options) -> list[str]:
    cluster = SlurmCluster(SlurmOptions(**options))
    cluster.beside(live)
    lines = cluster.script("/run", _chunk(jobs)).splitlines()
    wanted = ("#SBATCH --array=", "#SBATCH --dependency=")
    return [line.removeprefix("#SBATCH --") for line in lines if line.startswith(wanted)]


def test_first_array_waits_for_nothing_and_is_throttled():
    assert _options({}, 100, array_parallelism=64) == ["array=0-99%64"]
    assert Turns(64, {}).first_size(1001) == 1001


def test_array_that_fits_beside_the_live_ones_begins_at_once():
    assert _options({"12": 40, "34": 20}, 4, array_parallelism=64) == ["array=0-3%4"]


def test_array_that_does_not_fit_waits_for_all_that_live():
    said = ["array=0-4%5", "dependency=afterany:12:34"]
    assert _options({"12": 40, "34": 20}, 5, array_parallelism=64) == said


def test_dependency_of_the_sweep_holds_as_well():
    options = {"array_parallelism": 1, "extra": {"dependency": "afterok:7"}}
    assert _options({"12": 1}, 1, **options) == ["dependency=afterok:7,afterany:12"]
    assert _options({}, 1, **options) == ["dependency=afterok:7"]


def test_arrays_of_one_submission_run_one_after_the_other_once_there_is_no_room():
    turns = Turns(4, {"1": 2})
    # What has room goes at once, and the rest after all of it.
    assert turns.first_size(10) == 2
    assert turns.before(2) == ()
    turns.sent("2", 2)
    assert turns.before(10) == ("1", "2")
    turns.sent("3", 10)
    assert turns.before(1) == ("3",)
    turns.sent("4", 1)
    assert turns.before(3) == ()
    turns.sent("5", 3)
    assert turns.before(1) == ("4", "5")


def test_live_array_counts_as_many_jobs_as_it_has():
    assert Turns(64, {"1": 100, "2": 3}).room == 0
    assert Turns(64, {"1": 30, "2": 3}).room == 31


@pytest.mark.parametrize(
    ("sizes", "cut"), [((3, 5), [3, 5, 2]), ((5, 5), [5, 5]), ((20, 20), [10]), ((1, 1), [1] * 10)]
)
def test_jobs_are_cut_into_a_first_chunk_and_others(sizes, cut):
    chunks = chunks_of("x", {"": [Job((), 0.0)] * 10}, {"": sizes})
    assert [len(chunk.jobs) for chunk in chunks] == cut
    assert [chunk.name for chunk in chunks] == [f"x.{number}" for number in range(len(cut))]


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_no_more_jobs_run_at_once_over_arrays_and_submissions(tight_cluster, tmp_path):
    """Arrays have at most two jobs here: of six jobs in three arrays, two may run at once."""
    sweep = Sweep(tmp_path, tight_cluster, cells=1)
    sweep.spec.write_text(sweep.spec.read_text().replace("[777, 888]", "[777]"))
    sending = ["--trials-per-job", "1", "--array-parallelism", "2"]
    assert sweep.submit(*sending)["jobs"] == 3
    sweep.spec.write_text(sweep.spec.read_text().replace("[777]", "[777, 888]"))
    most = 0
    assert sweep.submit(*sending, "--accept-change")["jobs"] == 3

    def over() -> bool:
        nonlocal most
        most = max(most, len(sweep.jobs("RUNNING")))
        return sweep.records() == sweep.size

    sweep.wait_until(over, "all records")
    assert most == 2
    assert sweep.wait_until_over()["done"] == 6
