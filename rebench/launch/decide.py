"""Selection of the trials to submit: a pure function that reads no file and calls no cluster.

`decide` has four steps: select the trials, check the types of device, adapt the options of the
jobs to earlier failures, and pack the trials into arrays of jobs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.errors import InputError
from rebench.launch.clusters import JobView, Limits, cluster
from rebench.launch.journal import Chunk, Intent, JobSpec
from rebench.launch.state import State
from rebench.runs import (
    GUESS,
    Job,
    SlurmOptions,
    SweepSpec,
    TimeModel,
    Trial,
    group,
    pack_types,
)
from rebench.runs.slurm_options import slurm_minutes

__all__ = ["Decision", "Order", "Throttle", "bad_nodes", "cut", "decide", "named", "smaller"]

# A node that fails this many jobs in a row, each within this time, is left out for this long.
_IN_A_ROW: Final = 3
_AT_ONCE_MIN: Final = 1.0
_LEFT_OUT_S: Final = 3600.0
_FAILED: Final = frozenset({"FAILED", "BOOT_FAIL", "LAUNCH_FAILED"})
_ENDED: Final = _FAILED | {"COMPLETED", "CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY"}
_MORE_MEMORY: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Options of the user for a submission; `rebench.submit` explains each option."""

    cluster: str
    past: Path | None = None
    data_root: str | None = None
    trials_per_job: int | None = None
    retry_failed: bool = False
    accept_change: bool = False
    preflight: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The submission to make: its plan, its device hours and notes for the user."""

    intent: Intent
    hours: Mapping[str, float]
    """Device hours of the submitted trials, by type of device."""
    times_from: str
    """The source of the times from which the hours were estimated."""
    throttles: Mapping[str, Throttle]
    """Type of device -> the limit of jobs that run at once."""
    pending: frozenset[str]
    """Ids of the trials to submit; some may have to wait for a later submission."""
    failed: int
    groups: Sequence[tuple[Trial, ...]]
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

    The names of the jobs begin with `prefix`. Changed types of device raise InputError.
    """
    home = cluster(order.cluster)
    options, notes = home.options(spec.slurm), list[str]()
    last = state.last or Intent(cluster=order.cluster, spec_hash="", options=options, chunks=())
    failed = set() if order.retry_failed else state.failed
    pending, groups = _select(trials, state, failed, spec.stack)
    if pending and not order.accept_change:
        _check_types(last, options, state)
    left_out = _left_out(state, last, limits, options, now, notes) if order.preflight else {}
    factor = _memory_factor(state, last.memory_factor, options, pending, notes)
    options = _adapt(options, left_out, factor)
    live = [job for job in state.jobs if job.live and job.cluster == order.cluster]
    throttles = {
        name: Throttle(one.array_parallelism, _live_arrays(live, name))
        for name, one in options.by_type.items()
    }
    packed = pack_types(
        groups,
        times,
        options,
        trials_per_job=order.trials_per_job,
        here=not home.has_queue,
    )
    packed = {name: _fit(jobs, limits.at_once, len(live)) for name, jobs in packed.items()}
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
            nodes_judged_from=last.nodes_judged_from if order.preflight else number,
            memory_factor=factor,
            chunks=named(prefix, _arrays(packed, throttles, limits.largest)),
        ),
        hours={name: sum(job.seconds for job in jobs) / 3600 for name, jobs in packed.items()},
        times_from=times.source,
        throttles=throttles,
        pending=pending,
        failed=len(failed & {trial.trial_id for trial in trials} - state.done.keys()),
        groups=groups,
        notes=tuple(notes),
    )


def _select(
    trials: Sequence[Trial], state: State, failed: set[str], stack: int
) -> tuple[frozenset[str], list[tuple[Trial, ...]]]:
    """Step 1: select the trials without a record, a live job or a failure, and their groups."""
    wanted = {trial.trial_id for trial in trials}
    pending = wanted - state.held.keys() - state.done.keys() - failed
    groups = [
        one
        for one in group(trials, stack)
        if any(trial.trial_id in pending for trial in one)
        and not any(trial.trial_id in state.held for trial in one)
    ]
    return frozenset(pending), groups


