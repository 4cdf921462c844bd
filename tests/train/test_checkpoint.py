"""Checkpoints on disk, and training that is stopped and killed."""

from __future__ import annotations

import hashlib
import io
import logging
import multiprocessing
import pickle
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from trialsets import few_digits, interrupt, make_trial

from rebench.runs import Record
from rebench.train import CheckpointStore, train


@pytest.fixture
def caught(caplog):
    caplog.set_level(logging.INFO, logger="rebench.train")
    return caplog


# Four steps an epoch: before the first, within it, at its end, within the second; and three times.
@pytest.mark.parametrize(
    "stops",
    [
        (0,),
        pytest.param((1,), marks=pytest.mark.slow),
        (3,),
        (4,),
        pytest.param((6,), marks=pytest.mark.slow),
        (2, 2, 2),
    ],
)
def test_stopped_and_resumed_trials_have_the_same_bits(tmp_path: Path, stops: tuple[int, ...]):
    trial = make_trial(epochs=max(2, len(stops)))
    (whole,) = train([trial], few_digits())
    for steps in stops:
        interrupt([trial], steps, checkpoint_dir=tmp_path)
    (record,) = train([trial], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == whole.outcome
    assert record.cost.resumed == len(stops)


def test_checkpoints_are_removed_when_the_record_was_taken(tmp_path: Path):
    left: list[int] = []
    train(
        [make_trial()],
        few_digits(),
        checkpoint_dir=tmp_path,
        on_record=lambda record: left.append(len(list((tmp_path / record.trial_id).iterdir()))),
    )
    assert left == [1]  # the finished state is there until the record is safe
    assert not (tmp_path / make_trial().trial_id).exists()


def test_checkpoint_of_another_worker_stays(tmp_path: Path):
    """A worker that was replaced says so with False: its successor uses the checkpoints."""
    train([make_trial()], few_digits(), checkpoint_dir=tmp_path, on_record=lambda _: False)
    assert list((tmp_path / make_trial().trial_id).iterdir())


def test_checkpoint_stays_when_the_record_could_not_be_stored(tmp_path: Path):
    def full(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        train([make_trial()], few_digits(), checkpoint_dir=tmp_path, on_record=full)
    reports, how = [], {"checkpoint_dir": tmp_path}
    (record,) = train([make_trial()], few_digits(), on_epoch=reports.append, **how)
    assert reports == []  # nothing was trained again
    assert record.outcome == train([make_trial()], few_digits())[0].outcome


def _cut_to(size: int) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[:size])


def _make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        _cut_to(0),
        pytest.param(_cut_to(10), marks=pytest.mark.slow),
        pytest.param(_cut_to(100), marks=pytest.mark.slow),
        _cut_to(3000),
        pytest.param(_cut_to(-1), marks=pytest.mark.slow),
        _make_folder,
    ],
)
def test_damaged_checkpoint_is_renamed_and_the_previous_checkpoint_is_used(
    tmp_path: Path, caught, damage
):
    trial = make_trial(epochs=3)
    for steps in (9, 0):
        interrupt([trial], steps, checkpoint_dir=tmp_path)
    newest = max((tmp_path / trial.trial_id).iterdir())
    damage(newest)
    (record,) = train([trial], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == train([trial], few_digits())[0].outcome
    assert str(newest) in caught.text
    assert "resuming 1 trials at epoch 2" in caught.text


class _Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit",))


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _without(field: str) -> Callable[[bytes], bytes]:
    def spoil(content: bytes) -> bytes:
        fields = torch.load(io.BytesIO(content.partition(b"\n")[2]), weights_only=True)
        del fields[field]
        return _with_checksum(fields)

    return spoil


def _with_checksum(fields: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    torch.save(fields, stream)
    body = stream.getvalue()
    return b"rebench-checkpoint-1 %s\n" % hashlib.sha256(body).hexdigest().encode() + body


SPOILT = {
    "a flipped bit": (_flipped, "checksum"),
    "code": (lambda _: _with_checksum({"trial_id": _Evil()}), "more than tensors"),
    "no rate": (_without("epoch_rate"), "not a checkpoint of this version"),
    "no curves": (_without("curves"), "not a checkpoint of this version"),
    "no network": (_without("net"), "not a checkpoint of this version"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_invalid_checkpoint_is_not_used_and_the_log_says_why(tmp_path: Path, caught, name: str):
    spoil, said = SPOILT[name]
    interrupt([make_trial()], 1, checkpoint_dir=tmp_path)
    (file,) = (tmp_path / make_trial().trial_id).iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    (record,) = train([make_trial()], few_digits(), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert said in caught.text


def test_checkpoint_of_another_trial_or_of_other_images_is_not_used(tmp_path: Path, caught):
    interrupt([make_trial(1)], 1, checkpoint_dir=tmp_path)
    (tmp_path / make_trial(1).trial_id).rename(tmp_path / make_trial(2).trial_id)
    interrupt([make_trial()], 1, checkpoint_dir=tmp_path)
    for trial, data in ((make_trial(2), few_digits()), (make_trial(), few_digits(train=96))):
        (record,) = train([trial], data, checkpoint_dir=tmp_path)
        assert record.cost.resumed == 0
    assert f"belongs to trial {make_trial(1).trial_id}" in caught.text
    assert "other images" in caught.text


def test_leftover_of_a_broken_write_is_ignored(tmp_path: Path):
    folder = tmp_path / make_trial().trial_id
    folder.mkdir()
    (folder / ".000001-000000.ckpt.123.abc").write_bytes(pickle.dumps("half"))
    assert CheckpointStore(tmp_path).load(make_trial().trial_id, "x") == []


def _train_until_done(
    folder: str, seeds: list[int], stack: int, killed_after: float | None
) -> None:
    """Train; if `killed_after` is given, end after this time of work with new checkpoints."""
    torch.set_num_threads(1)
    trials = [make_trial(seed, epochs=12) for seed in seeds]
    waiting = {trial.trial_id: _checkpoints(Path(folder, trial.trial_id)) for trial in trials}

    def stop() -> bool:
        if killed_after is None or not waiting:
            return False
        for trial_id, before in list(waiting.items()):
            if not _checkpoints(Path(folder, trial_id)) <= before:
                del waiting[trial_id]
        if not waiting:
            # No handler exists for this signal, so the kernel ends the process at any place. The
            # timer counts CPU time, so the result does not depend on other programs.
            signal.setitimer(signal.ITIMER_PROF, killed_after)
        return False

    train(
        trials,
        few_digits(),
        checkpoint_dir=folder,
        checkpoint_every_minutes=0.0002,
        stack=stack,
        stop=stop,
        on_record=lambda record: Path(folder, f"{record.trial_id}.json").write_text(
            record.model_dump_json(by_alias=True)
        ),
    )


def _checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("*.ckpt"))


def kill_at_random(folder: Path, seeds: list[int], stack: int, kills: int) -> int:
    """Start training and kill it, `kills` times; then let one process finish.

    Return the number of kills that came before the end of training.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rebench.train", "trialsets", __name__])
    rng = random.Random(0)
    hits = 0
    for attempt in range(kills + 1):
        killed_after = rng.uniform(0.001, 0.1) if attempt < kills else None
        process = context.Process(
            target=_train_until_done, args=(str(folder), seeds, stack, killed_after)
        )
        process.start()
        process.join()
        hits += process.exitcode == -signal.SIGPROF
    assert process.exitcode == 0
    return hits


@pytest.mark.slow
@pytest.mark.parametrize("stack", [1, 3])
def test_killed_at_random_moments_gives_the_same_bits(tmp_path: Path, stack: int):
    seeds = list(range(stack))
    hits = kill_at_random(tmp_path, seeds, stack, kills=6)
    trials = [make_trial(seed, epochs=12) for seed in seeds]
    records = [
        Record.model_validate_json((tmp_path / f"{trial.trial_id}.json").read_text())
        for trial in trials
    ]
    assert hits >= 4
    assert all(record.cost.resumed == hits for record in records)
    whole = train(trials, few_digits(), stack=stack)
    assert [record.outcome for record in records] == [record.outcome for record in whole]
