"""The time model and the packing of trials into jobs."""

import pytest

from cells import Cell
from rebench.errors import InputError
from rebench.runs import (
    GUESS,
    Protocol,
    RecipeSpec,
    Skeleton,
    Start,
    TimeModel,
    Trial,
    fit_times,
    group,
    group_seconds,
    guess_cpu,
    pack,
)


def make_trials(n_cells: int = 4, seeds: int = 3, epochs: int = 12) -> list[Trial]:
    return [
        Trial(
            cell=cell, dataset="cifar10", recipe=RecipeSpec(name="nb201"), seed=seed, epochs=epochs
        )
        for cell in range(n_cells)
        for seed in range(seeds)
    ]


def test_fit_recovers_the_times_that_made_the_records():
    truth = TimeModel(per_gflop_s=3e-4, per_layer_s=2e-4, source="")
    trials = make_trials(20, 1)
    measured = [(trial, truth.seconds(trial)) for trial in trials]
    # Trials without a time, or with an unknown data set, are ignored.
    unknown = trials[0].model_copy(update={"dataset": "unknown"})
    fitted = fit_times([*measured, (trials[0], 0.0), (unknown, 1.0)], "made")
    quick = fit_times([(trial, seconds / 1e6) for trial, seconds in measured], "made")
    assert quick.per_gflop_s == pytest.approx(3e-10)
    assert fitted.per_gflop_s == pytest.approx(3e-4)
    assert fitted.per_layer_s == pytest.approx(2e-4)
    assert fitted.source == "20 records of made"


def test_fit_without_records_is_bad_input():
    with pytest.raises(InputError, match="no finished trial"):
        fit_times([], "here")


def test_groups_hold_one_cell_and_at_most_the_stack():
    trials = make_trials(seeds=5)
    groups = group(trials, 2)
    assert [trial for one in groups for trial in one] == trials
    assert [len(one) for one in groups] == [2, 2, 1] * 4
    assert all(len({trial.cell for trial in one}) == 1 for one in groups)


def test_trial_longer_than_the_limit_gets_a_job_of_its_own():
    model = TimeModel(per_gflop_s=1.0, per_layer_s=0.0, source="")
    groups = group(make_trials(2, 1), 1)
    assert [len(job.groups) for job in pack(groups, model, limit_s=60, parallelism=8)] == [1, 1]


@pytest.mark.parametrize(("parallelism", "jobs"), [(1, 1), (2, 2), (7, 7), (120, 120), (999, 120)])
def test_there_are_as_many_jobs_as_may_run_at_once_or_as_there_are_groups(parallelism, jobs):
    groups = group(make_trials(40), 1)
    model = TimeModel(per_gflop_s=0.0, per_layer_s=1e-9, source="")
    packed = pack(groups, model, limit_s=86400, parallelism=parallelism)
    assert len(packed) == jobs
    assert [one for job in packed for one in job.groups] == groups


def test_guesses_are_what_they_say():
    """A GPU is guessed to do 10 TFLOP/s and a layer in 50 us.

    A CPU is guessed to do 30 G multiply-adds a second, a third in practice, and a layer in
    70 / 30 ms.
    """
    assert (GUESS.per_gflop_s, GUESS.per_layer_s) == (1e-4, 5e-5)
    slow = guess_cpu()
    assert (slow.per_gflop_s, slow.per_layer_s) == (0.1, 0.07 / 30)
    twice = slow.faster(2.0)
    assert (twice.per_gflop_s, twice.per_layer_s) == (0.05, 0.035 / 30)


