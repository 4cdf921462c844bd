"""Tables for others: a run's rows and curves as two files, and the description of any table."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from rebench.errors import InputError, StoreError
from rebench.runs import FinishedTrials
from rebench.runs.trial import Protocol
from rebench.tables.collecting import collect
from rebench.tables.layout import curves_path
from rebench.tables.parquet import ParquetFile, write_parquet

__all__ = ["Release", "records_digest", "release", "release_of"]

_KEY: Final = b"rebench.release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The description of a table: where its numbers come from, and how they may be used.

    Attributes:
        title: a description of the training, in a line.
        trials: the number of records in the table.
        records_sha256: digest of these records (`records_digest`).
        environments: the software versions that trained these trials.
        source: the files that the table was made of, with their checksums.
        licence: the licence of the numbers.
        cite: the publications to cite.
        training: the settings of the training that all rows share, by name.
        notes: how to read the numbers, and their limits.
    """

    title: str
    trials: int = 0
    records_sha256: str = ""
    environments: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    licence: str = ""
    cite: tuple[str, ...] = ()
    training: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The entry of a Parquet file's metadata that `release_of` reads."""
        told = {name: value for name, value in dataclasses.asdict(self).items() if value}
        return {_KEY: json.dumps(told, ensure_ascii=False).encode()}


def release(
    run: Path,
    path: Path,
    *,
    title: str,
    licence: str = "",
    cite: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Release:
    """Write all rows of a run to `path`, a Parquet file, and its curves (see `curves_path`).

    Args:
        run: the folder of the run.
        path: the file of the table.
        title: a description of the training, in a line.
        licence: the licence of the numbers.
        cite: the publications to cite.
        notes: how to read the numbers, and their limits.
    """
    if path.suffix != ".parquet":
        raise InputError(f"a released table is a .parquet file, got {path}")
    finished = FinishedTrials(run).refresh()
    finished.check()
    if not finished.trials:
        raise InputError(f"{run} has no records to release")
    collected = collect(run)
    about = Release(
        title=title,
        trials=collected.trials,
        records_sha256=records_digest(finished.records.values()),
        environments=collected.environments,
        licence=licence,
        cite=tuple(cite),
        notes=tuple(notes),
        training=_training(record["trial"] for record in finished.records.values()),
    )
    if collected.trials != len(finished.trials):
        raise StoreError(f"{run} grew while it was read: release it again")
    for source, target in ((collected.curves, curves_path(path)), (collected.results, path)):
        table = pq.read_table(source)
        schema = table.schema.with_metadata(about.metadata)
        write_parquet(target, [table.cast(schema)], schema, compression_level=19)
    return about


def _training(trials: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the settings of trials by name; several values are joined by "or"."""
    found: dict[str, set[str]] = {}
    for trial in trials:
        own = Protocol.model_validate(trial.get("protocol", {}))
        nesterov = ", Nesterov" if own.nesterov else ""
        facts = {
            "optimiser": f"SGD, momentum {own.momentum:g}{nesterov}",
            "learning_rate": "set by the recipe: column learning_rate",
            "schedule": own.schedule,
            "warmup_epochs": str(own.warmup_epochs),
            "weight_decay": f"{own.weight_decay:g}",
            "batch_size": str(own.batch_size),
            "augmentation": "random flip and crop" if own.augment else "none",
            "label_smoothing": f"{own.label_smoothing:g}",
            "precision": own.precision,
            "epochs": str(trial.get("epochs", "")),
        }
        for name, value in facts.items():
            found.setdefault(name, set()).add(value)
    return {name: " or ".join(sorted(values)) for name, values in found.items()}


def records_digest(records: Iterable[dict[str, Any]]) -> str:
    """Return the SHA-256 of records, independent of their shards and their order."""
    lines = sorted(json.dumps(record, sort_keys=True, separators=(",", ":")) for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def release_of(path: Path) -> Release | None:
    """Return the description in a Parquet file; None without a description."""
    told = ParquetFile(path).metadata.get(_KEY)
    if told is None:
        return None
    try:
        return TypeAdapter(Release).validate_json(told)
    except ValidationError as error:
        raise StoreError(f"{path} is damaged (invalid description): fetch it again") from error
