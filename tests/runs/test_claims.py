"""Claims: one live holder a trial, whoever else asks."""

import multiprocessing
import os

import pytest

from rebench.runs.claims import Claims, Holder, ProcessMark

TRIAL = "0123456789abcdef"


def holder(worker: str = "a", job: str = "1_0", attempt: int = 0) -> Holder:
    return Holder(
        worker=worker,
        job=job,
        attempt=attempt,
        cluster="slurm",
        user="",
        process=ProcessMark(host="n1", pid=1, started=worker),
    )


def test_live_holder_keeps_its_trial(tmp_path):
    first = Claims(tmp_path, holder("a", "1_0"), lambda _: "lives")
    second = Claims(tmp_path, holder("b", "2_0"), lambda _: "lives")
    assert first.take(TRIAL)
    assert second.take(TRIAL) is None
    first.release(TRIAL)
    assert second.take(TRIAL)


def test_ended_holder_is_overtaken_and_sees_it(tmp_path):
    first = Claims(tmp_path, holder("a", "1_0"), lambda _: "lives")
    second = Claims(tmp_path, holder("b", "2_0"), lambda _: "died")
    first.take(TRIAL)
    assert second.take(TRIAL).deaths == 1
    assert second.holds(TRIAL)
    assert not first.holds(TRIAL)
    first.release(TRIAL)
    assert second.holds(TRIAL)
    files = tmp_path / "claims"
    assert sorted(path.name for path in files.iterdir()) == [f"{TRIAL}.1", f"{TRIAL}.2"]
    second.release(TRIAL)
    assert not list(files.iterdir())


def test_overtaken_holder_does_not_take_a_later_claim_of_the_same_number_for_its_own(tmp_path):
    """A release removes all generations, so their numbers start again at 1."""
    first, second, third = (
        Claims(tmp_path, holder(name, f"{number}_0"), lambda _: "died")
        for number, name in enumerate("abc")
    )
    first.take(TRIAL)
    second.take(TRIAL)
    second.release(TRIAL)
    third.take(TRIAL)
    assert third.holds(TRIAL)
    assert not first.holds(TRIAL)
    first.release(TRIAL)
    assert third.holds(TRIAL)


def test_requeued_job_overtakes_its_older_copy_and_never_the_other_way(tmp_path):
    old = Claims(tmp_path, holder("a", "1_0", attempt=0), lambda _: "lives")
    new = Claims(tmp_path, holder("a2", "1_0", attempt=1), lambda _: "lives")
    old.take(TRIAL)
    assert new.take(TRIAL)
    assert not old.holds(TRIAL)
    assert old.take(TRIAL) is None


def test_deaths_are_counted_until_a_checkpoint_shows_progress(tmp_path):
    for death in range(3):
        claim = Claims(tmp_path, holder("a", f"{death}_0"), lambda _: "died").take(TRIAL)
        assert claim.deaths == death
    checkpoint = tmp_path / "checkpoints" / TRIAL / "x"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("")
    after = (tmp_path / "claims" / f"{TRIAL}.3").stat().st_mtime + 1
    os.utime(checkpoint, (after, after))
    assert Claims(tmp_path, holder("a", "3_0"), lambda _: "died").take(TRIAL).deaths == 0


def test_job_that_was_requeued_ten_times_has_not_died_once(tmp_path):
    for attempt in range(11):
        claim = Claims(tmp_path, holder("a", "1_0", attempt), lambda _: "died").take(TRIAL)
        assert claim.deaths == 0


def test_worker_that_the_scheduler_ended_has_not_died(tmp_path):
    """The job of the worker was preempted or lost its node, and another job continues.

    This is not counted as a death of the worker.
    """
    Claims(tmp_path, holder("a", "1_0"), lambda _: "died").take(TRIAL)
    second = Claims(tmp_path, holder("b", "2_0"), lambda _: "stopped")
    assert second.take(TRIAL).deaths == 0
    assert Claims(tmp_path, holder("c", "3_0"), lambda _: "died").take(TRIAL).deaths == 1


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.write_text("{")])
def test_unreadable_claim_is_overtaken(tmp_path, make):
    (tmp_path / "claims").mkdir()
    make(tmp_path / "claims" / f"{TRIAL}.1")
    assert Claims(tmp_path, holder(), lambda _: "lives").take(TRIAL)
    assert (tmp_path / "claims" / f"{TRIAL}.2").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_claim_that_may_not_be_read_is_taken_for_live(tmp_path):
    assert Claims(tmp_path, holder("a", "1"), lambda _: "died").take(TRIAL)
    (tmp_path / "claims" / f"{TRIAL}.1").chmod(0)
    assert Claims(tmp_path, holder("b", "2"), lambda _: "died").take(TRIAL) is None


@pytest.mark.parametrize("name", ["²", "٣", "007", "x"])
def test_claim_without_a_number_is_no_claim(tmp_path, name):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / os.fsdecode(f"{TRIAL}.{name}".encode())).write_text("")
    assert Claims(tmp_path, holder(), lambda _: "lives").take(TRIAL)
    assert (tmp_path / "claims" / f"{TRIAL}.1").exists()


def _race(folder, name, barrier, queue):
    claims = Claims(folder, holder(name, name), lambda _: "lives")
    for number in range(200):
        barrier.wait()
        if claims.take(f"{number:016x}"):
            queue.put(number)
    queue.put(None)


@pytest.mark.slow
def test_of_many_that_ask_at_once_exactly_one_gets_each_trial(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(3), context.Queue()
    workers = [
        context.Process(target=_race, args=(tmp_path, name, barrier, queue)) for name in "abc"
    ]
    for worker in workers:
        worker.start()
    won, ended = [], 0
    while ended < 3:
        number = queue.get(timeout=120)
        ended += number is None
        won += [] if number is None else [number]
    for worker in workers:
        worker.join()
    assert sorted(won) == list(range(200))
