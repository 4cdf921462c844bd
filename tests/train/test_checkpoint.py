"""Checkpoints on disk, and training that is stopped and killed."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import multiprocessing
import pickle
import random
import signal
from pathlib import Path

import pytest
import torch
from trialsets import few_digits, make_trial

from rebench.runs import Record, Trial
from rebench.train import CheckpointStore, Interrupted, train


@pytest.fixture
def caught(caplog):
    caplog.set_level(logging.INFO, logger="rebench.train")
    return caplog


def stop_after(steps: int):
    counter = itertools.count(1)
    return lambda: next(counter) > steps


def interrupt(trials: list[Trial], folder: Path, steps: int, **options) -> None:
    with pytest.raises(Interrupted, match="checkpointed"):
        train(trials, few_digits(), checkpoint_dir=folder, stop=stop_after(steps), **options)


# four steps an epoch: within the first, at an end, within the second
@pytest.mark.parametrize(
    "steps",
    [pytest.param(1, marks=pytest.mark.slow), 3, 4, pytest.param(6, marks=pytest.mark.slow)],
)
def test_stopped_anywhere_and_taken_up_gives_the_same_bits(tmp_path: Path, steps: int):
    whole = train([make_trial()], few_digits())
    interrupt([make_trial()], tmp_path, steps)
    (record,) = train([make_trial()], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == whole[0].outcome
    assert record.cost.resumed == 1


def test_stopped_many_times_gives_the_same_bits(tmp_path: Path):
    trial = make_trial(epochs=3)
    whole = train([trial], few_digits())
    for _ in range(3):
        interrupt([trial], tmp_path, 2)
    (record,) = train([trial], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == whole[0].outcome
    assert record.cost.resumed == 3


def test_stopped_before_the_first_step_leaves_nothing_odd(tmp_path: Path):
    interrupt([make_trial()], tmp_path, 0)
    assert train([make_trial()], few_digits(), checkpoint_dir=tmp_path)[0].outcome.status == "done"


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


def test_checkpoint_stays_when_the_record_could_not_be_stored(tmp_path: Path):
    def full(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        train([make_trial()], few_digits(), checkpoint_dir=tmp_path, on_record=full)
    reports = []
    (record,) = train(
        [make_trial()], few_digits(), checkpoint_dir=tmp_path, on_epoch=reports.append
    )
    assert reports == []  # nothing was trained again
    assert record.outcome == train([make_trial()], few_digits())[0].outcome


def test_first_checkpoint_of_an_attempt_comes_early(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("rebench.train.trials._FIRST_SAVE_S", 0.0)
    trial = make_trial(epochs=3)
    found = []
    train(
        [trial],
        few_digits(),
        checkpoint_dir=tmp_path,
        checkpoint_every_minutes=60,
        on_epoch=lambda _: found.append(
            [path.name for path in (tmp_path / trial.trial_id).iterdir()]
        ),
    )
    # After the first step, and then not again for an hour.
    assert found == [["000000-000001.ckpt"]] * 3


def test_checkpoint_that_cannot_be_read_at_all_is_set_aside(tmp_path: Path, caught):
    trial = make_trial(epochs=3)
    interrupt([trial], tmp_path, 9)
    interrupt([trial], tmp_path, 0)
    newest = max((tmp_path / trial.trial_id).iterdir())
    newest.unlink()
    newest.mkdir()
    (record,) = train([trial], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == train([trial], few_digits())[0].outcome
    assert "it cannot be loaded" in caught.text


def test_two_newest_are_kept(tmp_path: Path):
    for steps in (4, 9, 2):
        interrupt([make_trial(epochs=6)], tmp_path, steps)
    names = sorted(path.name for path in (tmp_path / make_trial(epochs=6).trial_id).iterdir())
    assert names == ["000003-000000.ckpt", "000003-000003.ckpt"]


@pytest.mark.parametrize(
    "keep",
    [
        0,
        pytest.param(10, marks=pytest.mark.slow),
        pytest.param(100, marks=pytest.mark.slow),
        3000,
        pytest.param(-1, marks=pytest.mark.slow),
    ],
)
def test_truncated_checkpoint_is_set_aside_and_the_one_before_used(
    tmp_path: Path, caught, keep: int
):
    trial = make_trial(epochs=3)
    interrupt([trial], tmp_path, 9)
    interrupt([trial], tmp_path, 0)
    newest = max((tmp_path / trial.trial_id).iterdir())
    newest.write_bytes(newest.read_bytes()[:keep])
    (record,) = train([trial], few_digits(), checkpoint_dir=tmp_path)
    assert record.outcome == train([trial], few_digits())[0].outcome
    assert str(newest) in caught.text
    assert "resuming 1 trials at epoch 2" in caught.text


def test_flipped_bit_is_noticed(tmp_path: Path, caught):
    interrupt([make_trial()], tmp_path, 1)
    (file,) = (tmp_path / make_trial().trial_id).iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    (record,) = train([make_trial()], few_digits(), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert "checksum" in caught.text


def test_checkpoint_of_another_trial_is_not_used(tmp_path: Path, caught):
    interrupt([make_trial(1)], tmp_path, 1)
    (tmp_path / make_trial(1).trial_id).rename(tmp_path / make_trial(2).trial_id)
    (record,) = train([make_trial(2)], few_digits(), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert f"belongs to trial {make_trial(1).trial_id}" in caught.text


def test_checkpoint_made_with_other_images_is_not_used(tmp_path: Path, caught):
    interrupt([make_trial()], tmp_path, 1)
    (record,) = train([make_trial()], few_digits(train=96), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert "other images" in caught.text


@pytest.mark.parametrize("field", ["epoch_rate", "curves", "net"])
def test_checkpoint_that_lacks_a_field_is_said_to_be_of_another_version(
    tmp_path: Path, caught, field: str
):
    interrupt([make_trial()], tmp_path, 1)
    (file,) = (tmp_path / make_trial().trial_id).iterdir()
    fields = torch.load(io.BytesIO(file.read_bytes().partition(b"\n")[2]), weights_only=True)
    del fields[field]
    content = io.BytesIO()
    torch.save(fields, content)
    file.write_bytes(with_checksum(content.getvalue()))
    (record,) = train([make_trial()], few_digits(), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert "it is not a checkpoint of this version" in caught.text


def with_checksum(body: bytes) -> bytes:
    return b"rebench-checkpoint-1 %s\n" % hashlib.sha256(body).hexdigest().encode() + body


def test_checkpoint_that_would_run_code_does_not(tmp_path: Path, caught):
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    content = io.BytesIO()
    torch.save({"trial_id": Evil()}, content)
    folder = tmp_path / make_trial().trial_id
    folder.mkdir()
    (folder / "000001-000000.ckpt").write_bytes(with_checksum(content.getvalue()))
    (record,) = train([make_trial()], few_digits(), checkpoint_dir=tmp_path)
    assert record.cost.resumed == 0
    assert "more than tensors" in caught.text


def test_leftover_of_a_broken_write_is_ignored(tmp_path: Path):
    folder = tmp_path / make_trial().trial_id
    folder.mkdir()
    (folder / ".000001-000000.ckpt.123.abc").write_bytes(pickle.dumps("half"))
    assert CheckpointStore(tmp_path).load(make_trial().trial_id, "x") == []


def test_checkpoint_is_written_by_the_clock_within_an_epoch(tmp_path: Path):
    seen = []

    def stop() -> bool:
        seen.append(len(list(tmp_path.glob("*/*.ckpt"))))
        return False

    train(
        [make_trial(epochs=1)],
        few_digits(),
        checkpoint_dir=tmp_path,
        checkpoint_every_minutes=0,
        stop=stop,
    )
    assert seen[0] == 0
    assert seen[-1] == 2  # the two newest of those within the epoch


def _train_until_done(
    folder: str, seeds: list[int], stack: int, killed_after: float | None
) -> None:
    """Train; once every trial has a new checkpoint, live for so many seconds of work, if told."""
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
            # Nothing handles this signal: the kernel ends the process wherever it is. The clock is
            # that of the process's own work, so that a busy machine changes nothing.
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
    """Start and kill; then let one run end. Return how many kills found it still training."""
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
