"""Selection of the trials to submit, without a cluster and without files."""

import itertools
from pathlib import Path

import pytest

from rebench.errors import InputError
from rebench.launch.clusters import Limits
from rebench.launch.clusters.commands import state_of
from rebench.launch.decide import Order, Throttle, bad_nodes, decide
from rebench.launch.expansion import expand_spec
from rebench.launch.journal import Intent, Job, Journal
from rebench.launch.state import State
from rebench.runs import Failure, SlurmOptions, TimeModel, parse_spec
from rebench.runs.slurm_options import slurm_minutes

SPEC = """
datasets = ["digits"]
recipes = ["nb201", "topology"]
seeds = [1, 2, 3]
epochs = 2
[cells]
indices = [11, 284]
[slurm]
array_parallelism = 4
mem_gb = 2
"""
TIMES = TimeModel(per_gflop_s=1e-4, per_layer_s=1e-5, source="")
SLURM = Limits(largest=1001)


def _job(
    trials, name="RUNNING", *, submission=1, job="7_0", partition=None, cluster="slurm", **ended
) -> Job:
    return Job(
        submission=Journal(Path("/run")).submission(submission),
        cluster=cluster,
        options=SlurmOptions(partition=partition),
        name=f"rebench-x-{submission}.0",
        number=job,
        groups=(tuple(trials),),
        state=state_of(name),
        **ended,
    )


def _decide(text=SPEC, state=None, limits=SLURM, cluster="slurm", **order):
    spec = parse_spec(text)
    trials = expand_spec(spec).trials
    return [one.trial_id for one in trials], decide(
        spec,
        trials,
        Order(cluster=cluster, **order),
        state or State(),
        limits,
        times=TIMES,
        number=5,
        now=1e6,
    )


def _sent(decision) -> list[str]:
    jobs = itertools.chain.from_iterable(chunk.jobs for chunk in decision.intent.chunks)
    return list(itertools.chain.from_iterable(itertools.chain.from_iterable(jobs)))


def _failure(submission: int) -> Failure:
    return Failure.model_construct(submission=submission)


def _last(**kept) -> Intent:
    return Intent(cluster="slurm", spec_hash="", chunks=(), **kept)


def test_all_is_sent_where_nothing_is_known_in_as_many_jobs_as_may_run_at_once():
    text = SPEC.replace("epochs = 2", "epochs = 20_000")
    ids, decision = _decide(text)
    assert sorted(_sent(decision)) == sorted(ids)
    (chunk,) = decision.intent.chunks
    assert (chunk.name, len(chunk.jobs)) == ("rebench-0.0", 4)
    # Jobs of SLURM with a few seconds of work become one job; those of this machine do not.
    assert len(_decide()[1].intent.chunks[0].jobs) == 1
    assert len(_decide(cluster="local")[1].intent.chunks[0].jobs) == 4
    seconds = map(TIMES.seconds, expand_spec(parse_spec(text)).trials)
    assert decision.hours == pytest.approx(sum(seconds) / 3600)
    assert decision.notes == ()


def test_what_is_done_held_or_failed_is_not_sent():
    ids, _ = _decide()
    state = State(
        jobs=[_job(ids[1:3]), _job(ids[3:5], "FAILED", submission=2)],
        done=dict.fromkeys(ids[:1]),
        failures={ids[3]: _failure(2), ids[4]: _failure(1)},
    )
    _, decision = _decide(state=state)
    # Trial 3 failed in submission 2, the last one that sent it, so it counts as failed. Trial 4
    # failed in submission 1 and was then sent by submission 2, so it is sent again.
    assert sorted(_sent(decision)) == sorted(ids[4:])
    assert decision.failed == 1
    _, again = _decide(state=state, retry_failed=True)
    assert sorted(_sent(again)) == sorted(ids[3:])
    assert state.held == {ids[1]: "7_0", ids[2]: "7_0"}


def test_stack_of_which_a_live_job_holds_a_part_waits():
    ids, _ = _decide()
    state = State(jobs=[_job(ids[:1])])
    _, decision = _decide(f"stack = 3\n{SPEC}", state)
    assert len(decision.groups) == 3
    assert ids[0] not in _sent(decision)
    assert set(ids[1:3]) <= decision.pending - set(_sent(decision))


