"""How long trials take here: from records, from a few short trainings, or from a guess."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rebench.errors import InputError
from rebench.launch.send import visible_gpus
from rebench.machine import cores
from rebench.runs import (
    GUESS,
    FinishedTrials,
    Record,
    SweepSpec,
    TimeModel,
    Trial,
    fit_times,
    guess_cpu,
)

__all__ = ["times_for"]

_PROBES = 3
# So many records of a run tell as much as all of them.
_ENOUGH = 2000


def times_for(
    spec: SweepSpec,
    trials: Sequence[Trial],
    *,
    run: Path,
    past: Path | None = None,
    cluster: str = "slurm",
    calibrate: bool = False,
) -> TimeModel:
    """The times of a sweep's trials, by what is known best.

    Args:
        spec: the sweep.
        trials: its trials.
        run: its run, whose records tell if nothing else is asked for.
        past: another run, whose records tell.
        cluster: where the trials will be trained.
        calibrate: train a few trials for one epoch each.
    """
    if past is not None:
        records = FinishedTrials(past).refresh().records.values()
        done = [one for one in records if one["outcome"]["status"] == "done"]
        measured = [(Trial.model_validate(one["trial"]), one["cost"]["seconds"]) for one in done]
        return fit_times(measured, str(past))
    if calibrate:
        if not trials:
            raise InputError("the sweep has no trial to calibrate with")
        probed = _probe(trials, spec)
        return fit_times(
            [(one.trial, one.cost.seconds) for one in probed], "short trainings on this machine"
        )
    finished = FinishedTrials(run).refresh().trials
    known = [one for one in trials if one.trial_id in finished] if finished else []
    own = [
        (one, finished[one.trial_id].seconds)
        for one in known[:: max(1, len(known) // _ENOUGH)]
        if finished[one.trial_id].status == "done"
    ]
    if own:
        return fit_times(own, "this run")
    return _guess(spec, cluster)


def _guess(spec: SweepSpec, cluster: str) -> TimeModel:
    here = cluster != "slurm"
    if spec.slurm.device != "cpu" and not (here and not visible_gpus()):
        return GUESS
    if not here:
        count = spec.slurm.cpus_per_task or 1
        return guess_cpu(30.0 * count, f"a guess for a CPU with {count} cores")
    gmacs = _measure()
    return guess_cpu(
        gmacs,
        f"a guess: this machine multiplies {gmacs:.0f} G a second on {cores()} cores; its first"
        " records will tell",
    )


def _measure() -> float:
    """Billions of multiply-adds a second of this machine, in an instant."""
    size = 384
    square = np.ones((size, size), dtype=np.float32)
    seconds = []
    for _ in range(4):
        begun = time.perf_counter()
        square @ square
        seconds.append(time.perf_counter() - begun)
    return float(size**3 / min(seconds) / 1e9)


def _probe(trials: Sequence[Trial], spec: SweepSpec) -> list[Record]:
    """A few trials, from the cheapest to the dearest cell, trained for one epoch each."""
    from rebench.launch.training import train_group

    ordered = sorted(trials, key=lambda one: (sum(op > 1 for op in one.cell.ops), str(one.cell)))
    places = {round(at * (len(ordered) - 1) / (_PROBES - 1)) for at in range(_PROBES)}
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        for place in sorted(places):
            train_group(
                [ordered[place].model_copy(update={"epochs": 1})],
                checkpoints=Path(folder),
                data_root=None,
                options=spec.slurm,
                on_epoch=lambda _: None,
                on_record=records.append,
                stop=lambda: False,
            )
    return records
