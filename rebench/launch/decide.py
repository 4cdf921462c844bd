"""What is to be sent, decided from what is known alone: nothing here reads a file or asks SLURM."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rebench.errors import InputError
from rebench.launch.journal import Chunk, Intent
from rebench.launch.state import JobView, State
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
from rebench.runs.options import slurm_minutes

__all__ = ["Decision", "Order", "Place", "Turns", "bad_nodes", "cut", "decide", "named"]

# A node on which so many jobs in a row failed within this time takes jobs and does no work.
_IN_A_ROW: Final = 3
_AT_ONCE_MIN: Final = 1.0
_LEFT_OUT_S: Final = 3600.0
_FAILED: Final = frozenset({"FAILED", "BOOT_FAIL", "LAUNCH_FAILED"})
_ENDED: Final = _FAILED | {"COMPLETED", "CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY"}
_MORE_MEMORY: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a sweep is to be sent."""

    cluster: str | None = None
    """None: as last time, or else SLURM."""
    past: Path | None = None
    """A run whose records tell how long trials take; by default the run's own."""
    data_root: str | None = None
    trials_per_job: int | None = None
    retry_failed: bool = False
    trust_folder: bool = False
    accept_change: bool = False
    preflight: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known of where jobs would run."""

    cluster: str
    at_once: int | None = None
    """How many jobs there is room for; None where a scheduler lets the others wait."""
    largest: int = 1
    """How many tasks one submission to the scheduler may have."""
    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The nodes that take the jobs of each type of device, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be sent, and why not the rest."""

    intent: Intent
    hours: Mapping[str, float]
    """Device hours of what is sent to each type."""
    times_from: str
    """What they were estimated from."""
    turns: Mapping[str, Turns]
    """Of each type, how many of its jobs may run at once beside those that live."""
    pending: frozenset[str]
    """Trials that should be sent; there may be no room for some."""
    failed: int
    groups: Sequence[tuple[Trial, ...]]
    notes: tuple[str, ...]
    """What the user should know, one line each."""


def decide(
    spec: SweepSpec,
    trials: Sequence[Trial],
    order: Order,
    state: State,
    place: Place,
    *,
    times: TimeModel = GUESS,
    prefix: str = "rebench-0.",
    number: int = 1,
    now: float = 0.0,
) -> Decision:
    """Decide what submission `number` sends: the trials without record, live job or failure.

    Raises:
        InputError: the types of device have changed.
    """
    # Types of device are SLURM's; elsewhere what they share is asked for.
    options = spec.slurm if place.cluster == "slurm" else spec.slurm.of("")
    if place.cluster == "debug":
        options = options.model_copy(update={"array_parallelism": 1})
    failed = set() if order.retry_failed else state.failed
    wanted = {trial.trial_id for trial in trials}
    pending = wanted - state.held.keys() - state.done.keys() - failed
    groups = [
        one
        for one in group(trials, spec.stack)
        if any(trial.trial_id in pending for trial in one)
        and not any(trial.trial_id in state.held for trial in one)
    ]
    last = state.last or Intent(cluster=place.cluster, spec_hash="", chunks=())
    # What was accepted once is not asked about again.
    changed = state.last is not None and last.options.shares != options.shares
    if changed and pending and (state.done or state.held) and not order.accept_change:
        raise InputError(
            "[slurm.types] has changed: a cell on a data set could have runs from two types of"
            " device. Put it back, or go on with `rebench submit --accept-change`"
        )
    notes: list[str] = []
    forgiven = last.forgiven if order.preflight else number
    left_out = _left_out(state, last, place, options, now, notes) if order.preflight else {}
    factor = _memory_factor(state, last.memory_factor, options, pending, notes)
    options = _changed(options, left_out, factor)
    limited = place.cluster == "slurm"
    packed = pack_types(
        groups, times, options, trials_per_job=order.trials_per_job, limited=limited
    )
    live = [job for job in state.jobs if job.live and job.cluster == place.cluster]
    turns, chunks = {}, []
    for name, asked in options.by_type.items():
        own = packed[name] = _fit(packed[name], place.at_once, len(live))
        turns[name] = Turns(asked.array_parallelism, _live_arrays(live, name))
        ids = [tuple(tuple(one.trial_id for one in group) for group in job.groups) for job in own]
        first = turns[name].first_size(place.largest)
        chunks += cut(name, ids[:first], first) + cut(name, ids[first:], place.largest)
    return Decision(
        intent=Intent(
            cluster=place.cluster,
            spec_hash=spec.digest,
            options=options,
            train=spec.train,
            start_from=spec.start.run if spec.start else None,
            data_root=order.data_root,
            trials_per_job=order.trials_per_job,
            left_out=left_out,
            forgiven=forgiven,
            memory_factor=factor,
            chunks=named(prefix, chunks),
        ),
        hours={name: sum(job.seconds for job in jobs) / 3600 for name, jobs in packed.items()},
        times_from=times.source,
        turns=turns,
        pending=frozenset(pending),
        failed=len(failed & wanted - state.done.keys()),
        groups=groups,
        notes=tuple(notes),
    )


def cut(type_name: str, jobs: Sequence[tuple[tuple[str, ...], ...]], size: int) -> list[Chunk]:
    """Chunks of at most so many jobs, without names yet."""
    return [
        Chunk(name="", type_name=type_name, jobs=tuple(jobs[start : start + size]))
        for start in range(0, len(jobs), size)
    ]