def _check_types(last: Intent, options: SlurmOptions, state: State) -> None:
    """Step 2: raise if a cell could have runs from two types of device."""
    if (state.done or state.held) and last.options.shares != options.shares:
        raise InputError(
            "[slurm.types] has changed: a cell on a data set could have runs from two types of"
            " device. Restore [slurm.types], or continue with `rebench submit --accept-change`"
        )


def _adapt(options: SlurmOptions, bad: Iterable[str], factor: float) -> SlurmOptions:
    """Step 3: exclude `bad` nodes, and multiply the memory of a job by `factor`."""
    content = options.model_dump()
    shared = options.exclude
    for table in (content, *content["types"].values()):
        if bad:
            nodes = [table.get("exclude") or shared, *sorted(bad)]
            table["exclude"] = ",".join(filter(None, nodes))
        if table.get("mem_gb"):
            table["mem_gb"] *= factor
        if table.get("mem_per_cpu"):
            table["mem_per_cpu"] = _times(table["mem_per_cpu"], factor)
    return SlurmOptions.model_validate(content)


def _arrays(
    packed: Mapping[str, Sequence[Job]], throttles: Mapping[str, Throttle], largest: int
) -> list[Chunk]:
    """Step 4: put the jobs into arrays; of each device type, the first array may start at once."""
    chunks = []
    for name, throttle in throttles.items():
        specs = [
            JobSpec(tuple(tuple(one.trial_id for one in group) for group in job.groups))
            for job in packed[name]
        ]
        first = throttle.first_size(largest)
        chunks += cut(name, specs[:first], first) + cut(name, specs[first:], largest)
    return chunks


def cut(type_name: str, jobs: Sequence[JobSpec], size: int) -> list[Chunk]:
    """Return chunks of at most `size` jobs; `named` gives them their names."""
    return [
        Chunk(name="", type_name=type_name, jobs=tuple(jobs[start : start + size]))
        for start in range(0, len(jobs), size)
    ]


