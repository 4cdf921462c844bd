"""The cost of a sweep: jobs, device hours and days.

The times of its trials are estimated from records, or guessed.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.launch.decide import Throttle
from rebench.launch.devices import visible_gpus
from rebench.machine import cores, garbage_search_paused
from rebench.runs import (
    GUESS,
    Bundle,
    FinishedTrials,
    SweepSpec,
    TimeModel,
    Trial,
    fit_times,
    group,
    group_seconds,
    guess_cpu,
    measured_cpu,
    pack_jobs,
)

__all__ = ["Forecast", "forecast", "times_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The cost of the trials without a record."""

    trials: int
    done: int
    jobs: int
    trials_per_job: float
    longest_job_s: float
    device_s: float
    wall_s: float
    """Time until the last job ends, with `array_parallelism` jobs at once."""
    wall_s_on: Mapping[int, float]
    """Number of devices -> time until the last job ends, if none is ever idle."""
    too_long: int
    """Number of jobs of SLURM whose estimated time is longer than the time limit."""


@garbage_search_paused()
def forecast(
    spec: SweepSpec,
    trials: Sequence[Trial],
    times: TimeModel,
    done: Collection[str],
    *,
    trials_per_job: int | None = None,
    devices: Sequence[int] = (),
    here: bool = False,
) -> Forecast:
    """Return the cost of a sweep, with jobs of SLURM or `here`, on this machine."""
    from rebench.launch.clusters.commands import largest_array

    options = spec.slurm
    groups = [
        one for one in group(trials, spec.stack) if any(trial.trial_id not in done for trial in one)
    ]
    jobs = pack_jobs(groups, times, options, trials_per_job=trials_per_job, here=here)
    too_long = 0
    if not here:
        too_long = sum(job.seconds > options.time_min * 60 for job in jobs)
    device_s = sum(job.seconds for job in jobs)
    longest_s = max(group_seconds(groups, times), default=0.0)
    return Forecast(
        trials=len(trials),
        done=sum(trial.trial_id in done for trial in trials),
        jobs=len(jobs),
        trials_per_job=sum(map(len, groups)) / max(len(jobs), 1),
        longest_job_s=max((job.seconds for job in jobs), default=0.0),
        device_s=device_s,
        wall_s=_wall_s(jobs, options.array_parallelism, largest_array()),
        wall_s_on={count: max(device_s / count, longest_s) for count in devices},
        too_long=too_long,
    )


def _wall_s(jobs: Sequence[Bundle], at_once: int, largest: int) -> float:
    """Return when the last job ends. Arrays wait for each other; jobs in one start in order."""
    throttle, ends = Throttle(at_once, {}), {"": 0.0}
    for start in range(0, len(jobs), largest):
        own = jobs[start : start + largest]
        begin = max((ends[array] for array in throttle.before(len(own))), default=0.0)
        slots = [begin] * min(at_once, len(own))
        for job in own:
            heapq.heapreplace(slots, slots[0] + job.seconds)
        throttle.sent(str(start), len(own))
        ends[str(start)] = max(slots)
    return max(ends.values())


# Number of records that suffice for an estimate of times.
_ENOUGH: Final = 1000


def times_for(
    spec: SweepSpec,
    trials: Sequence[Trial] = (),
    *,
    run: Path,
    past: Path | None = None,
    here: bool = False,
) -> TimeModel:
    """Return the times of the trials of a sweep: from records of its run or of `past`, or guessed.

    If the trials will be trained `here`, on a CPU, a step of the smallest of `trials` is timed.
    """
    finished = FinishedTrials(past or run).refresh()
    done = [key for key, one in finished.trials.items() if one.status == "done"]
    measured = [
        (Trial.model_validate(record["trial"]), record["cost"]["seconds"])
        for piece in finished.read(done[:: max(1, len(done) // _ENOUGH)])
        for record in piece
    ]
    if past is not None or measured:
        return fit_times(measured, "this run" if past is None else str(past))
    return _guess(spec, trials, here=here)


def _guess(spec: SweepSpec, trials: Sequence[Trial], *, here: bool) -> TimeModel:
    """Return a guess for an unknown GPU or CPU, or from a measurement of this machine."""
    count = spec.slurm.cpus_per_task or 1
    told = "one core" if count == 1 else f"{count} cores"
    if spec.slurm.device != "cpu" and not (here and not visible_gpus()):
        return GUESS
    if not (here and trials):
        return guess_cpu(30.0 * count, f"a guess for a CPU with {told}")
    groups = group(trials, spec.stack)
    each = list(group_seconds([members[:1] for members in groups], GUESS))
    smallest = groups[each.index(min(each))]
    import torch  # slow to import, and rarely needed

    from rebench.train import step_seconds

    before = torch.get_num_threads()
    torch.set_num_threads(min(count, cores()))
    try:
        seconds = step_seconds(smallest[0], len(smallest)) / len(smallest)
    finally:
        torch.set_num_threads(before)
    return measured_cpu(
        smallest[0],
        seconds,
        f"a training step of the smallest trial on this machine, with {told}:"
        f" {1000 * seconds:.3g} ms of processor time",
    )
