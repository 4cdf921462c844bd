"""The cost of a sweep: jobs, hours of devices, days, disk and files.

How long its trials take is learnt from records, or guessed.
"""

from __future__ import annotations

import heapq
import math
import timeit
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from cells.ops import CONV_1X1, CONV_3X3
from rebench.data import data_spec
from rebench.launch.clusters.commands import largest_array
from rebench.launch.decide import Throttle
from rebench.launch.devices import visible_gpus
from rebench.machine import cores, garbage_search_paused
from rebench.runs import (
    GUESS,
    FinishedTrials,
    Job,
    SweepSpec,
    TimeModel,
    Trial,
    fit_times,
    group,
    group_seconds,
    guess_cpu,
    pack_types,
)

__all__ = ["Forecast", "forecast", "times_for"]

# Files of a run: run.json, spec.json, trials.jsonl, two tables, and the list of their shards.
_OF_A_RUN: Final = 6
# Files of a submission: its owner, its intent, the mark of its end.
_OF_A_SUBMISSION: Final = 3
# Of an array: the answer of SLURM and the script, twice.
_OF_AN_ARRAY: Final = 3
# Of a job: its pickle.
_OF_A_JOB: Final = 1
# Of a process: a pickle, a log, a shard and a report. A requeued job has a shard more each time.
_OF_A_PROCESS: Final = 4
# Bytes of a record without its trial and its curves; of a loss and two commas.
_OF_A_RECORD: Final = 870
_OF_A_LOSS: Final = 21
# Bytes of a convolution's name and those of its normalisation, and of the statistics.
_OF_A_LAYER: Final = 950


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The cost of the trials without a record, on all types of device together."""

    trials: int
    done: int
    jobs: int
    trials_per_job: float
    longest_job_s: float
    device_s: float
    wall_s: float
    """Time until the last job ends, with `array_parallelism` jobs at once."""
    wall_s_on: Mapping[int, float]
    """The same by the number of devices (of each type) if they are never idle."""
    too_long: int
    """Jobs of one trial that is longer than their time limit."""
    bytes_on_disk: int
    """Bytes of all trials: in the list of trials, in shards, in tables, and as networks."""
    files: int
    """Files of one submission, if its jobs are never requeued."""


@garbage_search_paused()
def forecast(
    spec: SweepSpec,
    trials: Sequence[Trial],
    times: TimeModel,
    done: Collection[str],
    *,
    trials_per_job: int | None = None,
    devices: Sequence[int] = (),
) -> Forecast:
    """Return the cost of a sweep."""
    groups = [
        one for one in group(trials, spec.stack) if any(trial.trial_id not in done for trial in one)
    ]
    packed = pack_types(groups, times, spec.slurm, trials_per_job=trials_per_job)
    jobs = [job for own in packed.values() for job in own]
    counts = Counter(trial.dataset for trial in trials)
    examples = {trial.dataset: trial for trial in trials}
    largest, files = largest_array(), _OF_A_RUN + _OF_A_SUBMISSION
    kept = spec.train.keep != "nothing"
    wall_s, too_long, wall_s_on = 0.0, 0, dict.fromkeys(devices, 0.0)
    for name, options in spec.slurm.by_type.items():
        own, model = packed[name], times.faster(spec.slurm.speed_of(name))
        of_a_job = _OF_A_JOB + options.processes_per_job * _OF_A_PROCESS
        files += len(own) * of_a_job + _OF_AN_ARRAY * bool(own)
        wall_s = max(wall_s, _wall_s(own, options.array_parallelism, largest))
        too_long += sum(job.seconds > options.time_min * 60 for job in own)
        device_s = sum(job.seconds for job in own)
        each = group_seconds((one for job in own for one in job.groups), model)
        longest_s = max(each, default=0.0)
        for count in devices:
            wall_s_on[count] = max(wall_s_on[count], device_s / count, longest_s)
    return Forecast(
        trials=len(trials),
        done=sum(trial.trial_id in done for trial in trials),
        jobs=len(jobs),
        trials_per_job=sum(len(one) for job in jobs for one in job.groups) / max(len(jobs), 1),
        longest_job_s=max((job.seconds for job in jobs), default=0.0),
        device_s=sum(job.seconds for job in jobs),
        wall_s=wall_s,
        wall_s_on=wall_s_on,
        too_long=too_long,
        # A network has its trial's record in its file.
        bytes_on_disk=(_bytes_of_networks(trials, spec) if kept else 0)
        + (1 + kept) * sum(counts[name] * _bytes_of(one) for name, one in examples.items()),
        files=files + kept * len(trials),
    )


def _wall_s(jobs: Sequence[Job], at_once: int, largest: int) -> float:
    """Return when the last job ends. Arrays wait for each other; jobs of one start in order."""
    throttle, ends = Throttle(at_once, {}), {"": 0.0}
    for start in range(0, len(jobs), largest):
        own = jobs[start : start + largest]
        begin = max((ends[array] for array in throttle.before(len(own))), default=0.0)
        slots = [begin] * min(at_once, len(own))
        for job in own:
            heapq.heapreplace(slots, slots[0] + job.seconds)
        array = str(start)
        throttle.sent(array, len(own))
        ends[array] = max(slots)
    return max(ends.values())


def _bytes_of(trial: Trial) -> int:
    """Return the bytes of a trial: its line in the list, its record, its rows of curves."""
    parts = data_spec(trial.dataset).part_sizes(trial.split)
    # The number of digits of an accuracy depends on its number of images.
    epoch = sum(len(str(100 * (images // 3) / images)) + _OF_A_LOSS for images in parts.values())
    # A loss does not compress, and an accuracy to the digits that tell one image from none.
    of_a_row = 8 + math.log2(max(parts.values())) / 8
    rows = math.ceil(trial.epochs * len(parts) * of_a_row)
    # The record repeats the trial.
    return 2 * len(trial.model_dump_json()) + _OF_A_RECORD + trial.epochs * epoch + rows


def _bytes_of_networks(trials: Sequence[Trial], spec: SweepSpec) -> int:
    """Return the bytes that `rebench.train.save_network` writes for all trials."""
    skeleton, keeps, total = spec.skeleton, spec.train, 0
    for (cell, dataset), count in Counter((one.cell, one.dataset) for one in trials).items():
        model = data_spec(dataset).cost_model(skeleton.channels, skeleton.cells_per_stage)
        in_cells = sum(op in (CONV_1X1, CONV_3X3) for op in cell.ops)
        layers = 6 + 3 * skeleton.cells_per_stage * in_cells
        size = (2 if keeps.half else 4) * model.of(cell).params + _OF_A_LAYER * layers
        total += count * (2 * size if keeps.keep == "state" else size)
    return total


# More records than this tell nothing more about times.
_ENOUGH: Final = 1000


def times_for(
    spec: SweepSpec, *, run: Path, past: Path | None = None, here: bool = False
) -> TimeModel:
    """Return the times of the trials of a sweep, from the best source there is.

    Args:
        spec: the sweep.
        run: its run. Its records give the times unless `past` is given.
        past: another run with records.
        here: whether the trials will be trained on this machine.
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
    return _guess(spec, here=here)


def _guess(spec: SweepSpec, *, here: bool) -> TimeModel:
    """Return a guess for an unknown GPU or CPU, or from a measurement of this machine."""
    if spec.slurm.device != "cpu" and not (here and not visible_gpus()):
        return GUESS
    if not here:
        count = spec.slurm.cpus_per_task or 1
        told = "one core" if count == 1 else f"{count} cores"
        return guess_cpu(30.0 * count, f"a guess for a CPU with {told}")
    size = 384
    square = np.ones((size, size), dtype=np.float32)
    seconds = min(timeit.repeat(lambda: square @ square, number=1, repeat=4))
    gmacs = float(size**3 / seconds / 1e9)
    return guess_cpu(
        gmacs,
        f"a guess: this machine multiplies {gmacs:.0f} G a second on {cores()} cores; its first"
        " records will tell",
    )
