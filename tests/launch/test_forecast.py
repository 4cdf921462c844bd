"""Forecasts of sweeps, compared with real sweeps and calculations."""

import random
import time

import pytest
from cluster import Sweep
from made_records import make_record
from support import PROJECT

from rebench.cli import main
from rebench.launch.clusters import commands
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import forecast
from rebench.runs import Curve, Run, TimeModel, parse_spec

SPEC = """
datasets = ["digits", "cifar10"]
recipes = ["nb201", "topology(degree=target)"]
seeds = [1, 2, 3]
epochs = 12
[cells]
indices = [11, 284, 765]
"""
LONG = SPEC.replace('"digits", ', "").replace("epochs = 12", "epochs = 200")
MODEL = TimeModel(per_gflop_s=1e-3, per_layer_s=1e-4, source="")


def _forecast(text: str, done=(), **how):
    spec = parse_spec(text)
    trials = expand_spec(spec).trials
    return trials, forecast(spec, trials, MODEL, done, **how)


@pytest.mark.parametrize(
    ("added", "files"),
    [
        # 12 files of the run, 5 of each process of 3 jobs, and one for each kept network.
        ("", 12 + 5 * 3),
        ("[slurm]\nprocesses_per_job = 2\n", 12 + 5 * 3 * 2),
        ("[train]\nkeep = 'weights'\n", 12 + 5 * 3 + 36),
    ],
)
def test_files_belong_to_the_run_its_processes_and_its_networks(added, files):
    trials, told = _forecast(SPEC + added, trials_per_job=12)
    assert (len(trials), told.jobs, told.trials_per_job, told.files) == (36, 3, 12.0, files)


def test_longest_job_and_those_that_are_too_long_are_told():
    limit = "[slurm]\ntime_min = 3\n"
    trials, alone = _forecast(SPEC + limit, trials_per_job=1)
    seconds = [MODEL.seconds(one) for one in trials]
    assert (alone.jobs, alone.longest_job_s) == (36, max(seconds))
    for longest_s, over in ((179, 0), (181, seconds.count(max(seconds)))):
        model = MODEL.faster(max(seconds) / longest_s)
        told = forecast(parse_spec(SPEC + limit), trials, model, (), trials_per_job=1)
        assert told.too_long == over
    done = {one.trial_id for one in trials}
    _, over = _forecast(SPEC + limit, done)
    assert (over.jobs, over.longest_job_s, over.wall_s, over.too_long) == (0, 0.0, 0.0, 0)
    assert (over.trials, over.done, over.trials_per_job, over.device_s) == (36, 36, 0.0, 0.0)


def test_many_devices_still_wait_for_the_longest_trial():
    trials, told = _forecast(SPEC, devices=(1, 3, 10_000))
    seconds = [MODEL.seconds(one) for one in trials]
    assert told.wall_s_on == {
        1: pytest.approx(sum(seconds)),
        3: pytest.approx(sum(seconds) / 3),
        10_000: max(seconds),
    }


def test_what_is_done_takes_no_time_and_still_its_room():
    trials, told = _forecast(SPEC)
    half = {one.trial_id for one in trials if one.dataset == "cifar10"}
    _, left = _forecast(SPEC, half)
    assert (left.trials, left.done) == (len(trials), len(half))
    rest = [MODEL.seconds(one) for one in trials if one.trial_id not in half]
    assert left.device_s == pytest.approx(sum(rest))
    assert left.bytes_on_disk == told.bytes_on_disk


def test_number_of_jobs_of_this_machine_depends_on_no_time():
    text = SPEC + "[slurm]\narray_parallelism = 2\n"
    trials, told = _forecast(text, here=True)
    slow = forecast(parse_spec(text), trials, MODEL.faster(1e-6), (), here=True)
    assert (told.jobs, told.too_long) == (slow.jobs, slow.too_long) == (2, 0)


def test_plan_warns_of_trials_that_are_longer_than_their_limit(tmp_path, stand_in, capsys):
    stand_in("sinfo", "echo '(null)'")
    path = tmp_path / "sweep.toml"
    path.write_text(SPEC)
    for extra, warned in (
        ((), False),
        (("--set", "slurm.time_min=1", "--set", "epochs=900"), True),
    ):
        assert main(["sweep", "plan", str(path), *extra]) == 0
        assert ("longer than the time limit (time_min = 1):" in capsys.readouterr().err) == warned


