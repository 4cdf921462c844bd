"""Following a run until it is over: repeated submissions, and when they stop.

The tests replace the clock: a look takes no time, and a pause exactly its length.
"""

from __future__ import annotations

import itertools

import pytest
from made_records import make_record, make_run, write_records

from rebench.errors import ClusterError, StoreError
from rebench.launch import status as looking
from rebench.launch.journal import Chunk, Intent, Journal, Sent
from rebench.launch.liveness import Reporter
from rebench.launch.status import follow
from rebench.launch.submit import Submitted
from rebench.runs import Failure, Run, ShardWriter, now, results
from rebench.runs.claims import Holder, mark_of, this_process

RECORDS = [make_record(seed=seed) for seed in range(24)]


class Clock:
    def __init__(self) -> None:
        self.now, self.pauses = 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1
        assert self.pauses < 600, "it comes to no end"


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(looking, "time", clock)
    return clock


def _hold(run: Run, count: int) -> None:
    """Give each of the first trials to a job that lives as long as this process."""
    mine = Journal(run.folder).begin()
    chunks = tuple(
        Chunk(name=f"{run.job_prefix}{mine.number}.{at}", jobs=(((record.trial_id,),),))
        for at, record in enumerate(RECORDS[:count])
    )
    mine.write_intent(Intent(cluster="local", spec_hash="", chunks=chunks))
    for at in range(count):
        mine.write_sent(at, Sent(jobs=(str(at),), process=this_process()))
    mine.close()


def _end(run: Run, job: int) -> None:
    ended = Sent(jobs=(str(job),), process=mark_of(1, ended=True))
    Journal(run.folder).submission(1).write_sent(job, ended)


def _sent(sent: int = 1, jobs: tuple[str, ...] = (), waiting: int = 0) -> Submitted:
    none = {"run": None, "done": 0, "held": {}, "failed": 0, "limit": ""}
    return Submitted(sent=sent, jobs=jobs, waiting=waiting, **none)


@pytest.mark.parametrize("done", [0, 1, 2])
def test_three_submissions_that_finish_nothing_end_it_after_longer_and_longer_pauses(
    tmp_path, clock, done
):
    """Pauses of 6, 12 and 24 s: submissions at 0, 6 and 18 s, and the error at 42 s."""
    run = make_run(tmp_path, RECORDS[:4])
    _hold(run, 3)
    for job in range(3):  # one trial was never sent, three are lost
        _end(run, job)
    write_records(tmp_path, "w", *RECORDS[:done])
    looks, sends, told = [], [], []

    def send() -> Submitted:
        sends.append(clock.now)
        return _sent(sent=3, jobs=("1", "2"))

    with pytest.raises(ClusterError, match="stopped: 3 submissions in a row have finished no"):
        follow(run, lambda _: looks.append(clock.now), every_s=1, send=send, tell=told.append)
    assert (sends, looks) == ([0, 6, 18], list(range(43)))
    assert told == ["sent 3 trials in 2 jobs; 0 wait"] * 3


def test_submission_that_finishes_a_trial_counts_those_that_do_not_from_the_start(tmp_path, clock):
    """Every third submission finishes trials: done, diverged or failed ones.

    The pauses after it begin with 6 s again.
    """
    run, sends = make_run(tmp_path, RECORDS[:5]), []
    diverged = {"status": "diverged", "diverged_epoch": 1}
    told = {"kind": "k", "message": "m", "job": "", "worker": "w", "node": "n", "log": ""}
    failure = Failure(trial_id=RECORDS[3].trial_id, submission=1, time=now(), **told)

    def send() -> Submitted:
        sends.append(clock.now)
        if len(sends) == 3:
            write_records(tmp_path, "w", RECORDS[0], make_record(seed=1, outcome=diverged))
        elif len(sends) == 6:
            write_records(tmp_path, "w", RECORDS[2])
            ShardWriter(tmp_path / "failures", "w").append([failure.model_dump_json()])
        elif len(sends) == 9:
            write_records(tmp_path, "w", RECORDS[4])
        return _sent()

    last = follow(run, lambda _: None, every_s=1, send=send)
    assert sends == [0, 6, 18, 42, 48, 60, 84, 90, 102]
    found = {name: count for name, count in last.counts.items() if count}
    assert found == {"done": 3, "diverged": 1, "failed": 1}
    assert last.train_hours == 4 * 1.5 / 3600


