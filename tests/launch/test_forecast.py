"""Forecasts of sweeps, compared with real sweeps and calculations."""

import pytest

from rebench.cli import main
from rebench.launch.clusters import commands
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import forecast
from rebench.runs import TimeModel, parse_spec

SPEC = """
datasets = ["digits", "cifar10"]
recipes = ["nb201", "topology(degree=target)"]
seeds = [1, 2, 3]
epochs = 12
[cells]
indices = [11, 284, 765]
"""
MODEL = TimeModel(per_gflop_s=1e-3, per_layer_s=1e-4, source="")


def _forecast(text: str, done=(), **how):
    spec = parse_spec(text)
    trials = expand_spec(spec).trials
    return trials, forecast(spec, trials, MODEL, done, **how)


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


def test_what_is_done_takes_no_time():
    trials, _ = _forecast(SPEC)
    half = {one.trial_id for one in trials if one.dataset == "cifar10"}
    _, left = _forecast(SPEC, half)
    assert (left.trials, left.done) == (len(trials), len(half))
    rest = [MODEL.seconds(one) for one in trials if one.trial_id not in half]
    assert left.device_s == pytest.approx(sum(rest))


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
