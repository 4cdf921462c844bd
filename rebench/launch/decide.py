"""Selection of the trials to submit: a pure function that reads no file and calls no cluster.

`decide` has three steps: select the trials, leave out nodes on which jobs failed, and pack the
trials into arrays of jobs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.errors import InputError
from rebench.launch.clusters import Limits, cluster
from rebench.launch.journal import Chunk, Groups, Intent, Job
from rebench.launch.state import State
from rebench.runs import GUESS, SlurmOptions, SweepSpec, TimeModel, Trial, group, pack_jobs

__all__ = ["Decision", "Order", "Throttle", "bad_nodes", "cut", "decide", "smaller"]

# A node that fails this many jobs in a row, each within this time, is left out for this long.
_IN_A_ROW: Final = 3
_AT_ONCE_MIN: Final = 1.0
_LEFT_OUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Options of the user for a submission; `rebench.submit` explains each option."""

    cluster: str
    past: Path | None = None
    data_root: str | None = None
    trials: int | None = None
    trials_per_job: int | None = None
    retry_failed: bool = False
    accept_change: bool = False
    preflight: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The submission to make: its plan, its device hours and notes for the user."""

    intent: Intent
    hours: float
    """Device hours of the submitted trials."""
    times_from: str
    """The source of the times from which the hours were estimated."""
    throttle: Throttle
    """The limit of jobs that run at once."""
    pending: frozenset[str]
    """Ids of the trials to submit; some may have to wait for a later submission."""
    failed: int
    groups: Sequence[tuple[Trial, ...]]
    """The groups to submit."""
    unfinished: frozenset[str]
    """Ids of all trials in groups with a pending trial."""
    notes: tuple[str, ...]
    """Notes for the user, one line each."""


def decide(
    spec: SweepSpec,
    trials: Sequence[Trial],
    order: Order,
    state: State,
    limits: Limits,
    *,
    times: TimeModel = GUESS,
    prefix: str = "rebench-0.",
    number: int = 1,
    now: float = 0.0,
) -> Decision:
    """Select the trials that submission `number` sends at the Unix time `now`.

    The names of the jobs begin with `prefix`.
    """
    home = cluster(order.cluster)
    options = spec.slurm
    notes: list[str] = []
    if home.waits:
        options = options.model_copy(update={"array_parallelism": 1})
    last = state.last or Intent(cluster=order.cluster, spec_hash="", options=options, chunks=())
    failed: set[str] = set()
    if not order.retry_failed:
        failed = state.failed
    pending, groups = _select(trials, state, failed, spec.stack)
    unfinished = frozenset(one.trial_id for members in groups for one in members)
    if order.trials is not None:
        groups = _at_most(order.trials, groups, pending)
    _note_memory(state, last.options, options, pending, notes)
    judged_from = number
    left_out: dict[str, float] = {}
    if order.preflight:
        judged_from = last.nodes_judged_from
        left_out = _left_out(state, last, limits, options, now, notes)
    if left_out:
        excluded = sorted(left_out)
        if options.exclude:
            excluded.insert(0, options.exclude)
        options = options.model_copy(update={"exclude": ",".join(excluded)})
    live = [job for job in state.jobs if job.live and job.cluster == order.cluster]
    throttle = Throttle(options.array_parallelism, _live_arrays(live, options.partition or ""))
    here = not home.has_queue
    packed = pack_jobs(groups, times, options, trials_per_job=order.trials_per_job, here=here)
    hours = 0.0
    works: list[Groups] = []
    for bundle in packed:
        hours += bundle.seconds / 3600
        works.append(tuple(tuple(one.trial_id for one in members) for members in bundle.groups))
    if limits.at_once is not None:
        works = _share(works, limits.at_once - len(live))
    # The first array may start at once.
    first = throttle.first_size(limits.largest)
    chunks = cut(prefix, works[:first], first)
    chunks += cut(prefix, works[first:], limits.largest, len(chunks))
    return Decision(
        intent=Intent(
            cluster=order.cluster,
            spec_hash=spec.digest,
            options=options,
            train=spec.train,
            start_from=spec.start.run if spec.start else None,
            data_root=order.data_root,
            trials_per_job=order.trials_per_job,
            left_out=left_out,
            nodes_judged_from=judged_from,
            chunks=tuple(chunks),
        ),
        hours=hours,
        times_from=times.source,
        throttle=throttle,
        pending=pending,
        failed=len(failed & {trial.trial_id for trial in trials} - state.done.keys()),
        groups=groups,
        unfinished=unfinished,
        notes=tuple(notes),
    )


def _select(
    trials: Sequence[Trial], state: State, failed: set[str], stack: int
) -> tuple[frozenset[str], list[tuple[Trial, ...]]]:
    """Step 1: select the trials without a record, a live job or a failure, and their groups."""
    wanted = {trial.trial_id for trial in trials}
    pending = wanted - state.held.keys() - state.done.keys() - failed
    groups = []
    for members in group(trials, stack):
        ids = {one.trial_id for one in members}
        if ids & pending and not ids & state.held.keys():
            groups.append(members)
    return frozenset(pending), groups


def _at_most(
    most: int, groups: Sequence[tuple[Trial, ...]], pending: frozenset[str]
) -> list[tuple[Trial, ...]]:
    """Return the first groups, with at most this number of pending trials."""
    chosen: list[tuple[Trial, ...]] = []
    count = 0
    for members in groups:
        size = sum(one.trial_id in pending for one in members)
        if count + size > most:
            break
        chosen.append(members)
        count += size
    if groups and not chosen:
        raise InputError(
            f"--trials {most} is less than a stack of {size} trials, which is submitted as a whole:"
            f" give {size} or more"
        )
    return chosen


def _live_arrays(jobs: Iterable[Job], partition: str) -> Mapping[str, int]:
    """Return array number -> number of its jobs in the queue, for one partition."""
    counts: Counter[str] = Counter()
    for job in jobs:
        asked = job.options.partition or ""
        if job.number and asked == partition and job.state.kind != "unknown":
            counts[job.array] += 1
    return counts


def _share(jobs: Sequence[Groups], free: int) -> list[Groups]:
    """Return at most `free` jobs, which share the work of all jobs."""
    slots = range(min(free, len(jobs)))
    return [tuple(itertools.chain.from_iterable(jobs[slot::free])) for slot in slots]


def cut(prefix: str, jobs: Sequence[Groups], size: int, number: int = 0) -> list[Chunk]:
    """Return chunks of at most `size` jobs; their names are `prefix` and a number from `number`."""
    chunks: list[Chunk] = []
    for start in range(0, len(jobs), size):
        name = f"{prefix}{number + len(chunks)}"
        chunks.append(Chunk(name=name, jobs=tuple(jobs[start : start + size])))
    return chunks


def smaller(intent: Intent, number: int) -> Intent:
    """Return the intent with arrays of half the size from chunk `number` on.

    If this chunk has only one job, the remaining jobs are omitted.
    """
    chunk = intent.chunks[number]
    chunks = list(intent.chunks[:number])
    size = len(chunk.jobs) // 2
    if size:
        jobs = [job for later in intent.chunks[number:] for job in later.jobs]
        chunks += cut(chunk.name.rpartition(".")[0] + ".", jobs, size, number)
    return intent.model_copy(update={"chunks": tuple(chunks)})


class Throttle:
    """Limit on the jobs of a run that run at once, over all arrays of the run.

    SLURM limits the jobs of each array separately. So an array that would exceed the limit together
    with the live arrays waits until they have ended.
    """

    def __init__(self, at_once: int, live: Mapping[str, int]) -> None:
        """Store the limit, and the number of jobs of each live array."""
        self.at_once = at_once
        self._ahead = {array: min(jobs, at_once) for array, jobs in live.items()}

    @property
    def room(self) -> int:
        """Number of jobs that may run at the same time as the live arrays."""
        return max(0, self.at_once - sum(self._ahead.values()))

    def first_size(self, largest: int) -> int:
        """Return the size of the first array: the jobs that can start now, or else `largest`."""
        if self._ahead and self.room:
            return min(self.room, largest)
        return largest

    def before(self, jobs: int) -> tuple[str, ...]:
        """Return the arrays that must end before an array of this size begins."""
        if jobs <= self.room:
            return ()
        return tuple(self._ahead)

    def sent(self, array: str, jobs: int) -> None:
        """Record an array that was submitted, and that waits for the arrays `before` it."""
        if jobs > self.room:
            self._ahead = {}
        self._ahead[array] = min(jobs, self.at_once)


def bad_nodes(jobs: Iterable[Job], idle: Collection[str], judged_from: int = 0) -> list[str]:
    """Return the nodes on which the last three jobs failed at once, before they trained.

    If this happened on every node, and there are three or more, the nodes are not to blame. A
    worker that died after it began to train (of its memory, for example) says nothing about its
    node. So only failures of `idle` jobs count: these jobs never began to train. Submissions before
    `judged_from` are ignored.
    """
    failures: dict[str, list[bool]] = {}
    for job in sorted(jobs, key=lambda job: job.ended):
        if job.node and not job.live and job.submission.number >= judged_from:
            at_once = job.state.kind == "failed" and job.used_min < _AT_ONCE_MIN
            failures.setdefault(job.node, []).append(at_once and job.number in idle)
    bad = [node for node, last in failures.items() if last[-_IN_A_ROW:] == [True] * _IN_A_ROW]
    if len(bad) == len(failures) >= _IN_A_ROW:
        return []
    return bad


def _left_out(
    state: State,
    last: Intent,
    limits: Limits,
    options: SlurmOptions,
    now: float,
    notes: list[str],
) -> dict[str, float]:
    """Return node -> time since when it gets no job; add a note about each new node."""
    bad = dict.fromkeys(bad_nodes(state.jobs, state.idle, last.nodes_judged_from), now)
    bad |= {node: since for node, since in last.left_out.items() if since > now - _LEFT_OUT_S}
    chosen = (options.nodelist or "").split(",")
    left_out = {node: since for node, since in bad.items() if node not in chosen}
    if limits.nodes and limits.nodes <= left_out.keys():
        nodes = ", ".join(sorted(limits.nodes))
        partition = options.partition or "(the default one)"
        notes.append(
            f"jobs are sent to {nodes} although {_IN_A_ROW} in a row failed there, each within a"
            f" minute: partition {partition} has no other node for them (`rebench status` names"
            " their logs)"
        )
        for node in limits.nodes:
            del left_out[node]
    if new := sorted(left_out.keys() - last.left_out.keys()):
        notes.append(
            f"no job is sent to {', '.join(new)} for an hour: {_IN_A_ROW} jobs in a row failed"
            " there, each within a minute (`rebench status` names their logs); `rebench submit"
            " --no-preflight` sends jobs there again"
        )
    return left_out


def _note_memory(
    state: State,
    before: SlurmOptions,
    options: SlurmOptions,
    pending: frozenset[str],
    notes: list[str],
) -> None:
    """Add a note if jobs ran out of memory, and the jobs of this submission get no more."""
    last_jobs = {job.number: job for key, job in state.latest.items() if key in pending}
    short = sum(job.state.kind == "memory" for job in last_jobs.values())
    same = (before.mem_gb, before.mem_per_cpu) == (options.mem_gb, options.mem_per_cpu)
    if not (short and same):
        return
    setting = "slurm.mem_gb=GB"
    given = f"mem_gb = {options.mem_gb:g}" if options.mem_gb else "the default of the cluster"
    if options.mem_per_cpu:
        setting = "slurm.mem_per_cpu=4G"
        given = f"mem_per_cpu = {options.mem_per_cpu}"
    notes.append(
        f"{short} jobs ran out of memory, and these jobs get the same memory ({given}): cancel"
        f" them, and submit again with more (--set {setting})"
    )
