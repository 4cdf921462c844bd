"""Costs in a trial's record, and the times of checkpoints, measured with artificial clocks."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import pytest
import torch
from trialsets import few_digits, make_trial

from rebench.errors import Interrupted, TrainingError
from rebench.runs import Protocol, Start, TrainOptions
from rebench.train import CheckpointStore, Speed, save_network, train
from rebench.train import loop as looping
from rebench.train import trials as training
from rebench.train.device import numerics
from rebench.train.loop import rate_factor
from rebench.train.record import Progress


class Clock:
    """A clock that advances only when set, or by a tick at every reading."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self._tick = 0.0, tick

    def monotonic(self) -> float:
        self.now += self._tick
        return self.now

    perf_counter = monotonic


def test_time_of_a_stack_is_divided_among_its_trials_and_predicts_the_rest(monkeypatch, tmp_path):
    """An artificial clock counts one second for each epoch of training and one for evaluation.

    Each epoch has 100 images.
    """
    monkeypatch.setattr(looping, "time", Clock(1.0))
    reports = []
    records = train(
        [make_trial(seed, epochs=4) for seed in (1, 2)],
        few_digits(),
        stack=2,
        on_epoch=reports.append,
        on_network=lambda record, final: save_network(
            tmp_path, TrainOptions(keep="weights"), record, final
        ),
    )
    for record in records:
        cost = record.cost
        assert (cost.seconds, cost.images_per_s, cost.stack, cost.resumed) == (4.0, 100.0, 2, 0)
    # The stack of two trials needs 2 s for each epoch, 8 s in all.
    assert [(one.epoch, one.stack, one.images_per_s, one.seconds_left) for one in reports] == [
        (epoch, 2, 100.0, 2.0 * (4 - epoch)) for epoch in (1, 2, 3, 4) for _ in range(2)
    ]
    assert reports[-1].metrics["ori-test"] == records[-1].final("ori-test")
    metrics = {"train": (12.344, 1.25), "ori-test": (9.5, 2.0)}
    line = dataclasses.replace(reports[0], metrics=metrics).line
    assert line == (
        f"{reports[0].trial.describe()}  epoch 1/4  train 12.34% loss 1.2500"
        "  ori-test 9.50% loss 2.0000  100 images/s  6 s left"
    )
    reports.clear()
    longer = make_trial(1, epochs=6, start=Start(epochs=4))
    (record,) = train([longer], few_digits(), on_epoch=reports.append, start_from=tmp_path)
    assert (record.cost.seconds, record.cost.images_per_s) == (4.0, 50.0)
    assert [(one.epoch, one.seconds_left) for one in reports] == [(5, 2.0), (6, 0.0)]


@pytest.mark.parametrize(
    ("minutes", "places"),
    [
        # Each call of `stop` takes 25 s: one after each of four steps, and one after the epoch.
        (10.0, [(0, 3), (5, 2), (8, 0)]),
        # 126.6 s are reached with the sixth call after a save. One call follows each save at once.
        (2.11, [(0, 3), (2, 0), (3, 1), (4, 2), (5, 3), (7, 0), (8, 0)]),
        (2.0, [*((epoch, 3) for epoch in range(8)), (8, 0)]),
        (0.5, [(0, 2), (1, 0), (1, 2), (2, 0)]),
    ],
)
def test_state_is_saved_after_a_minute_and_then_at_the_given_interval(
    monkeypatch, tmp_path, minutes, places
):
    clock, saved = Clock(), []
    monkeypatch.setattr(training, "time", clock)
    save = CheckpointStore.save
    monkeypatch.setattr(
        CheckpointStore,
        "save",
        lambda self, checkpoint: (saved.append(checkpoint.reached), save(self, checkpoint)),
    )

    def stop() -> bool:
        clock.now += 25
        return False

    epochs = 8 if minutes > 1 else 2
    how = {"checkpoint_dir": tmp_path, "checkpoint_every_minutes": minutes}
    train([make_trial(epochs=epochs)], few_digits(), stop=stop, **how)
    assert saved == places
    assert not list(tmp_path.iterdir()), "with its record a trial's state is dropped"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce] not enough memory: you tried to allocate"),
        RuntimeError("mmap: can't allocate memory"),
        RuntimeError("could not create a primitive"),
    ],
)
def test_too_little_memory_is_one_line_and_other_errors_are_unchanged(error):
    def fail(_: object) -> None:
        raise error

    with pytest.raises(TrainingError, match="out of memory on cpu with batches of 32 and 1 trials"):
        train([make_trial()], few_digits(), on_epoch=fail)
    other = RuntimeError("something else")
    error = other
    with pytest.raises(RuntimeError, match="something else"):
        train([make_trial()], few_digits(), on_epoch=fail)


