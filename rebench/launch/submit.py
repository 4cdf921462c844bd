"""Submit: send what is pending and nothing else, however often and by however many it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rebench.errors import InputError, RebenchError
from rebench.launch.clusters import Cluster, SlurmCluster, make_cluster
from rebench.launch.files import Tell, unheard
from rebench.launch.holding import JobView, held_trials, jobs_of
from rebench.launch.journal import Chunk, Intent, Journal, Sent, Submission
from rebench.launch.run import Run, trial_ids
from rebench.launch.slurm import queued_jobs
from rebench.launch.worker import Worker
from rebench.store import FinishedTrials
from rebench.sweep import GUESS, Expansion, Job, SweepSpec, TimeModel, Trial, group, pack

__all__ = ["Order", "Preview", "Submitted", "preview", "submit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a sweep is to be sent."""

    cluster: str
    times: TimeModel = GUESS
    data_root: str | None = None
    trials_per_job: int | None = None
    retry_failed: bool = False
    trust_folder: bool = False
    accept_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a call of `submit` did."""

    sent: int
    jobs: tuple[str, ...]
    done: int
    held: Mapping[str, int]
    failed: int
    adopted: int
    waiting: int
    """Trials that no job was started for: as many run here as the machine has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a call of `submit` would send: trials, jobs an array, and the script of the first."""

    trials: int
    arrays: tuple[int, ...]
    device_hours: float
    script: str


def submit(
    folder: Path,
    spec: SweepSpec,
    expansion: Expansion,
    order: Order,
    tell: Tell = unheard,
) -> Submitted:
    """Send the trials of a sweep that have no record, no live job and no failure."""
    cluster = make_cluster(order.cluster, spec.slurm, trust_folder=order.trust_folder)
    run = Run.create(folder)
    journal = Journal(run.folder)
    mine = journal.begin(tell)
    try:
        _agree(run, spec, expansion, accept_change=order.accept_change, tell=tell)
        adopted = _adopt(run, journal, tell)
        jobs = jobs_of(run, tell)
        held = held_trials(jobs)
        done = FinishedTrials(run.folder).refresh().trials
        wanted = [one for one in expansion.trials if one.trial_id not in held]
        failed = set() if order.retry_failed else set(_failed(run, jobs))
        pending = {one.trial_id for one in wanted} - done.keys() - failed
        groups = [
            one
            for one in group(expansion.trials, spec.stack)
            if any(trial.trial_id in pending for trial in one)
            and not any(trial.trial_id in held for trial in one)
        ]
        live = sum(job.live and job.cluster == order.cluster for job in jobs)
        packed = _fit(_pack(groups, spec, order), cluster.at_once(), live)
        intent = _intend(run, mine, packed, spec, order, cluster.largest_chunk())
        sent_jobs = _send(run, mine, intent, cluster) if packed else ()
    finally:
        mine.close()
    holders: dict[str, int] = {}
    for trial_id in held.keys() - done.keys():
        holders[held[trial_id]] = holders.get(held[trial_id], 0) + 1
    ours = {one.trial_id for one in expansion.trials}
    return Submitted(
        sent=len(pending & {one.trial_id for one in _trials_of(packed)}),
        jobs=sent_jobs,
        done=len(done.keys() & ours),
        held=holders,
        failed=len(failed & ours - done.keys()),
        adopted=adopted,
        waiting=0 if packed else len(pending & {one.trial_id for group in groups for one in group}),
    )


def preview(folder: Path, spec: SweepSpec, expansion: Expansion, order: Order) -> Preview:
    """Return what `submit` would send of the trials without a record; works without SLURM."""
    done = FinishedTrials(folder).refresh().trials
    groups = [
        one
        for one in group(expansion.trials, spec.stack)
        if any(trial.trial_id not in done for trial in one)
    ]
    packed = _pack(groups, spec, order)
    cluster = SlurmCluster(spec.slurm, trust_folder=order.trust_folder)
    chunks = _chunks("rebench-dry-run", packed, cluster.largest_chunk())
    if not chunks:
        raise InputError("the sweep has no trial that is to be trained")
    place = folder.absolute() / "submissions" / "NNNN" / "submitit"
    return Preview(
        trials=sum(trial.trial_id not in done for one in groups for trial in one),
        arrays=tuple(len(chunk.jobs) for chunk in chunks),
        device_hours=sum(job.seconds for job in packed) / 3600,
        script=cluster.script(place, chunks[0]),
    )


def _agree(
    run: Run,
    spec: SweepSpec,
    expansion: Expansion,
    *,
    accept_change: bool,
    tell: Tell,
) -> None:
    """Store the sweep; a sweep that differs from the stored one must be meant to."""
    damaged: list[str] = []
    before, after = (
        run.trial_lines(damaged.append).keys(),
        {one.trial_id for one in expansion.trials},
    )
    for line in damaged:
        tell(line)
    # A list that is damaged may lack some.
    if before and before != after and not (damaged and before < after):
        change = (
            f"the sweep has changed since it was last submitted to {run.folder}:"
            f" {len(after - before)} trials are new, {len(before - after)} are no longer asked for"
        )
        if not accept_change:
            raise InputError(
                f"{change}. Give --accept-change to go on with the new sweep (records that exist"
                " are kept), or another --run"
            )
        tell(change)
    run.write_sweep(spec, expansion.trials)


def _failed(run: Run, jobs: Sequence[JobView]) -> list[str]:
    """Return trials whose last word is a failure: no later submission took them again."""
    latest: dict[str, int] = {}
    for job in jobs:
        for trial_id in job.trials:
            latest[trial_id] = max(latest.get(trial_id, 0), job.submission)
    failures = run.failures()
    return [one for one in failures if failures[one].submission >= latest.get(one, 0)]


def _pack(groups: Sequence[tuple[Trial, ...]], spec: SweepSpec, order: Order) -> list[Job]:
    return pack(
        groups,
        order.times,
        limit_s=spec.slurm.time_min * 60,
        parallelism=spec.slurm.array_parallelism,
        trials_per_job=order.trials_per_job,
    )


def _fit(packed: list[Job], at_once: int | None, live: int) -> list[Job]:
    """Return the jobs that may start now, each with what would else wait for it to end."""
    if at_once is None:
        return packed
    queues = [packed[slot :: max(at_once - live, 0)] for slot in range(at_once - live)]
    return [
        Job(tuple(one for job in queue for one in job.groups), sum(job.seconds for job in queue))
        for queue in queues
        if queue
    ]


def _trials_of(packed: Sequence[Job]) -> Iterator[Trial]:
    return (trial for job in packed for one in job.groups for trial in one)


def _chunks(prefix: str, packed: Sequence[Job], size: int) -> list[Chunk]:
    ids = [tuple(tuple(trial.trial_id for trial in one) for one in job.groups) for job in packed]
    return [
        Chunk(name=f"{prefix}.{number}", jobs=tuple(ids[start : start + size]))
        for number, start in enumerate(range(0, len(ids), size))
    ]


def _intend(
    run: Run, mine: Submission, packed: Sequence[Job], spec: SweepSpec, order: Order, size: int
) -> Intent:
    intent = Intent(
        cluster=order.cluster,
        spec_hash=spec.digest,
        options=spec.slurm,
        data_root=order.data_root,
        chunks=tuple(_chunks(f"rebench-{run.name}-{mine.number}", packed, size)),
    )
    mine.write_intent(intent)
    return intent


def _send(run: Run, mine: Submission, intent: Intent, cluster: Cluster) -> tuple[str, ...]:
    jobs: list[str] = []
    for number, chunk in enumerate(intent.chunks):
        mine.touch()
        try:
            sent = cluster.send(_submitit(mine), chunk, _workers(run, mine, number, chunk))
        except RebenchError as error:
            left = sum(len(trial_ids(job)) for one in intent.chunks[number:] for job in one.jobs)
            raise type(error)(
                f"{error} | sent before that: {len(jobs)} jobs; not sent: {left} trials, which"
                " submitting again will send"
            ) from error
        mine.write_sent(number, sent)
        jobs += sent.jobs
    return tuple(jobs)


def _adopt(run: Run, journal: Journal, tell: Tell) -> int:
    """Find the jobs of submitters that died between `sbatch` and writing down its answer."""
    adopted = 0
    for one in journal.submissions():
        intent = one.intent()
        # The jobs of another user refuse work that this one would write for them.
        if intent is None or intent.cluster != "slurm" or one.is_of_another:
            continue
        for number, chunk in enumerate(intent.chunks):
            if one.sent(number) is None:
                adopted += _adopt_chunk(run, one, number, chunk, intent)
    if adopted:
        tell(f"took over {adopted} jobs whose submitter had died before it could hand them over")
    return adopted


def _adopt_chunk(run: Run, one: Submission, number: int, chunk: Chunk, intent: Intent) -> int:
    found = {job.job for job in queued_jobs([chunk.name])}
    if not found:
        return 0
    main = next(iter(found)).partition("_")[0]
    count = len(chunk.jobs)
    jobs = {task: f"{main}_{task}" if count > 1 else main for task in range(count)}
    cluster = SlurmCluster(intent.options)
    cluster.adopt(_submitit(one), jobs, _workers(run, one, number, chunk))
    one.write_sent(number, Sent(jobs=tuple(jobs.values())))
    return count


def _workers(run: Run, one: Submission, number: int, chunk: Chunk) -> list[Worker]:
    return [Worker(str(run.folder), one.number, number, task) for task in range(len(chunk.jobs))]


def _submitit(one: Submission) -> Path:
    return one.folder / "submitit"
