"""Several trials as one network: equal to single trials up to rounding, and independent."""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import multiprocessing
import resource
import shutil
from pathlib import Path

import pytest
import torch
from trialsets import few_digits, gentle, interrupt, make_trial

from rebench.data import load_data
from rebench.errors import InputError, TrainingError
from rebench.runs import Protocol, Skeleton
from rebench.train import Speed, Stack, train

CPU = torch.device("cpu")
M_MMAP_THRESHOLD = -3  # glibc's malloc.h


@pytest.fixture
def caught(caplog):
    caplog.set_level(logging.INFO, logger="rebench.train")
    return caplog


@pytest.mark.parametrize(
    "cell",
    [pytest.param(0, marks=pytest.mark.slow), 11, pytest.param(284, marks=pytest.mark.slow), 6111],
)
def test_stacked_curves_equal_those_of_single_trials(cell: int):
    trials = [gentle(0, cell=cell), gentle(1, cell=cell), gentle(0, 0.02, cell=cell)]
    stacked = train(trials, few_digits(), stack=3)
    for trial, record in zip(trials, stacked, strict=True):
        (alone,) = train([trial], few_digits())
        assert record.trial == trial
        assert record.cost.stack == 3
        for split, curve in alone.outcome.curves.items():
            assert record.outcome.curves[split].loss == pytest.approx(curve.loss, rel=2e-3)


@pytest.mark.parametrize("copies", [1, 3])
def test_evaluation_leaves_training_as_it_was_and_is_of_all_images(copies: int):
    trials = [gentle(seed, epochs=3) for seed in range(copies)]
    batches = Speed(eval_batch_size=20)  # 50 images: two whole batches and a smaller one
    records = train(trials, few_digits(), stack=copies, speed=batches)
    whole = train(trials, few_digits(), stack=copies)
    unseen = dataclasses.replace(few_digits(), evaluation={})
    undisturbed = train(trials, unseen, stack=copies)
    for record, at_once, alone in zip(records, whole, undisturbed, strict=True):
        curves = record.outcome.curves
        assert curves["train"] == alone.outcome.curves["train"]
        assert curves["ori-test"].loss == pytest.approx(
            at_once.outcome.curves["ori-test"].loss, rel=1e-6
        )


@pytest.mark.parametrize(
    "steps", [pytest.param(1, marks=pytest.mark.slow), 4, pytest.param(6, marks=pytest.mark.slow)]
)
def test_stopped_and_resumed_stack_has_the_same_bits(tmp_path: Path, steps: int):
    trials = [make_trial(0), make_trial(1), make_trial(2)]
    whole = train(trials, few_digits(), stack=3)
    interrupt(trials, steps, checkpoint_dir=tmp_path, stack=3)
    # The former stack resumes, regardless of the new stack size and order.
    resumed = train(trials[::-1], few_digits(), checkpoint_dir=tmp_path, stack=1)[::-1]
    assert [record.outcome for record in resumed] == [record.outcome for record in whole]
    assert [record.cost.stack for record in resumed] == [3, 3, 3]


def test_stack_resumes_from_the_newest_checkpoint_that_all_trials_share(tmp_path: Path, caught):
    trials = [make_trial(0, epochs=4), make_trial(1, epochs=4)]
    whole = train(trials, few_digits(), stack=2)
    for steps in (9, 2):
        interrupt(trials, steps, checkpoint_dir=tmp_path, stack=2)
    max((tmp_path / trials[1].trial_id).iterdir()).unlink()  # as if it died between two files
    resumed = train(trials, few_digits(), checkpoint_dir=tmp_path, stack=2)
    assert "resuming 2 trials at epoch 2" in caught.text
    assert [record.outcome for record in resumed] == [record.outcome for record in whole]


def test_stack_without_a_shared_checkpoint_starts_again_together(tmp_path: Path):
    trials = [make_trial(0), make_trial(1), make_trial(2)]
    whole = train(trials, few_digits(), stack=3)
    interrupt(trials, 4, checkpoint_dir=tmp_path, stack=3)
    shutil.rmtree(tmp_path / trials[1].trial_id)  # as if it died between the first files
    again = train(trials, few_digits(), checkpoint_dir=tmp_path, stack=3)
    assert [record.outcome for record in again] == [record.outcome for record in whole]
    assert [record.cost.stack for record in again] == [3, 3, 3]


def test_diverging_trial_does_not_change_the_others():
    good, bad = make_trial(0, epochs=3), gentle(1, 1e30, epochs=3)
    neighbours = train([good, make_trial(1, epochs=3)], few_digits(), stack=2)
    records = train([good, bad], few_digits(), stack=2)
    assert records[0].outcome == neighbours[0].outcome
    assert records[1].outcome.status == "diverged"
    assert len(records[1].outcome.curves["train"].loss) == 1


def test_stack_ends_when_all_have_diverged():
    records = train([gentle(0, 1e30, epochs=50), gentle(1, 1e30, epochs=50)], few_digits(), stack=2)
    assert [record.outcome.diverged_epoch for record in records] == [1, 1]


def test_trials_of_different_cells_are_never_stacked():
    records = train([make_trial(cell=284), make_trial(cell=6111)], few_digits(), stack=2)
    assert [record.cost.stack for record in records] == [1, 1]
    with pytest.raises(InputError, match="recipe and seed only"):
        Stack([make_trial(cell=284), make_trial()], few_digits().spec, CPU, Speed())


def test_records_come_in_the_order_of_the_trials():
    trials = [make_trial(3), make_trial(1, cell=284), make_trial(2)]
    assert [record.trial for record in train(trials, few_digits(), stack=2)] == trials


def train_in_little_memory(folder: str, count: int, channels: int) -> None:
    """Train in a process that may grow by 500 MB; write its error to `folder`."""
    torch.set_num_threads(1)
    data = dataclasses.replace(load_data("digits"), evaluation={})
    skeleton = Skeleton(channels=channels, cells_per_stage=1)
    # One batch contains all digits, so that the activations need much memory.
    changes = {"epochs": 1, "skeleton": skeleton, "protocol": Protocol(batch_size=1437)}
    trials = [make_trial(seed, **changes) for seed in range(count)]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (500 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Make malloc return every large block, because freed memory that it keeps counts, too.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 16)
    speed = Speed(keep_memory=False)
    try:
        train(trials, data, stack=count, speed=speed)
    except TrainingError as error:
        Path(folder, "error").write_text(str(error))


def in_another_process(function, *arguments) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rebench.train", "trialsets"])
    process = context.Process(target=function, args=arguments)
    process.start()
    process.join(200)
    assert process.exitcode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("count", "channels"), [(8, 12), (1, 160)])
def test_stack_that_does_not_fit_in_memory_is_an_error(tmp_path: Path, count: int, channels: int):
    in_another_process(train_in_little_memory, str(tmp_path), count, channels)
    error = (tmp_path / "error").read_text()
    assert f"out of memory on cpu with batches of 1437 and {count} trials in its stack" in error
