"""A run's folder: its identity, what it is to train, and where everything in it lives.

::

    run.json              the run's random name, by which its jobs are known in the queue
    spec.json             the sweep as last submitted
    trials.jsonl          its trials, one a line
    submissions/0001/     who sent what: owner, intent, what SLURM answered; logs/ of its jobs
    results/*.jsonl       records, one writer a file
    failures/*.jsonl      trials that raised, and why
    claims/               which worker is training a trial just now
    progress/             how far each worker is
    checkpoints/          trials in flight
    results.parquet, curves.parquet     derived by `rebench collect`
    collected.json        which records they were derived from
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from rebench.errors import InputError, StoreError
from rebench.launch.files import (
    Kept,
    Tell,
    kept_from_others,
    open_own,
    read_kept,
    read_line,
    unheard,
    write_kept,
)
from rebench.runs import (
    ShardReader,
    SweepSpec,
    Trial,
    listed_trials,
    write_atomically,
    write_trials,
)

__all__ = ["Failure", "Identity", "Run", "trial_ids"]

# Options of a sweep that make its jobs run a program, or write to a file, of somebody's choice.
_RUNNING = ("setup", "container_image", "container_binds", "extra")
_WRITTEN_ANEW = "`rebench submit` with the sweep's file writes it anew"
_NAMELESS = (
    "it held the run's name; if `squeue -o %j` shows jobs rebench-NAME-*, write"
    ' {"name": "NAME"} into it, and if there are none, remove it: the next submission makes one'
)


class Identity(Kept):
    """Which run a folder holds, and where that folder is."""

    name: str
    # None in files of version 0.1.
    path: Path | None = None


class Failure(Kept):
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
    original: Path | None = None
    """Of a copied folder that has sent nothing yet: the run that it is a copy of."""

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open a run that exists."""
        identity = read_kept(Identity, folder / "run.json", _refuse, _NAMELESS)
        if identity is None:
            raise InputError(f"{folder} is not a run: it holds no run.json")
        original = identity.path if _is_copy(folder, identity) else None
        return cls(folder.absolute(), identity.name, original)

    @classmethod
    def create(cls, folder: Path) -> Run:
        """Open the run in `folder`, making it if it is new; two at once agree on its name."""
        identity = folder / "run.json"
        temporary = folder / f".run.{secrets.token_hex(4)}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not identity.exists():
                write_kept(temporary, Identity(name=secrets.token_hex(4), path=folder.resolve()))
                with contextlib.suppress(FileExistsError):
                    os.link(temporary, identity)
                temporary.unlink()
        except OSError as error:
            raise StoreError(f"cannot write to the run {folder}: {error.strerror}") from error
        return cls.open(folder)

    def settled(self, tell: Tell = unheard) -> Run:
        """This run with a name of its own, if it is a copy, and knowing where it is.

        Only the one process that submits may call it.
        """
        name = self.name
        if self.original is not None:
            name = secrets.token_hex(4)
            # The workers that hold these are of the other run; this one has none yet.
            shutil.rmtree(self.folder / "claims", ignore_errors=True)
            tell(f"{self.folder} is a copy of {self.original}: from now on it is a run of its own")
        write_kept(self.folder / "run.json", Identity(name=name, path=self.folder.resolve()))
        return Run.open(self.folder)

    def owns(self, chunk: str) -> bool:
        """Whether jobs of this name were sent for this run, and not for its original."""
        return self.original is None and chunk.startswith(self.job_prefix)

    @property
    def job_prefix(self) -> str:
        """How the names of its jobs begin."""
        return f"rebench-{self.name}-"

    @property
    def checkpoints(self) -> Path:
        """Where trials in flight leave their state."""
        return self.folder / "checkpoints"

    def write_sweep(self, spec: SweepSpec, trials: tuple[Trial, ...]) -> None:
        """Store what is to be trained."""
        write_trials(self.folder, trials)
        with kept_from_others():
            write_atomically(self.folder / "spec.json", spec.model_dump_json(indent=1).encode())

    def spec(self, *, trust_folder: bool = False) -> SweepSpec | None:
        """The sweep as last submitted; None before the first time.

        Options that run a program must be of this user or root, unless the folder is trusted.
        """
        path = self.folder / "spec.json"
        spec = read_kept(SweepSpec, path, _refuse, _WRITTEN_ANEW)
        asked = [] if spec is None else [spec.slurm, *spec.slurm.by_type.values()]
        running = [key for key in _RUNNING if any(getattr(one, key) for one in asked)]
        if running and not trust_folder:
            with open_own(path, f"its {running[0]}") as file:
                return SweepSpec.model_validate_json(file.read(), extra="ignore")
        return spec

    def troubles(self) -> list[str]:
        """One line for each file that says what is to be trained and does not, once submitted."""
        if not (self.folder / "submissions").exists():
            return []
        lines: list[str] = []
        if not (self.folder / "trials.jsonl").exists():
            lines.append(f"{self.folder}/trials.jsonl is gone: {_WRITTEN_ANEW}")
        if not (self.folder / "spec.json").exists():
            lines.append(f"{self.folder}/spec.json is gone: {_WRITTEN_ANEW}")
        read_kept(SweepSpec, self.folder / "spec.json", lines.append, _WRITTEN_ANEW)
        return lines

    def ids(self, tell: Tell = unheard) -> list[str]:
        """The ids of the trials in order; lines that are damaged are told."""
        return [trial_id for trial_id, _ in listed_trials(self.folder, tell)]

    def trials(self, wanted: set[str] | None = None, tell: Tell = unheard) -> dict[str, Trial]:
        """The trials in order, or those of them that are wanted."""
        place = f"{self.folder}/trials.jsonl"
        read = {
            trial_id: read_line(Trial, line, tell, place)
            for trial_id, line in listed_trials(self.folder, tell)
            if wanted is None or trial_id in wanted
        }
        return {trial_id: trial for trial_id, trial in read.items() if trial is not None}

    def failures(self, tell: Tell = unheard) -> dict[str, Failure]:
        """The latest failure of every trial that has one; damaged lines are told."""
        latest: dict[str, Failure] = {}
        reader = ShardReader(self.folder / "failures")
        for line in reader.read_new():
            failure = read_line(Failure, line.data, tell, line.place)
            known = None if failure is None else latest.get(failure.trial_id)
            # The clocks of nodes differ; submissions are numbered.
            if failure and (known is None or _order(known) <= _order(failure)):
                latest[failure.trial_id] = failure
        for problem in reader.problems:
            tell(problem)
        return latest


def _order(failure: Failure) -> tuple[int, str]:
    return failure.submission, failure.time


def _is_copy(folder: Path, identity: Identity) -> bool:
    """Whether the run that a folder says it holds is still where it was, elsewhere."""
    if identity.path is None or identity.path == folder.resolve():
        return False
    there, here = identity.path / "run.json", folder / "run.json"
    try:
        # One folder may have two paths, and on another host another one.
        if there.stat().st_ino == here.stat().st_ino:
            return False
    except OSError:
        return False
    other = read_kept(Identity, there, unheard, "")
    return other is not None and other.name == identity.name


def _refuse(line: str) -> None:
    raise StoreError(line)


def trial_ids(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    """The trials of some groups, in order."""
    return [trial_id for one in groups for trial_id in one]
