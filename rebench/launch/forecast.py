"""What a sweep will take: jobs, hours of devices, days on the clock, disk and files."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rebench.data import data_spec
from rebench.launch.decide import Turns
from rebench.launch.slurm import largest_array
from rebench.runs import (
    Expansion,
    Job,
    RecipeSpec,
    SweepSpec,
    TimeModel,
    Trial,
    garbage_search_paused,
    group,
    group_seconds,
    pack_types,
)

__all__ = ["Forecast", "forecast"]

# run.json, spec.json, trials.jsonl, both tables, and what they were made of.
_OF_A_RUN: Final = 6
# Who sends, what, and that it is all.
_OF_A_SUBMISSION: Final = 3
# SLURM's answer and the script.
_OF_AN_ARRAY: Final = 2
# A log, a shard and a report. A job that is requeued has a shard more each time.
_OF_A_PROCESS: Final = 3
# Bytes of a record beside its trial and its curves, and of a loss and two commas.
_OF_A_RECORD: Final = 870
_OF_A_LOSS: Final = 21


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
    device_s_by_recipe: Mapping[str, float]
    wall_s: float
    """If as many jobs run at once as there may, in arrays that take turns."""
    wall_s_on: Mapping[int, float]
    """With so many devices that are never idle; with types, so many of each."""
    too_long: int
    """Jobs that hold one trial which is longer than their time limit."""
    bytes_on_disk: int
    """What all trials leave: in the list of trials, in shards and in tables."""
    files: int
    """What one submission leaves whose jobs are never requeued."""


@garbage_search_paused()
def forecast(
    spec: SweepSpec,
    expansion: Expansion,
    times: TimeModel,
    done: Collection[str],
    *,
    trials_per_job: int | None = None,
    devices: Sequence[int] = (),
) -> list[Forecast]:
    """What a sweep takes, and then, if it has types of device, what it takes on each."""
    groups = [
        one
        for one in group(expansion.trials, spec.stack)
        if any(trial.trial_id not in done for trial in one)
    ]
    packed = pack_types(groups, times, spec.slurm, trials_per_job=trials_per_job)
    type_of = spec.slurm.type_of
    counted = Counter(one.dataset for one in expansion.trials)
    asked = Counter({("", dataset): count for dataset, count in counted.items()})
    if spec.slurm.types:
        asked = Counter((type_of(one), one.dataset) for one in expansion.trials)
    recorded = Counter(type_of(one) for one in expansion.trials if done and one.trial_id in done)
    examples = {one.dataset: one for one in expansion.trials}
    sizes = {dataset: _bytes_of(one) for dataset, one in examples.items()}
    largest = largest_array()
    each = []
    for name, options in spec.slurm.by_type.items():
        own = {dataset: count for (of, dataset), count in asked.items() if of == name}
        jobs = packed[name]
        device_s = sum(job.seconds for job in jobs)
        by_recipe, longest_s = _by_recipe(jobs, times.faster(spec.slurm.speed_of(name)))
        told = Forecast(
            type_name=name,
            trials=sum(own.values()),
            done=recorded[name],
            jobs=len(jobs),
            trials_per_job=sum(len(one) for job in jobs for one in job.groups) / max(len(jobs), 1),
            longest_job_s=max((job.seconds for job in jobs), default=0.0),
            device_s=device_s,
            device_s_by_recipe=by_recipe,
            wall_s=_wall_s(jobs, options.array_parallelism, largest),
            wall_s_on={count: max(device_s / count, longest_s) for count in devices},
            too_long=sum(job.seconds > options.time_min * 60 for job in jobs),
            bytes_on_disk=sum(count * sizes[dataset] for dataset, count in own.items()),
            # Of one array whose jobs are never requeued.
            files=len(jobs) * options.processes_per_job * _OF_A_PROCESS + _OF_AN_ARRAY * bool(jobs),
        )
        each.append(told)
    return [_whole(each), *(each if spec.slurm.types else [])]


def _whole(each: Sequence[Forecast]) -> Forecast:
    """What all types take, which work side by side."""
    added = ("trials", "done", "jobs", "device_s", "too_long", "bytes_on_disk")
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in each) for name in added}
    by_recipe: dict[str, float] = {}
    for one in each:
        for recipe, seconds in one.device_s_by_recipe.items():
            by_recipe[recipe] = by_recipe.get(recipe, 0.0) + seconds
    return Forecast(
        type_name="",
        trials_per_job=sum(one.trials_per_job * one.jobs for one in each) / max(sums["jobs"], 1),
        longest_job_s=max(one.longest_job_s for one in each),
        device_s_by_recipe=by_recipe,
        wall_s=max(one.wall_s for one in each),
        wall_s_on={count: max(one.wall_s_on[count] for one in each) for count in each[0].wall_s_on},
        files=sum(one.files for one in each) + _OF_A_RUN + _OF_A_SUBMISSION,
        **sums,
    )


def _by_recipe(jobs: Sequence[Job], times: TimeModel) -> tuple[dict[str, float], float]:
    """The seconds of each recipe, and those of the longest group."""
    # By the object: to compare recipes of millions of trials takes longer than to plan them.
    recipes: dict[int, RecipeSpec] = {}
    each: dict[int, float] = {}
    longest_s = 0.0
    groups, again = itertools.tee(one for job in jobs for one in job.groups)
    for one, time in zip(groups, group_seconds(again, times), strict=True):
        longest_s = max(longest_s, time)
        for trial in one:
            recipes[key := id(trial.recipe)] = trial.recipe
            each[key] = each.get(key, 0.0) + time / len(one)
    by_recipe: dict[str, float] = {}
    for key, recipe in recipes.items():
        by_recipe[recipe.label] = by_recipe.get(recipe.label, 0.0) + each[key]
    return by_recipe, longest_s


def _wall_s(jobs: Sequence[Job], at_once: int, largest: int) -> float:
    """When the last job ends: arrays take turns, and within one jobs start in order."""
    turns, ends = Turns(at_once, {}), {"": 0.0}
    for start in range(0, len(jobs), largest):
        own = jobs[start : start + largest]
        begin = max((ends[array] for array in turns.before(len(own))), default=0.0)
        slots = [begin] * min(at_once, len(own))
        for job in own:
            heapq.heapreplace(slots, slots[0] + job.seconds)
        array = str(start)
        turns.sent(array, len(own))
        ends[array] = max(slots)
    return max(ends.values())


def _bytes_of(trial: Trial) -> int:
    """What a trial leaves: its line in the list of trials, its record, rows of curves."""
    parts = data_spec(trial.dataset).part_sizes(trial.split)
    # As many digits as an accuracy has that is counted over so many images.
    epoch = sum(len(str(100 * (images // 3) / images)) + _OF_A_LOSS for images in parts.values())
    # A loss does not compress, and an accuracy to the digits that tell one image from none.
    of_a_row = 8 + math.log2(max(parts.values())) / 8
    rows = math.ceil(trial.epochs * len(parts) * of_a_row)
    # The record repeats the trial.
    return 2 * len(trial.model_dump_json()) + _OF_A_RECORD + trial.epochs * epoch + rows