def named(prefix: str, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """The chunks named by their places."""
    return tuple(
        chunk.model_copy(update={"name": f"{prefix}{number}"})
        for number, chunk in enumerate(chunks)
    )


class Turns:
    """How many jobs of a run may run at once, over all its arrays: the others wait behind them.

    SLURM throttles every array by itself, so an array that does not fit beside those that are live
    waits until they have ended.
    """

    def __init__(self, at_once: int, ahead: Mapping[str, int]) -> None:
        """Take how many jobs may run at once, and of each live array how many jobs it has."""
        self.at_once = at_once
        self._ahead = {array: min(jobs, at_once) for array, jobs in ahead.items()}

    @property
    def room(self) -> int:
        """How many jobs more may run at once with what is ahead."""
        return max(0, self.at_once - sum(self._ahead.values()))

    def first_size(self, largest: int) -> int:
        """How many jobs the first array should have: what need not wait, if anything."""
        return min(self.room, largest) if self._ahead and self.room else largest

    def before(self, jobs: int) -> tuple[str, ...]:
        """The arrays that have to end before one of so many jobs may begin."""
        return () if jobs <= self.room else tuple(self._ahead)

    def sent(self, array: str, jobs: int) -> None:
        """Take in that an array of so many jobs was sent, after what is `before` it."""
        if jobs > self.room:
            self._ahead = {}
        self._ahead[array] = min(jobs, self.at_once)


def bad_nodes(jobs: Iterable[JobView], idle: Iterable[str], forgiven: int = 0) -> list[str]:
    """The nodes on which the last three jobs failed at once, before their workers trained.

    If jobs fail so on every node, and there are three or more of them, it is not the nodes; and a
    worker that came to train and died (of its memory, say) tells nothing of its node.
    """
    falls: dict[str, list[bool]] = {}
    unused = set(idle)
    ended = [
        (job.line, job.job in unused and job.state.name in _FAILED)
        for job in jobs
        if job.submission >= forgiven and job.line and job.line.node and job.state.name in _ENDED
    ]
    for line, in_vain in sorted(ended, key=lambda pair: pair[0].ended):
        at_once = in_vain and slurm_minutes(line.used) < _AT_ONCE_MIN
        falls.setdefault(line.node, []).append(at_once)
    bad = sorted(node for node, last in falls.items() if last[-_IN_A_ROW:] == [True] * _IN_A_ROW)
    return [] if len(bad) == len(falls) >= _IN_A_ROW else bad


def _left_out(
    state: State, last: Intent, place: Place, options: SlurmOptions, now: float, notes: list[str]
) -> dict[str, float]:
    """The nodes that no job is to be sent to, and since when; each is told of once."""
    bad = dict.fromkeys(bad_nodes(state.jobs, state.idle, last.forgiven), now)
    bad |= {node: since for node, since in last.left_out.items() if since > now - _LEFT_OUT_S}
    by_type = options.by_type
    chosen = {node for one in by_type.values() for node in (one.nodelist or "").split(",")}
    left_out = {node: since for node, since in bad.items() if node not in chosen}
    for name, one in by_type.items():
        there = place.nodes.get(name, frozenset())
        if there and there <= left_out.keys():
            left_out = {node: since for node, since in left_out.items() if node not in there}
            notes.append(
                f"jobs are sent to {', '.join(sorted(there))} although {_IN_A_ROW} in a row failed"
                f" there at once: partition {one.partition or '(the default one)'} has no other"
                " node for them (`rebench status` names their logs)"
            )
    if new := sorted(left_out.keys() - last.left_out.keys()):
        notes.append(
            f"no job is sent to {', '.join(new)} for an hour: {_IN_A_ROW} jobs in a row failed"
            " there at once (`rebench status` names their logs); `rebench submit --no-preflight`"
            " forgives that"
        )
    return left_out


def _memory_factor(
    state: State, before: float, options: SlurmOptions, pending: set[str], notes: list[str]
) -> float:
    """How many times the memory that the sweep names is asked for: half more, once."""
    last_jobs = {job.job: job for key, job in state.latest.items() if key in pending}
    short = sum(job.state.name == "OUT_OF_MEMORY" for job in last_jobs.values())
    asked = any(one.mem_gb or one.mem_per_cpu for one in options.by_type.values())
    if short and asked and before == 1.0:
        notes.append(f"{short} jobs ran out of memory: half more is asked for from now on")
        return _MORE_MEMORY
    if short:
        again = " again" if asked else ""
        notes.append(f"{short} jobs ran out of memory{again}: raise slurm.mem_gb")
    return before


def _changed(options: SlurmOptions, bad: Iterable[str], factor: float) -> SlurmOptions:
    """The options with some nodes left out, and with so many times the memory."""
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


def _times(memory: str, factor: float) -> str:
    number, unit = re.fullmatch(r"(\d+)(\D?)", memory).groups()  # type: ignore[union-attr]  # validated
    return f"{math.ceil(int(number) * factor)}{unit}"


def _live_arrays(jobs: Iterable[JobView], type_name: str) -> Mapping[str, int]:
    """SLURM's number of every array that the queue shows, and how many of its jobs live."""
    shown = (job for job in jobs if job.type_name == type_name and job.job)
    return Counter(job.job.partition("_")[0] for job in shown if job.state.name != "UNKNOWN")


def _fit(packed: list[Job], at_once: int | None, live: int) -> list[Job]:
    """The jobs that may start now, each with what would else wait for it to end."""
    if at_once is None:
        return packed
    queues = [packed[slot :: max(at_once - live, 0)] for slot in range(at_once - live)]
    return [
        Job(tuple(one for job in queue for one in job.groups), sum(job.seconds for job in queue))
        for queue in queues
        if queue
    ]