def test_machine_gets_no_more_jobs_than_it_has_room_for_and_all_trials_are_in_them():
    ids, decision = _decide(limits=Limits(at_once=2, largest=1), cluster="local")
    assert [len(chunk.jobs) for chunk in decision.intent.chunks] == [1, 1]
    assert sorted(_sent(decision)) == sorted(ids)
    # Only one of these jobs takes room on the machine: the live one of the cluster `local`.
    others = [_job(()), _job((), "ENDED", cluster="local")]
    state = State(jobs=[_job((), cluster="local"), *others])
    _, rest = _decide(state=state, limits=Limits(at_once=3, largest=1), cluster="local")
    assert [len(chunk.jobs) for chunk in rest.intent.chunks] == [1, 1]
    assert sorted(_sent(rest)) == sorted(ids)


def test_time_limit_cuts_jobs_on_slurm_alone():
    text = SPEC.replace("epochs = 2", "epochs = 2000").replace("= 4\n", "= 1\ntime_min = 1\n")
    jobs = [job for chunk in _decide(text)[1].intent.chunks for job in chunk.jobs]
    assert len(jobs) > 1
    ids, here = _decide(text, limits=Limits(largest=1), cluster="debug")
    (chunk,) = here.intent.chunks
    assert (len(chunk.jobs), sorted(_sent(here))) == (1, sorted(ids))


def test_what_does_not_fit_beside_live_arrays_goes_in_an_array_that_waits():
    state = State(jobs=[_job((), job=f"12_{task}") for task in range(2)])
    _, decision = _decide(state=state, trials_per_job=1)
    assert [len(chunk.jobs) for chunk in decision.intent.chunks] == [2, 10]
    assert decision.throttle.before(2) == ()
    assert decision.throttle.before(10) == ("12",)


def test_jobs_of_another_partition_do_not_count():
    live = [_job((), job=f"12_{task}", partition="a") for task in range(3)]
    text = SPEC + "partition = 'a'\n"
    assert _decide(text, State(jobs=live))[1].throttle.room == 1
    assert _decide(text.replace("'a'", "'b'"), State(jobs=live))[1].throttle.room == 4


@pytest.mark.parametrize(("stack", "most", "sent"), [(1, 1, 1), (1, 5, 5), (3, 5, 3), (3, 99, 12)])
def test_at_most_so_many_trials_are_sent_and_no_stack_is_divided(stack, most, sent):
    ids, decision = _decide(f"stack = {stack}\n{SPEC}", trials=most)
    assert _sent(decision) == ids[:sent]
    # The checkpoints of all unfinished trials are kept.
    assert (decision.unfinished, decision.pending) == (set(ids), set(ids))


def test_fewer_trials_than_a_stack_are_refused():
    with pytest.raises(InputError, match="--trials 2 is less than a stack of 3 trials"):
        _decide(f"stack = 3\n{SPEC}", trials=2)
    # One trial of the first stack has a record: two are pending.
    ids, _ = _decide()
    _, decision = _decide(f"stack = 3\n{SPEC}", State(done=dict.fromkeys(ids[:1])), trials=2)
    assert _sent(decision) == ids[:3]


# Memory


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("mem_gb = 2", "(mem_gb = 2): cancel them, and submit again with more (--set slurm"),
        (
            "mem_per_cpu = '3G'",
            "(mem_per_cpu = 3G): cancel them, and submit again with more (",
        ),
        ("", "(the default of the cluster): cancel them, and submit again with more (--set slurm"),
    ],
)
def test_after_a_lack_of_memory_a_note_says_what_to_set(given, told):
    ids, _ = _decide()
    text = SPEC.replace("mem_gb = 2", given)
    last = _last(options=parse_spec(text).slurm)
    short = State(jobs=[_job(ids[:3], "OUT_OF_MEMORY")], last=last)
    _, decision = _decide(text, short)
    (note,) = decision.notes
    assert note.startswith("1 jobs ran out of memory, and these jobs get the same memory (")
    assert told in note
    assert decision.intent.options == last.options
    # No note after more memory was set, or after another end.
    assert _decide(f"{SPEC}mem_per_cpu = '9G'".replace("mem_gb = 2", ""), short)[1].notes == ()
    ended = [*short.jobs, _job(ids[:3], "TIMEOUT", submission=2, job="8_0")]
    assert _decide(text, State(jobs=ended, last=last))[1].notes == ()


# Nodes