def test_work_of_a_trial_is_counted_by_hand():
    """There are six convolutions in each of 15 cells, and 8 other layers.

    In each epoch, 60,000 images are processed in batches of 256: 50,000 are trained, each of which
    counts as three forward passes, and 10,000 are evaluated, with one forward pass.
    """
    trial = Trial(
        cell="3_33_333", dataset="cifar10", recipe=RecipeSpec(name="nb201"), seed=0, epochs=12
    )
    layers = TimeModel(per_gflop_s=0.0, per_layer_s=1.0, source="").seconds(trial)
    assert layers == (3 * 5 * 6 + 8) * 12 * 235
    gflops = TimeModel(per_gflop_s=1.0, per_layer_s=0.0, source="").seconds(trial)
    # 220.1 million multiply-adds an image, as published for the largest cell.
    assert gflops == pytest.approx(12 * (3 * 50_000 + 10_000) * 0.22011969, rel=1e-6)
    # This split trains on half of the images, and also evaluates on the other half.
    valid = trial.model_copy(update={"split": "cifar10-valid"})
    gflops = TimeModel(per_gflop_s=1.0, per_layer_s=0.0, source="").seconds(valid)
    assert gflops == pytest.approx(12 * (3 * 25_000 + 35_000) * 0.22011969, rel=1e-6)
    longer = trial.model_copy(update={"epochs": 112, "start": Start(epochs=100)})
    assert GUESS.seconds(longer) == GUESS.seconds(trial)
    pools = trial.model_copy(update={"cell": Cell.parse("4_14_212")})  # 4 of 6 are layers
    layers = TimeModel(per_gflop_s=0.0, per_layer_s=1.0, source="").seconds(pools)
    assert layers == (3 * 5 * 4 + 8) * 12 * 235


@pytest.mark.parametrize(
    ("limit_s", "sizes"), [(100, [5, 5]), (99, [4, 4, 2]), (162.4, [9, 1]), (162.6, [10])]
)
def test_a_job_is_filled_to_four_fifths_of_its_limit_less_half_a_minute(limit_s, sizes):
    """Ten trials of ten seconds: 0.8 x 100 - 30 = 50."""
    trials = make_trials(1, 10)
    alone = TimeModel(per_gflop_s=0.0, per_layer_s=1.0, source="").seconds(trials[0])
    model = TimeModel(per_gflop_s=0.0, per_layer_s=10 / alone, source="")
    jobs = pack(group(trials, 1), model, limit_s=limit_s, parallelism=1)
    assert [len(job.groups) for job in jobs] == sizes
    assert [job.seconds for job in jobs] == pytest.approx([10 * size for size in sizes])


@pytest.mark.parametrize(
    ("trials", "parallelism", "sizes"),
    # Shares of 7 / 3 trials: the third is half in at 2.5, the sixth at 5.5. Of 9 / 2: just half.
    [(7, 3, [2, 3, 2]), (9, 2, [5, 4])],
)
def test_a_trial_goes_into_the_job_whose_share_it_fills_by_half(trials, parallelism, sizes):
    model = TimeModel(per_gflop_s=0.0, per_layer_s=1.0, source="")
    groups = group(make_trials(1, trials), 1)
    jobs = pack(groups, model, limit_s=1e12, parallelism=parallelism)
    assert [len(job.groups) for job in jobs] == sizes


@pytest.mark.parametrize(("shortest_s", "jobs"), [(0, 10), (10, 10), (11, 9), (50, 2), (51, 1)])
def test_jobs_that_would_be_too_short_become_fewer(shortest_s, jobs):
    """Ten trials of ten seconds, of which 64 may run at once."""
    trials = make_trials(1, 10)
    alone = TimeModel(per_gflop_s=0.0, per_layer_s=1.0, source="").seconds(trials[0])
    model = TimeModel(per_gflop_s=0.0, per_layer_s=10.0001 / alone, source="")
    how = {"limit_s": 1e4, "parallelism": 64, "shortest_s": shortest_s}
    assert len(pack(group(trials, 1), model, **how)) == jobs


@pytest.mark.parametrize(
    "changed",
    [
        {"cell": Cell.from_index(284)},
        {"dataset": "ImageNet16-120"},
        {"epochs": 3},
        {"skeleton": Skeleton(channels=8)},
        {"protocol": Protocol(batch_size=64)},
        {"seed": 9},
    ],
)
def test_seconds_of_neighbours_are_their_own(changed):
    model = TimeModel(per_gflop_s=1e-4, per_layer_s=1e-5, source="")
    first = make_trials(1, 1)[0]
    other = first.model_copy(update=changed)
    seconds = list(group_seconds([(first, first), (other,), (first,)], model))
    assert seconds == [2 * model.seconds(first), model.seconds(other), model.seconds(first)]
