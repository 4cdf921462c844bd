"""A run's folder: its identity, what it is to train, and where everything in it lives.

::

    run.json              the run's random name, by which its jobs are known in the queue
    spec.json             the sweep as last submitted
    trials.jsonl          its trials, one a line
    submissions/0001/     who sent what: owner, intent, what SLURM answered, submitit's own files
    results/*.jsonl       records, one writer a file
    failures/*.jsonl      trials that raised, and why
    claims/               which worker is training a trial just now
    progress/             how far each worker is
    checkpoints/          trials in flight
    results.parquet, curves.parquet     derived by `rebench collect`
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rebench.errors import InputError, StoreError
from rebench.store import ShardReader, write_atomically
from rebench.sweep import Plain, SweepSpec, Trial

__all__ = ["FailedTrials", "Failure", "Run", "trial_ids"]

_HEAD = '{"trial_id":"'


class Failure(Plain):
    """Why a trial could not be trained."""

    trial_id: str
    submission: int
    kind: str
    message: str
    # Empty in files of version 0.1.
    job: str = ""
    worker: str
    node: str
    log: str
    time: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run's folder."""

    folder: Path
    name: str

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open a run that exists."""
        try:
            content = json.loads((folder / "run.json").read_text())
        except FileNotFoundError as error:
            raise InputError(f"{folder} is not a run: it holds no run.json") from error
        return cls(folder.absolute(), content["name"])

    @classmethod
    def create(cls, folder: Path) -> Run:
        """Open the run in `folder`, making it if it is new; two at once agree on its name."""
        identity = folder / "run.json"
        if not identity.exists():
            temporary = folder / f".run.{secrets.token_hex(4)}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                temporary.write_text(json.dumps({"name": secrets.token_hex(4)}))
                os.link(temporary, identity)
            except FileExistsError:
                pass
            except OSError as error:
                raise StoreError(f"cannot write to the run {folder}: {error.strerror}") from error
            finally:
                temporary.unlink(missing_ok=True)
        return cls.open(folder)

    @property
    def checkpoints(self) -> Path:
        """Where trials in flight leave their state."""
        return self.folder / "checkpoints"

    def write_sweep(self, spec: SweepSpec, trials: tuple[Trial, ...]) -> None:
        """Store what is to be trained."""
        lines = [f'{_HEAD}{one.trial_id}","trial":{one.model_dump_json()}}}\n' for one in trials]
        write_atomically(self.folder / "trials.jsonl", "".join(lines).encode())
        write_atomically(self.folder / "spec.json", spec.model_dump_json(indent=1).encode())

    def spec(self) -> SweepSpec | None:
        """Return the sweep as last submitted; None before the first time."""
        path = self.folder / "spec.json"
        return SweepSpec.model_validate_json(path.read_bytes()) if path.exists() else None

    def trial_lines(self) -> dict[str, str]:
        """Return the trials in order, by id, as JSON."""
        path = self.folder / "trials.jsonl"
        if not path.exists():
            return {}
        start, end = len(_HEAD), len(_HEAD) + 16
        lines = path.read_text().splitlines()
        return {line[start:end]: line[end + len('","trial":') : -1] for line in lines}

    def trials(self, wanted: set[str] | None = None) -> dict[str, Trial]:
        """Return the trials in order, or those of them that are wanted."""
        return {
            trial_id: Trial.model_validate_json(content)
            for trial_id, content in self.trial_lines().items()
            if wanted is None or trial_id in wanted
        }

    def failures(self) -> dict[str, Failure]:
        """Return the latest failure of every trial that has one."""
        latest: dict[str, Failure] = {}
        for failure in _read_failures(ShardReader(self.folder / "failures")):
            known = latest.get(failure.trial_id)
            if known is None or known.time <= failure.time:
                latest[failure.trial_id] = failure
        return latest


class FailedTrials:
    """Which trials have failed since a submission; `refresh` reads only what is new."""

    def __init__(self, run: Path, submission: int) -> None:
        self._reader = ShardReader(run / "failures")
        self._submission = submission
        self.trials: set[str] = set()
        self.refresh()

    def refresh(self) -> None:
        """Take in what was appended since the last call."""
        self.trials |= {
            failure.trial_id
            for failure in _read_failures(self._reader)
            if failure.submission >= self._submission
        }


def _read_failures(reader: ShardReader) -> Iterator[Failure]:
    for line in reader.read_new():
        yield Failure.model_validate_json(line.data)


def trial_ids(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    """Return the trials of some groups, in order."""
    return [trial_id for one in groups for trial_id in one]
