"""Estimated cost of a sweep, and division of its trials into jobs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from rebench.data import data_spec, data_specs
from rebench.errors import InputError
from rebench.runs.slurm_options import SlurmOptions
from rebench.runs.trial import Trial
from rebench.spaces import space_of

__all__ = [
    "GUESS",
    "Bundle",
    "TimeModel",
    "fit_times",
    "group",
    "group_seconds",
    "guess_cpu",
    "measured_cpu",
    "pack",
    "pack_jobs",
]


# Share of a job's time limit that stays unused, and seconds from the start of a job to its
# training.
_MARGIN: Final = 0.2
_START_S: Final = 30.0
# Measured: factor between the real times of sweeps and estimates from one step of a small network.
_WITHIN: Final = 2.0
# Shorter jobs of SLURM take more time to start than to train.
_SHORTEST_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeModel:
    """Model of the seconds of a trial: a cost per GFLOP, and a cost per layer and step."""

    per_gflop_s: float
    per_layer_s: float
    source: str
    within: float = 1.0
    """The real times are expected between the estimate divided by this and times this."""

    def seconds(self, trial: Trial) -> float:
        """Return the estimated seconds of one trial."""
        gflops, layers = _work(trial)
        return self.per_gflop_s * gflops + self.per_layer_s * layers

    def faster(self, times: float) -> TimeModel:
        """Return the model of a device that is `times` times as fast."""
        return replace(
            self, per_gflop_s=self.per_gflop_s / times, per_layer_s=self.per_layer_s / times
        )


GUESS: Final = TimeModel(
    per_gflop_s=1e-4,
    per_layer_s=5e-5,
    source="a guess for a GPU like an H100; older ones can take ten times as long; after some "
    "trials, --from RUN gives measured times",
)
"""Times of trials on an unknown GPU."""


class Bundle(NamedTuple):
    """Groups of trials of one job, in order, and their estimated seconds."""

    groups: tuple[tuple[Trial, ...], ...]
    seconds: float


def guess_cpu(gmacs_per_s: float = 30.0, source: str = "a guess for a CPU") -> TimeModel:
    """Return the times of a CPU with this speed of dense matrix multiplication.

    Measured on two machines: convolutions have a third of this speed. A layer of a small network
    takes a millisecond per step on a CPU of 70 G multiply-adds per second.
    """
    return TimeModel(per_gflop_s=3 / gmacs_per_s, per_layer_s=0.07 / gmacs_per_s, source=source)


def measured_cpu(trial: Trial, step_s: float, source: str) -> TimeModel:
    """Return the times of a CPU on which a training step of this trial takes `step_s` seconds."""
    parts = data_spec(trial.dataset).part_sizes(trial.split)
    train = parts["train"]
    # The evaluation of an image takes a third of the time of its training.
    images = train + (sum(parts.values()) - train) / 3
    steps = (trial.epochs - trial.first_epoch) * images / min(train, trial.protocol.batch_size)
    guess = guess_cpu(source=source)
    return replace(guess.faster(guess.seconds(trial) / (steps * step_s)), within=_WITHIN)


def fit_times(measured: Iterable[tuple[Trial, float]], source: str) -> TimeModel:
    """Fit a model to trials and their seconds: non-negative least squares of relative errors."""
    from scipy.optimize import nnls  # slow to import, and rarely needed

    known = data_specs()
    rows = [
        [work / seconds for work in _work(trial)]
        for trial, seconds in measured
        if trial.dataset in known and seconds > 0
    ]
    if not rows:
        raise InputError(
            f"{source} contains no finished trial to estimate times from; name another run with"
            " --from, or leave it out"
        )
    (per_gflop, per_layer), _ = nnls(np.array(rows), np.ones(len(rows)))
    return TimeModel(
        per_gflop_s=float(per_gflop),
        per_layer_s=float(per_layer),
        source=f"{len(rows)} records of {source}",
    )


def group(trials: Sequence[Trial], stack: int) -> list[tuple[Trial, ...]]:
    """Return the trials in groups of up to `stack`, each for one stacked network.

    The groups depend only on the sweep, not on finished trials. Interruptions therefore do not
    change the result of a trial.
    """
    if stack == 1:
        return [(trial,) for trial in trials]
    groups: list[tuple[Trial, ...]] = []
    for _, alike in itertools.groupby(trials, key=lambda trial: trial.stack_key):
        members = list(alike)
        groups += [tuple(members[at : at + stack]) for at in range(0, len(members), stack)]
    return groups


def pack(
    groups: Sequence[tuple[Trial, ...]],
    model: TimeModel,
    *,
    limit_s: float,
    parallelism: int,
    shortest_s: float = 0.0,
    trials_per_job: int | None = None,
) -> list[Bundle]:
    """Divide groups into jobs in order: at least `parallelism` jobs, each within the time limit.

    There are fewer jobs if they would take less than `shortest_s` seconds on average.
    A group that is longer than the limit gets a separate job, which is requeued and resumed.
    """
    times = list(group_seconds(groups, model))
    usable = max(limit_s * (1 - _MARGIN) - _START_S, 0.0)
    if shortest_s:
        parallelism = min(parallelism, max(1, int(sum(times) / shortest_s)))
    share = sum(times) / parallelism
    least = min(parallelism, len(groups))
    jobs: list[Bundle] = []
    current: list[tuple[Trial, ...]] = []
    seconds, packed, count = 0.0, 0.0, 0
    for at, (members, time) in enumerate(zip(groups, times, strict=True)):
        full = count >= (trials_per_job or math.inf)
        if trials_per_job is None:
            full = seconds + time > usable or packed + time / 2 > (len(jobs) + 1) * share
            # Close the job if `least` jobs could not be reached otherwise, with one group each.
            full |= len(groups) - at < least - len(jobs)
        if current and full:
            jobs.append(Bundle(tuple(current), seconds))
            current, seconds, count = [], 0.0, 0
        current.append(members)
        seconds += time
        packed += time
        count += len(members)
    if current:
        jobs.append(Bundle(tuple(current), seconds))
    return jobs


def pack_jobs(
    groups: Sequence[tuple[Trial, ...]],
    model: TimeModel,
    options: SlurmOptions,
    *,
    trials_per_job: int | None = None,
    here: bool = False,
) -> list[Bundle]:
    """Return the jobs of a sweep with these options.

    Jobs `here`, on this machine, have no time limit and may be short.
    """
    limit_s, shortest_s = options.time_min * 60.0, _SHORTEST_S
    if here:
        limit_s, shortest_s = math.inf, 0.0
    return pack(
        groups,
        model,
        limit_s=limit_s,
        parallelism=options.array_parallelism,
        shortest_s=shortest_s,
        trials_per_job=trials_per_job,
    )


def group_seconds(groups: Iterable[tuple[Trial, ...]], model: TimeModel) -> Iterator[float]:
    """Yield the estimated seconds of each group; neighbours of equal cost are estimated once."""
    last, seconds = None, 0.0
    for members in groups:
        first = members[0]
        # Trials of a sweep share objects, so identity is a fast test of equality. One estimate per
        # group makes `sweep plan` a third slower (scripts/bench/plan.py).
        if (
            last is None
            or first.cell is not last.cell
            or first.dataset is not last.dataset
            or first.epochs != last.epochs
            or first.skeleton is not last.skeleton
            or first.protocol is not last.protocol
        ):
            last, seconds = first, model.seconds(first)
        yield seconds * len(members)


def _work(trial: Trial) -> tuple[float, float]:
    """Return the arithmetic of a trial in GFLOP (multiply-adds), and its layers times steps."""
    spec = data_spec(trial.dataset)
    skeleton, parts = trial.skeleton, spec.part_sizes(trial.split)
    images = sum(parts.values())
    # A backward pass costs as much as two forward passes, an evaluation as one forward pass.
    epochs = trial.epochs - trial.first_epoch
    passes = epochs * (2 * parts["train"] + images)
    steps = epochs * math.ceil(images / trial.protocol.batch_size)
    size = (skeleton.channels, skeleton.cells_per_stage)
    mflops, layers = _network_work(trial.space, trial.index, trial.dataset, size)
    return passes * mflops / 1e3, layers * steps


@functools.lru_cache(maxsize=2**16)
def _network_work(
    space: str, index: int, dataset: str, skeleton: tuple[int, int]
) -> tuple[float, int]:
    return space_of(space).work(index, data_spec(dataset), skeleton)
