"""Submit: send what is pending and nothing else, however often and by however many it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cells import Cell
from rebench.errors import InputError
from rebench.launch.clusters import SlurmCluster, make_cluster
from rebench.launch.files import Tell, unheard
from rebench.launch.holding import JobView, held_trials, jobs_of
from rebench.launch.journal import Intent, Journal
from rebench.launch.preflight import check_before_sending, left_out_nodes, without
from rebench.launch.run import Run
from rebench.launch.sending import adopt_jobs, chunks_of, send_chunks
from rebench.launch.turns import live_arrays
from rebench.store import FinishedTrials
from rebench.sweep import (
    GUESS,
    Expansion,
    Job,
    SlurmOptions,
    SweepSpec,
    TimeModel,
    Trial,
    group,
    pack_types,
)

__all__ = ["Order", "Preview", "Submitted", "preview", "submit"]

_NO_ROOM: Final = (
    "as many jobs of this run are live as this machine has room for (GPUs, or cores /"
    " cpus_per_task, and array_parallelism)"
)


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
    preflight: bool = True


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
    """Trials that no job was started for: as many live as there may be."""
    limit: str
    """Why there may be no more, for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What `submit` would send to a type of device: trials, jobs an array, the first's script."""

    type_name: str
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
    confirm: Callable[[float], None] = lambda _: None,
) -> Submitted:
    """Send the trials of a sweep that have no record, no live job and no failure.

    Before they are sent, `confirm` is given their device hours; it may raise.
    """
    # Types of device are SLURM's; elsewhere what they share is asked for.
    options = spec.slurm if order.cluster == "slurm" else spec.slurm.of("")
    make_cluster(order.cluster, options)  # raises what keeps it from being used
    journal = Journal(Run.create(folder).folder)
    mine = journal.begin(tell)
    try:
        run = Run.open(folder).settled(tell)
        _agree(run, spec, expansion, accept_change=order.accept_change, tell=tell)
        adopted = adopt_jobs(run, journal, tell)
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
        last = journal.last()
        # What was accepted once is not asked about again.
        changed = last is None or last.options.shares != options.shares
        if changed and not order.accept_change:
            _refuse_mixing(expansion, options, jobs, done.keys() | held.keys(), pending)
        live = sum(job.live and job.cluster == order.cluster for job in jobs)
        if order.preflight and groups:
            check_before_sending(groups, options, order.cluster, order.data_root)
        on_slurm = order.cluster == "slurm"
        left_out = left_out_nodes(run, journal, options, tell) if on_slurm else {}
        options = without(options, left_out)
        clusters = {
            name: make_cluster(order.cluster, asked, trust_folder=order.trust_folder)
            for name, asked in options.by_type.items()
        }
        packed = {
            name: _fit(own, clusters[name].at_once(), live)
            for name, own in _pack(groups, options, order).items()
        }
        confirm(sum(job.seconds for each in packed.values() for job in each) / 3600)
        sizes = {
            name: one.beside(live_arrays(job for job in jobs if job.type_name == name))
            for name, one in clusters.items()
        }
        intent = Intent(
            cluster=order.cluster,
            spec_hash=spec.digest,
            options=options,
            data_root=order.data_root,
            left_out=left_out,
            chunks=chunks_of(f"{run.job_prefix}{mine.number}", packed, sizes),
        )
        mine.write_intent(intent)
        sent_jobs, sent_trials, limit = send_chunks(run, mine, intent, clusters, live=live)
    finally:
        mine.close()
    holders: dict[str, int] = {}
    for trial_id in held.keys() - done.keys():
        holders[held[trial_id]] = holders.get(held[trial_id], 0) + 1
    sent = len(pending & sent_trials)
    ours = {one.trial_id for one in expansion.trials}
    return Submitted(
        sent=sent,
        jobs=sent_jobs,
        done=len(done.keys() & ours),
        held=holders,
        failed=len(failed & ours - done.keys()),
        adopted=adopted,
        waiting=len(pending & {one.trial_id for group in groups for one in group}) - sent,
        limit=limit or _NO_ROOM,
    )


def preview(folder: Path, spec: SweepSpec, expansion: Expansion, order: Order) -> list[Preview]:
    """Return what `submit` would send of the trials without a record, by type of device.

    Works without SLURM.
    """
    done = FinishedTrials(folder).refresh().trials
    groups = [
        one
        for one in group(expansion.trials, spec.stack)
        if any(trial.trial_id not in done for trial in one)
    ]
    if not groups:
        raise InputError("the sweep has no trial that is to be trained")
    place = folder.absolute() / "submissions" / "NNNN" / "submitit"
    options = spec.slurm if order.cluster == "slurm" else spec.slurm.of("")
    previews = []
    for name, jobs in _pack(groups, options, order).items():
        cluster = SlurmCluster(options.of(name), trust_folder=order.trust_folder)
        chunks = chunks_of("rebench-dry-run", {name: jobs}, {name: cluster.beside({})})
        own = [trial for job in jobs for one in job.groups for trial in one]
        if chunks:
            shown = Preview(
                type_name=name,
                trials=sum(trial.trial_id not in done for trial in own),
                arrays=tuple(len(chunk.jobs) for chunk in chunks),
                device_hours=sum(job.seconds for job in jobs) / 3600,
                script=cluster.script(place, chunks[0]),
            )
            previews.append(shown)
    return previews


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
        set(run.ids(damaged.append)),
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


def _pack(
    groups: Sequence[tuple[Trial, ...]], options: SlurmOptions, order: Order
) -> dict[str, list[Job]]:
    return pack_types(groups, order.times, options, trials_per_job=order.trials_per_job)


def _refuse_mixing(
    expansion: Expansion,
    options: SlurmOptions,
    jobs: Sequence[JobView],
    settled: set[str],
    pending: set[str],
) -> None:
    """Raise if a cell on a data set would be trained on another type of device than before."""
    sent = ((trial_id, job.type_name) for job in jobs for trial_id in job.trials)
    before = {trial_id: name for trial_id, name in sent if trial_id in settled}
    if not options.types and not any(before.values()):
        return
    homes: dict[tuple[Cell, str], set[str]] = {}
    for one in expansion.trials:
        if one.trial_id in before:
            homes.setdefault((one.cell, one.dataset), set()).add(before[one.trial_id])
    mixed = {
        (one.cell, one.dataset)
        for one in expansion.trials
        if one.trial_id in pending
        and homes.get((one.cell, one.dataset), set()) - {options.type_of(one)}
    }
    if mixed:
        raise InputError(
            f"[slurm.types] has changed: {len(mixed)} cells on a data set would have runs from two"
            " types of device. Put it back, or go on with `rebench submit --accept-change`"
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