@pytest.mark.parametrize("kind", [ClusterError, StoreError])
def test_refusals_end_it_when_there_were_twelve_in_a_row(tmp_path, clock, kind):
    """One job lives all the time. Pauses grow to 15 minutes; an accepted submission resets them."""
    run = make_run(tmp_path, RECORDS[:2])
    _hold(run, 1)
    sends, told = [], []

    def send() -> Submitted:
        sends.append(clock.now)
        if len(sends) == 12:
            return _sent()
        raise kind(f"no {len(sends)}")

    with pytest.raises(kind, match=r"^no 24$"):
        follow(run, lambda _: None, every_s=50, send=send, tell=told.append)
    pauses = [after - before for before, after in itertools.pairwise(sends)]
    assert pauses == [600, *[900] * 10, 300, 600, *[900] * 10]
    assert told == [
        *(f"not sent: no {at}; trying again" for at in range(1, 12)),
        "sent 1 trials in 0 jobs; 0 wait",
        *(f"not sent: no {at}; trying again" for at in range(13, 24)),
    ]


def test_where_the_scheduler_takes_no_more_a_tenth_of_the_jobs_ends_first(tmp_path, clock):
    run = make_run(tmp_path, RECORDS)
    _hold(run, 20)
    answers = iter([_sent(waiting=9), _sent(jobs=("a", "b"), waiting=7), _sent(waiting=7), _sent()])
    live, sends = [], []

    def look(latest) -> None:
        live.append(sum(job.live for job in latest.jobs))
        if len(live) % 2:
            _end(run, len(live) // 2)

    def send() -> Submitted:
        sends.append((len(live), live[-1]))
        return next(answers)

    with pytest.raises(StopIteration):
        follow(run, look, every_s=0, send=send)
    assert live == [20, 19, 19, 18, 18, 17, 17]
    # These jobs must end before the next submission: 2 of 20, then 2 of 20 (18 and 2 new ones),
    # then 1 of 18. After the last, no trial waits, so no job must end.
    assert sends == [(1, 20), (4, 18), (5, 18), (6, 17), (7, 17)]


@pytest.mark.parametrize("resubmitting", [False, True])
def test_it_ends_when_nothing_runs_or_waits_and_nothing_is_left_to_send(
    tmp_path, clock, resubmitting
):
    run = make_run(tmp_path, RECORDS[:2])
    _hold(run, 2)
    looks = []

    def look(latest) -> None:
        looks.append([latest.counts[name] for name in ("queued", "lost", "done")])
        if len(looks) == 3:
            _end(run, 0)
            write_records(tmp_path, "w", RECORDS[1])
        if len(looks) == 5 and resubmitting:
            write_records(tmp_path, "v", RECORDS[0])

    send = (lambda: pytest.fail("nothing is lost")) if not resubmitting else _sent
    last = follow(run, look, every_s=7, send=send if resubmitting else None)
    assert looks[:4] == [[2, 0, 0]] * 3 + [[0, 1, 1]]
    assert len(looks) == (6 if resubmitting else 4)
    assert clock.now == 7 * (len(looks) - 1)
    assert last.counts["done"] == 1 + resubmitting


def test_records_are_read_once_and_all_of_them_again_at_the_end(tmp_path, clock, monkeypatch):
    run = make_run(tmp_path, RECORDS[:4])
    _hold(run, 4)
    write_records(tmp_path, "a", *RECORDS[:2])
    read, looks = [], []
    real = results.read_record
    monkeypatch.setattr(results, "read_record", lambda *a, **how: read.append(1) or real(*a, **how))

    def look(latest) -> None:
        looks.append((len(read), latest.counts["done"]))
        if len(looks) == 2:
            write_records(tmp_path, "b", *RECORDS[1:3])
        if len(looks) == 3:
            (tmp_path / "results" / "a.0.jsonl").unlink()
            _end(run, 0)
            _end(run, 3)

    last = follow(run, look, every_s=7)
    # The second record of a trial is compared with the first: both are read again.
    assert looks == [(2, 2), (2, 2), (6, 3), (8, 2)]
    assert last.counts["lost"] == 2


def test_trial_that_runs_shows_how_far_its_worker_is_and_later_how_that_ended(tmp_path):
    run = make_run(tmp_path, RECORDS[:2])
    _hold(run, 2)
    me = {"worker": "w", "job": "0", "attempt": 0, "cluster": "local", "user": ""}
    reporter = Reporter(tmp_path, Holder(**me, process=this_process()), tmp_path / "w.log")
    reporter.begin([RECORDS[0].trial])

    def told(at: int) -> tuple[object, ...]:
        one = looking.status(tmp_path).trials[RECORDS[at].trial_id]
        return one.state, one.job, one.reason, one.epoch, one.epochs, one.eta_s, one.log

    log = str(run.folder / "submissions/0001/logs/{}_0.log")
    assert told(0) == ("running", "0", "", 0, 2, None, str(tmp_path / "w.log"))
    assert told(1) == ("queued", "1", "running", None, None, None, log.format(1))
    reporter.end("stopped: no data")
    _end(run, 0)
    reason = "job ended (stopped: no data)"
    assert told(0) == ("lost", "0", reason, None, None, None, log.format(0))
    assert looking.status(tmp_path).train_hours == 0
    write_records(tmp_path, "w", RECORDS[2])
    assert looking.status(tmp_path).extra_records == 1
