"""Records and runs for tests, made without training."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

from rebench.runs import (
    Cost,
    Curve,
    Outcome,
    Provenance,
    RecipeSpec,
    Record,
    Run,
    ShardWriter,
    Trial,
    parse_spec,
)

NB201 = RecipeSpec(name="nb201")
SWEEP = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1]
[cells]
indices = [11]
"""
SPEC = parse_spec(SWEEP)


def make_record(
    cell: int = 11,
    seed: int = 0,
    accuracy: float = 50.0,
    recipe: RecipeSpec = NB201,
    **changes: Any,
) -> Record:
    """Return a record of two epochs on digits; `trial`, `outcome` and `changes` replace values."""
    usual = {"cell": cell, "dataset": "digits", "recipe": recipe, "seed": seed, "epochs": 2}
    trial = Trial(**usual | changes.pop("trial", {}))
    curve = Curve(accuracy=[10.0, accuracy], loss=[2.0, 1.5])
    outcome = {
        "status": "done",
        "learning_rate": 0.1,
        "curves": {"train": curve, "ori-test": curve},
    } | changes.pop("outcome", {})
    origin = {
        "rebench": "0.1.0",
        "python": "3.11",
        "torch": "2",
        "device": "cpu",
        "host": "h",
        "started": "a",
        "ended": "b",
    } | changes
    return Record(
        trial_id=trial.trial_id,
        trial=trial,
        outcome=Outcome(**outcome),
        cost=Cost(seconds=1.5, images_per_s=100.0, params_m=0.1, mflops=10.0),
        provenance=Provenance(**origin),
    )


def write_records(run: Path, worker: str, *records: Record) -> None:
    """Append records to a new shard."""
    writer = ShardWriter(run / "results", worker)
    writer.append([record.to_line() for record in records])
    writer.close()


def with_checksum(line: str) -> str:
    """Return the line of a record, after a change, with its correct checksum."""
    body = re.sub(r', ?"crc32": ?"[0-9a-f]{8}"}$', "", line)
    return f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}'


def make_run(folder: Path, records: list[Record]) -> Run:
    """Make a run that lists the trials of these records and has no record yet."""
    run = Run.create(folder).settled()
    run.write_sweep(SPEC, tuple(record.trial for record in records))
    return run