def _ended(**ends: str) -> list[Job]:
    """Return the jobs of each node, in order, one for each letter.

    f failed at once, m after a minute, F after an hour; c completed; r is running. o ran out of
    memory; the queue shows such a job as failed.
    """
    states = {"f": "FAILED", "F": "FAILED", "c": "COMPLETED", "r": "RUNNING", "o": "OUT_OF_MEMORY"}
    states["m"] = "FAILED"
    times = {"F": "1:00:00", "m": "1:00"}
    clock = itertools.count(10)
    jobs = []
    for node, order in ends.items():
        for number, end in zip(clock, order, strict=False):
            used, at = times.get(end, "0:59"), f"2026-01-01T00:00:{number}"
            known = {"node": node, "used_min": slurm_minutes(used), "ended": at}
            jobs.append(_job((), states[end], job=str(number), **known))
    return jobs


def _bad(jobs: list[Job], **how) -> list[str]:
    return bad_nodes(reversed(jobs), [job.number for job in jobs], **how)


def test_node_is_bad_when_its_last_three_jobs_failed_at_once():
    jobs = _ended(n1="cfff", n2="fffc", n3="FFF", n4="ff", n5="fffr", n6="fFff", n7="ooo", n8="mmm")
    assert _bad(jobs) == ["n1", "n5"]


def test_node_is_not_to_blame_for_workers_that_came_to_train_and_died():
    assert bad_nodes(_ended(n1="ffff", n2="c"), idle=()) == []


def test_no_node_is_to_blame_where_jobs_fail_on_every_one():
    assert _bad(_ended(n1="fff", n2="fff", n3="fff")) == []
    # If one node gets all jobs, no job can fail on another node.
    assert _bad(_ended(n1="fffffff")) == ["n1"]


def _after(last: Intent | None = None, nodes=("n1", "n2"), text=SPEC, **order):
    jobs = _ended(n1="fff")
    state = State(jobs=jobs, last=last)
    limits = Limits(largest=9, nodes=frozenset(nodes))
    return _decide(text, state, limits, **order)[1]


def test_bad_node_is_left_out_beside_those_of_the_sweep_and_told_of_once():
    first = _after(text=f"{SPEC}exclude = 'n[4-6]'\n")
    assert first.intent.options.exclude == "n[4-6],n1"
    assert first.intent.left_out == {"n1": 1e6}
    assert "no job is sent to n1 for an hour: 3 jobs in a row failed" in first.notes[0]
    again = _after(_last(left_out=first.intent.left_out))
    assert (again.intent.options.exclude, again.notes) == ("n1", ())


def test_node_is_used_again_after_an_hour_and_at_once_after_one_command():
    good = State(last=_last(left_out={"n3": 1e6 - 3599.5, "n4": 1e6 - 3600}))
    assert _decide(state=good)[1].intent.left_out == {"n3": 1e6 - 3599.5}
    at_once = _after(_last(left_out={"n1": 1e6 - 5}), preflight=False)
    assert (at_once.intent.left_out, at_once.intent.nodes_judged_from) == ({}, 5)
    # Later submissions ignore the failures before that command.
    assert _after(_last(nodes_judged_from=2)).intent.left_out == {}
    assert _after(_last(nodes_judged_from=1)).intent.left_out == {"n1": 1e6}


def test_last_node_of_a_partition_is_never_left_out():
    decision = _after(nodes=("n1",))
    assert decision.intent.left_out == {}
    assert decision.notes[0].startswith("jobs are sent to n1 although 3 in a row failed there")


# Throttle


def test_first_array_has_all_jobs_where_none_is_live():
    assert Throttle(64, {}).first_size(1001) == 1001


def test_arrays_of_one_submission_run_one_after_the_other_once_there_is_no_room():
    throttle = Throttle(4, {"1": 2})
    # Jobs for which there is room start at once; the others wait until all of these have ended.
    assert throttle.first_size(10) == 2
    assert throttle.before(2) == ()
    throttle.sent("2", 2)
    assert throttle.before(10) == ("1", "2")
    throttle.sent("3", 10)
    assert throttle.before(1) == ("3",)
    throttle.sent("4", 1)
    assert throttle.before(3) == ()
    throttle.sent("5", 3)
    assert throttle.before(1) == ("4", "5")


def test_live_array_counts_as_many_jobs_as_it_has():
    assert Throttle(64, {"1": 100, "2": 3}).room == 0
    assert Throttle(64, {"1": 30, "2": 3}).room == 31