def named(prefix: str, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks with names: `prefix` and the position of the chunk."""
    return tuple(
        chunk.model_copy(update={"name": f"{prefix}{number}"})
        for number, chunk in enumerate(chunks)
    )


def smaller(intent: Intent, number: int) -> Intent:
    """Return the intent with arrays of half the size from chunk `number` on.

    If this chunk has only one job, the remaining jobs of its device type are omitted. Jobs of other
    types stay.
    """
    before, chunk, later = intent.chunks[:number], intent.chunks[number], intent.chunks[number:]
    jobs = [job for one in later if one.type_name == chunk.type_name for job in one.jobs]
    others = [one for one in later if one.type_name != chunk.type_name]
    size = len(chunk.jobs) // 2
    halved = cut(chunk.type_name, jobs, size) if size else []
    chunks = named(f"{chunk.name.rpartition('.')[0]}.", [*before, *halved, *others])
    return intent.model_copy(update={"chunks": chunks})


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
        return min(self.room, largest) if self._ahead and self.room else largest

    def before(self, jobs: int) -> tuple[str, ...]:
        """Return the arrays that must end before an array of this size begins."""
        return () if jobs <= self.room else tuple(self._ahead)

    def sent(self, array: str, jobs: int) -> None:
        """Record an array that was submitted, and that waits for the arrays `before` it."""
        if jobs > self.room:
            self._ahead = {}
        self._ahead[array] = min(jobs, self.at_once)


def bad_nodes(jobs: Iterable[JobView], idle: Iterable[str], judged_from: int = 0) -> list[str]:
    """Return the nodes on which the last three jobs failed at once, before they trained.

    If this happened on every node, and there are three or more, the nodes are not to blame. A
    worker that died after it began to train (of its memory, for example) says nothing about its
    node. So only failures of `idle` jobs count: these jobs never began to train. Submissions before
    `judged_from` are ignored.
    """
    falls: dict[str, list[bool]] = {}
    unused = set(idle)
    ended = [
        (job.line, job.job in unused and job.state.name in _FAILED)
        for job in jobs
        if job.submission >= judged_from and job.line and job.line.node and job.state.name in _ENDED
    ]
    for line, in_vain in sorted(ended, key=lambda pair: pair[0].ended):
        at_once = in_vain and slurm_minutes(line.used) < _AT_ONCE_MIN
        falls.setdefault(line.node, []).append(at_once)
    bad = [node for node, last in falls.items() if last[-_IN_A_ROW:] == [True] * _IN_A_ROW]
    return [] if len(bad) == len(falls) >= _IN_A_ROW else bad


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
    by_type = options.by_type
    chosen = {node for one in by_type.values() for node in (one.nodelist or "").split(",")}
    left_out = {node: since for node, since in bad.items() if node not in chosen}
    for name, one in by_type.items():
        there = limits.nodes.get(name, frozenset())
        if there and there <= left_out.keys():
            left_out = {node: since for node, since in left_out.items() if node not in there}
            notes.append(
                f"jobs are sent to {', '.join(sorted(there))} although {_IN_A_ROW} in a row failed"
                " there, each within a minute: partition"
                f" {one.partition or '(the default one)'} has no other node for them"
                " (`rebench status` names their logs)"
            )
    if new := sorted(left_out.keys() - last.left_out.keys()):
        notes.append(
            f"no job is sent to {', '.join(new)} for an hour: {_IN_A_ROW} jobs in a row failed"
            " there, each within a minute (`rebench status` names their logs); `rebench submit"
            " --no-preflight` sends jobs there again"
        )
    return left_out


def _memory_factor(
    state: State, before: float, options: SlurmOptions, pending: frozenset[str], notes: list[str]
) -> float:
    """Return the factor on the memory of jobs: 1.5 after the first failure for lack of memory."""
    last_jobs = {job.job: job for key, job in state.latest.items() if key in pending}
    short = sum(job.state.name == "OUT_OF_MEMORY" for job in last_jobs.values())
    asked = any(one.mem_gb or one.mem_per_cpu for one in options.by_type.values())
    if short and asked and before == 1.0:
        notes.append(f"{short} jobs ran out of memory: from now on, jobs get 1.5 times the memory")
        return _MORE_MEMORY
    if short:
        again = " again" if asked else ""
        per_cpu = any(one.mem_per_cpu for one in options.by_type.values())
        key = "mem_per_cpu" if per_cpu else "mem_gb"  # a sweep has one of both
        notes.append(f"{short} jobs ran out of memory{again}: raise slurm.{key}")
    return before


def _times(memory: str, factor: float) -> str:
    number, unit = re.fullmatch(r"(\d+)(\D?)", memory).groups()  # type: ignore[union-attr]  # validated
    return f"{math.ceil(int(number) * factor)}{unit}"


def _live_arrays(jobs: Iterable[JobView], type_name: str) -> Mapping[str, int]:
    """Return array number -> number of its jobs in the queue, for one device type."""
    shown = (job for job in jobs if job.type_name == type_name and job.job)
    return Counter(job.job.partition("_")[0] for job in shown if job.state.name != "UNKNOWN")


def _fit(packed: list[Job], at_once: int | None, live: int) -> list[Job]:
    """Return the jobs that may start now; the work of the other jobs is divided among them."""
    if at_once is None:
        return packed
    queues = [packed[slot :: max(at_once - live, 0)] for slot in range(at_once - live)]
    return [
        Job(tuple(one for job in queue for one in job.groups), sum(job.seconds for job in queue))
        for queue in queues
        if queue
    ]
