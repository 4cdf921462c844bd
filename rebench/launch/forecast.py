"""What a sweep will take: jobs, hours of devices, hours on the clock; by type of device."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rebench.store.results import garbage_kept
from rebench.sweep import Expansion, Job, SweepSpec, TimeModel, group, pack_types

__all__ = ["Forecast", "forecast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the trials without a record will take, on all devices or on those of one type."""

    type_name: str
    """Empty for the whole sweep."""
    trials: int
    done: int
    jobs: int
    trials_per_job: float
    longest_job_s: float
    device_s: float
    wall_s: float
    """If as many jobs run at once as there may."""
    too_long: int
    """Jobs that hold one trial which is longer than their time limit."""


def forecast(
    spec: SweepSpec,
    expansion: Expansion,
    times: TimeModel,
    done: Collection[str],
    *,
    trials_per_job: int | None = None,
) -> list[Forecast]:
    """Return what a sweep takes, and then, if it has types of device, what it takes on each."""
    with garbage_kept():
        groups = [
            one
            for one in group(expansion.trials, spec.stack)
            if any(trial.trial_id not in done for trial in one)
        ]
        packed = pack_types(groups, times, spec.slurm, trials_per_job=trials_per_job)
    options = spec.slurm.by_type
    wall_s = {name: _wall_s(jobs, options[name].array_parallelism) for name, jobs in packed.items()}
    limits_s = {name: one.time_min * 60 for name, one in options.items()}
    trials = expansion.trials
    asked = Counter(map(spec.slurm.type_of, trials))
    recorded = Counter(spec.slurm.type_of(one) for one in trials if one.trial_id in done)

    def summed(type_name: str, names: Sequence[str]) -> Forecast:
        seconds = [job.seconds for name in names for job in packed[name]]
        held = sum(len(one) for name in names for job in packed[name] for one in job.groups)
        return Forecast(
            type_name=type_name,
            trials=sum(asked[name] for name in names),
            done=sum(recorded[name] for name in names),
            jobs=len(seconds),
            trials_per_job=held / max(len(seconds), 1),
            longest_job_s=max(seconds, default=0.0),
            device_s=sum(seconds),
            wall_s=max(wall_s[name] for name in names),
            too_long=sum(job.seconds > limits_s[name] for name in names for job in packed[name]),
        )

    each = [summed(name, [name]) for name in packed if name]
    return [summed("", list(packed)), *each]


def _wall_s(jobs: Sequence[Job], slots: int) -> float:
    """Return when the last job ends, if they start in order on whichever slot is free first."""
    ends = [0.0] * min(slots, max(len(jobs), 1))
    for job in jobs:
        heapq.heapreplace(ends, ends[0] + job.seconds)
    return max(ends)