def test_rate_follows_its_warm_up_and_its_schedule():
    """Three of ten epochs are warm-up: 1/4, 1/2 and 3/4 of the rate. Seven epochs are left."""
    cosine = [(1 + math.cos(math.pi * at / 7)) / 2 for at in range(7)]
    for schedule, rest in (("cosine", cosine), ("constant", [1.0] * 7)):
        protocol = Protocol(schedule=schedule, warmup_epochs=3)
        factors = [rate_factor(protocol, 10, epoch) for epoch in range(10)]
        assert factors == pytest.approx([0.25, 0.5, 0.75, *rest], rel=1e-12)


def test_defaults_of_the_switches_for_speed():
    told = {"channels_last": None, "deterministic": True, "keep_memory": True, "tf32": True}
    told |= {"compile": False, "cuda_graphs": False, "eval_batch_size": 250}
    assert dataclasses.asdict(Speed()) == told


def test_two_newest_states_of_a_trial_are_kept(tmp_path: Path):
    """Every step is saved. `stop` is called twice for each step and ends the eighth step."""
    trial, store, asked = make_trial(epochs=4), CheckpointStore(tmp_path), itertools.count()
    how = {"checkpoint_dir": tmp_path, "checkpoint_every_minutes": 1e-9}
    with pytest.raises(Interrupted, match="stopped on request in epoch 3 of 4; checkpointed"):
        train([trial], few_digits(), stop=lambda: next(asked) > 13, **how)
    kept = sorted(path.name for path in (tmp_path / trial.trial_id).iterdir())
    assert kept == ["000001-000003.ckpt", "000002-000000.ckpt"]
    places = [one.reached for one in store.load(trial.trial_id, few_digits().digest)]
    assert places == [(2, 0), (1, 3)]
    with pytest.raises(Interrupted, match="in epoch 1 of 4; nothing was kept: no checkpoint_dir"):
        train([trial], few_digits(), stop=lambda: True)


@pytest.mark.parametrize(("deterministic", "tf32"), [(True, False), (False, True)])
def test_cudnn_follows_the_switches_only_within_the_context(deterministic, tf32):
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    before = [getattr(torch.backends.cudnn, name) for name in names]
    with numerics(Speed(deterministic=deterministic, tf32=tf32)):
        inside = [getattr(torch.backends.cudnn, name) for name in names]
    assert inside == [True, not deterministic, deterministic, tf32]
    assert [getattr(torch.backends.cudnn, name) for name in names] == before


def test_images_per_second_are_finite_after_no_time():
    assert Progress(started="", images=5).images_per_s == pytest.approx(5e9)
    assert Progress(started="", images=6, seconds=2.0).images_per_s == 3.0


def test_layout_is_channels_last_where_gradients_are_right():
    def last(device: str, network: str = "rebench", **speed: bool):
        trial = make_trial().model_copy(update={"network": network})
        return Speed(**speed).has_channels_last(torch.device(device), trial)

    assert last("cpu", "xautodl")
    assert last("cuda:1")
    on_gpu = Speed(tf32=False).switches(torch.device("cuda"), make_trial())
    assert on_gpu == {
        "channels_last": True,
        "compile": False,
        "deterministic": True,
        "tf32": False,
        "cuda_graphs": False,
    }
    assert not last("cuda", "xautodl")
    assert last("cuda", "xautodl", channels_last=True)
    assert not last("cpu", channels_last=False)
