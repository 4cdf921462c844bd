"""What a sweep will cost, and how its trials pack into jobs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from cells import Cell, CostModel
from cells.ops import AVG_POOL, CONV_1X1, CONV_3X3
from rebench.datasets import data_spec, data_specs
from rebench.errors import InputError
from rebench.sweep.options import SlurmOptions
from rebench.sweep.trial import Trial

__all__ = ["GUESS", "Job", "TimeModel", "fit_times", "group", "group_seconds", "pack", "pack_types"]


# Share of a job's time limit that the estimate leaves free, and what a job takes before it trains.
_MARGIN: Final = 0.2
_START_S: Final = 30.0
# Shorter jobs than this only cost the scheduler.
_SHORTEST_JOB_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeModel:
    """Seconds of a trial: so many a GFLOP of arithmetic, so many a layer in every step."""

    per_gflop_s: float
    per_layer_s: float
    source: str

    def seconds(self, trial: Trial) -> float:
        """Return the estimate for one trial on its own."""
        gflops, layers = _work(trial)
        return self.per_gflop_s * gflops + self.per_layer_s * layers

    def faster(self, times: float) -> TimeModel:
        """Return the model of a device that is so many times as fast."""
        return replace(
            self, per_gflop_s=self.per_gflop_s / times, per_layer_s=self.per_layer_s / times
        )


GUESS: Final = TimeModel(
    per_gflop_s=1e-4,
    per_layer_s=5e-5,
    source="a guess (10 TFLOP/s, 50 us a layer); give past records with --from RUN",
)
"""How long trials take where nothing is known."""


class Job(NamedTuple):
    """Groups of trials that one job trains in order, and the seconds they should take."""

    groups: tuple[tuple[Trial, ...], ...]
    seconds: float


def fit_times(records: Iterable[Mapping[str, Any]], source: str) -> TimeModel:
    """Fit a model to past records (plain data): non-negative least squares of relative errors."""
    from scipy.optimize import nnls  # slow to import, and seldom needed

    rows, target, known = [], [], data_specs()
    for record in records:
        trial = Trial.model_validate(record["trial"])
        if trial.dataset in known and record["outcome"]["status"] == "done":
            seconds = record["cost"]["seconds"]
            rows.append([work / seconds for work in _work(trial)])
            target.append(1.0)
    if not rows:
        raise InputError(f"{source} holds no finished trial to learn times from")
    (per_gflop, per_layer), _ = nnls(np.array(rows), np.array(target))
    return TimeModel(
        per_gflop_s=float(per_gflop),
        per_layer_s=float(per_layer),
        source=f"{len(rows)} records of {source}",
    )


def group(trials: Sequence[Trial], stack: int) -> list[tuple[Trial, ...]]:
    """Return the trials in groups of up to `stack` that one stacked network can train.

    The groups follow from the sweep alone, never from what is done: how a trial is trained, to the
    last bit, does not depend on interruptions.
    """
    if stack == 1:
        return [(one,) for one in trials]
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
    trials_per_job: int | None = None,
) -> list[Job]:
    """Fill jobs in order, so that each should end within its limit with a margin.

    A group that is longer than the limit gets a job of its own; it will be requeued and resumed.
    """
    times = list(group_seconds(groups, model))
    spread = max(sum(times) / parallelism, _SHORTEST_JOB_S)
    target = min(max(limit_s * (1 - _MARGIN) - _START_S, 0.0), spread)
    jobs: list[Job] = []
    current: list[tuple[Trial, ...]] = []
    seconds, count = 0.0, 0
    for one, time in zip(groups, times, strict=True):
        full = seconds + time > target if trials_per_job is None else count >= trials_per_job
        if current and full:
            jobs.append(Job(tuple(current), seconds))
            current, seconds, count = [], 0.0, 0
        current.append(one)
        seconds += time
        count += len(one)
    if current:
        jobs.append(Job(tuple(current), seconds))
    return jobs


def pack_types(
    groups: Sequence[tuple[Trial, ...]],
    model: TimeModel,
    options: SlurmOptions,
    *,
    trials_per_job: int | None = None,
) -> dict[str, list[Job]]:
    """Fill the jobs of every type of device, by its name, with what it is to train."""
    by_type = options.by_type
    own: dict[str, Sequence[tuple[Trial, ...]]] = {"": groups}
    if options.types:
        drawn: dict[str, list[tuple[Trial, ...]]] = {name: [] for name in by_type}
        for one in groups:
            drawn[options.type_of(one[0])].append(one)
        own = {**drawn}
    return {
        name: pack(
            own[name],
            model.faster(options.speed_of(name)),
            limit_s=asked.time_min * 60,
            parallelism=asked.array_parallelism,
            trials_per_job=trials_per_job,
        )
        for name, asked in by_type.items()
    }


def group_seconds(groups: Iterable[tuple[Trial, ...]], model: TimeModel) -> Iterator[float]:
    """Yield how long each group takes; equal ones that stand together are estimated once."""
    last, seconds = None, 0.0
    for one in groups:
        first = one[0]
        # What trials of a sweep have in common is one object; to compare it would take longer.
        if (
            last is None
            or first.cell is not last.cell
            or first.dataset is not last.dataset
            or first.epochs != last.epochs
            or first.skeleton is not last.skeleton
            or first.protocol is not last.protocol
        ):
            last, seconds = first, model.seconds(first)
        yield seconds * len(one)


def _work(trial: Trial) -> tuple[float, float]:
    """Return a trial's arithmetic in GFLOP (multiply-adds) and its layers times its steps."""
    spec = data_spec(trial.dataset)
    skeleton, images = trial.skeleton, spec.train_images + spec.test_images
    model = spec.cost_model(skeleton.channels, skeleton.cells_per_stage)
    # A step is a forward and a backward pass, which costs twice the forward; a test is a forward.
    passes = trial.epochs * (3 * spec.train_images + spec.test_images)
    steps = trial.epochs * math.ceil(images / trial.protocol.batch_size)
    mflops, layers = _network_work(trial.cell, model)
    return passes * mflops / 1e3, layers * steps


@functools.lru_cache(maxsize=2**16)
def _network_work(cell: Cell, model: CostModel) -> tuple[float, int]:
    run = sum(cell.ops.count(op) for op in (CONV_3X3, CONV_1X1, AVG_POOL))
    return model.of(cell).mflops, 3 * model.cells_per_stage * run + 8
