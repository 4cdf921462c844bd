"""How long trials take here: learnt from records of past runs, or from a few short trainings."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rebench.errors import InputError
from rebench.store import Record, load_records
from rebench.sweep import Expansion, SweepSpec, TimeModel, Trial, fit_times

__all__ = ["times_from"]

_PROBES = 3


def times_from(
    past: Path | None, spec: SweepSpec, expansion: Expansion, *, calibrate: bool
) -> TimeModel | None:
    """Return what is known of times; None if nothing was asked."""
    if past is not None:
        return fit_times(load_records(past).records.values(), str(past))
    if not calibrate:
        return None
    if not expansion.trials:
        raise InputError("the sweep has no trial to calibrate with")
    records = _probe(_spread(expansion.trials), spec)
    plain = [record.model_dump(mode="json", by_alias=True) for record in records]
    return fit_times(plain, "short trainings on this machine")


def _spread(trials: Sequence[Trial]) -> list[Trial]:
    """Return a few trials, from the cheapest to the dearest cell, of one epoch each."""
    ordered = sorted(trials, key=lambda one: (sum(op > 1 for op in one.cell.ops), str(one.cell)))
    places = {round(at * (len(ordered) - 1) / (_PROBES - 1)) for at in range(_PROBES)}
    return [ordered[place].model_copy(update={"epochs": 1}) for place in sorted(places)]


def _probe(trials: Sequence[Trial], spec: SweepSpec) -> list[Record]:
    from rebench.launch.training import train_group

    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        for trial in trials:
            train_group(
                [trial],
                checkpoints=Path(folder),
                data_root=None,
                options=spec.slurm,
                on_epoch=lambda _: None,
                on_record=records.append,
                stop=lambda: False,
            )
    return records