def test_disk_is_near_that_of_a_real_run():
    """Compare with the run of version 0.1.0: 18 trials of two epochs, 16 with a whole record."""
    run = Run.open(PROJECT / "tests" / "old" / "run")
    spec, trials = run.spec(trust_folder=True), tuple(run.trials().values())
    told = forecast(spec, trials, MODEL, ())
    listed = (run.folder / "trials.jsonl").stat().st_size / 18
    (shard,) = (run.folder / "results").glob("*.jsonl")
    records = shard.stat().st_size / 16
    assert told.bytes_on_disk / 18 == pytest.approx(listed + records, rel=0.2)


def test_disk_is_near_that_of_long_records():
    """Compare with generated records of 200 epochs on CIFAR-10 with realistic digits."""
    _, told = _forecast(LONG)
    draw = random.Random(0)
    curves = {
        split: Curve(
            accuracy=[100 * draw.randrange(images) / images for _ in range(200)],
            loss=[draw.uniform(0.1, 2.0) for _ in range(200)],
        )
        for split, images in (("train", 50_000), ("ori-test", 10_000))
    }
    record = make_record()
    outcome = record.outcome.model_copy(update={"curves": curves})
    line = record.model_copy(update={"outcome": outcome}).to_line()
    listed = record.trial.model_dump_json()
    # The table of curves has 400 rows: a loss of 8 bytes, and an accuracy of 16 bits.
    assert told.bytes_on_disk / told.trials == pytest.approx(
        len(line) + len(listed) + 400 * 10, rel=0.2
    )


# 18 trials of two splits and 200 epochs; the published parameters of cells 0, 11 and 284.
RECORDS = 18 * (1700 + 40 * 2 * 200)
PARAMETERS = 6 * (129_306 + 802_426 + 101_306)


@pytest.mark.parametrize(
    ("train", "size"),
    [
        ("keep = 'nothing'", RECORDS),
        ("keep = 'weights'", 2 * RECORDS + 4 * PARAMETERS + 18 * 50_000),
        ("keep = 'weights'\nhalf = true", 2 * RECORDS + 2 * PARAMETERS + 18 * 50_000),
        ("keep = 'state'", 2 * RECORDS + 8 * PARAMETERS + 18 * 50_000),
    ],
)
def test_disk_counts_records_and_networks(train, size):
    _, told = _forecast(LONG.replace("765", "0") + f"[train]\n{train}\n")
    assert told.bytes_on_disk == size


@pytest.mark.parametrize(("largest", "rounds"), [(1001, 3), (4, 3), (5, 4), (2, 3)])
def test_arrays_wait_for_each_other(monkeypatch, tmp_path, largest, rounds):
    """Ten jobs of one length, four at once: three rounds in one array, and in arrays of four.

    In arrays of five, the fifth job of each array runs alone: four rounds.
    """
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(commands, "LARGEST_ARRAY", largest)
    text = SPEC.replace(', "cifar10"', "").replace(', "topology(degree=target)"', "")
    text = text.replace("[1, 2, 3]", f"{list(range(10))}").replace(", 284, 765", "")
    trials, told = _forecast(f"{text}[slurm]\narray_parallelism = 4\n", trials_per_job=1)
    assert len(trials) == 10
    assert told.wall_s == pytest.approx(rounds * MODEL.seconds(trials[0]))


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_files_are_those_that_a_run_leaves(cluster, tmp_path):
    sweep = Sweep(tmp_path, cluster, cells=1)
    pack = ["--trials-per-job", "2"]
    assert sweep.submit(*pack)["jobs"] == 3
    assert sweep.wait_until_over()["done"] == 6
    time.sleep(3)  # very recent records would be collected again
    sweep.outcomes()
    left = [path for path in sweep.run.rglob("*") if path.is_file()]
    spec = parse_spec(sweep.spec.read_text())
    told = forecast(spec, expand_spec(spec).trials, MODEL, (), trials_per_job=2)
    assert len(left) == told.files
