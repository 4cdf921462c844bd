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
    weights/              trained networks, if the sweep keeps them
    results.parquet, curves.parquet     derived by `rebench collect`
    collected.json        which records they were derived from

Small files are written whole, and read so that damage stops nobody.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import Field, ValidationError

from rebench.errors import InputError, StoreError, UnsafeFileError
from rebench.runs.files import OddFileError, open_file, read_bounded, read_file
from rebench.runs.shards import ShardReader, atomic_file, write_atomically
from rebench.runs.spec import SweepSpec
from rebench.runs.trial import Plain, Trial

__all__ = [
    "Failure",
    "Identity",
    "Kept",
    "Run",
    "Tell",
    "listed_trials",
    "read_kept",
    "read_own",
    "unheard",
    "write_kept",
    "write_once",
]

Tell: TypeAlias = Callable[[str], None]
"""Told what the user should know, one line each."""

_OTHERS_WRITE: Final = 0o022
# What a line of the list of trials begins with, and what stands between the id and the trial.
_HEAD: Final = '{"trial_id":"'
_BETWEEN: Final = '","trial":'
# What is longer is read as several lines, none of which is a trial.
_LONGEST_TRIAL: Final = 1 << 20
_WRITTEN_ANEW: Final = "`rebench submit` with the sweep's file writes it anew"
_NAMELESS: Final = (
    "it held the run's name; if `squeue -o %j` shows jobs rebench-NAME-*, write"
    ' {"name": "NAME"} into it, and if there are none, remove it: the next submission makes one'
)


def unheard(line: str) -> None:
    """Tell nobody."""


class Kept(Plain):
    """What a file holds. Later versions may add keys; this one ignores those it does not know."""

    version: int = 1


Form = TypeVar("Form", bound=Plain)


def read_kept(
    form: type[Form],
    path: Path,
    tell: Tell = unheard,
    meaning: str = "",
    *,
    read: Callable[[Path], bytes] = read_file,
) -> Form | None:
    """What a file holds; None if there is none, or if it cannot be used, which is told.

    Args:
        form: what it should hold.
        path: the file.
        tell: is given one line about a file that is damaged or may not be read.
        meaning: what follows from that, for this line.
        read: how it is read.
    """
    try:
        return form.model_validate_json(read(path), extra="ignore")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        tell(f"{path} cannot be read ({error.strerror}): {meaning}")
    except ValidationError:
        tell(f"{path} is damaged: {meaning}")
    return None


def write_kept(path: Path, content: Plain) -> None:
    """Replace a file, seen whole or not at all."""
    write_atomically(path, content.model_dump_json().encode())


def write_once(path: Path, content: Plain) -> bool:
    """Make a file, seen whole, unless somebody else made it; say whether it is this one's."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    text = content.model_dump_json()
    try:
        temporary.write_text(text)
        os.link(temporary, path)
    except FileExistsError:
        # A network file system may have done it and lost the answer.
        with contextlib.suppress(FileNotFoundError):
            return path.read_text() == text
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def read_own(path: Path) -> bytes:
    """Read a file by which jobs are sent, if nobody but this user and root could have written it.

    Raises:
        UnsafeFileError: another owns it, or others can write to it.
    """
    with open_file(path) as file:
        # Asked of the open file, which nobody can exchange meanwhile.
        about = os.fstat(file.fileno())
        why = "can be written by others" if about.st_mode & _OTHERS_WRITE else ""
        if about.st_uid not in (os.geteuid(), 0):
            why = f"belongs to another user (number {about.st_uid})"
        if why:
            raise UnsafeFileError(
                f"{path} {why}, and the jobs that it describes would run as you: refused."
                f" {_WRITTEN_ANEW}; --trust-folder takes it as it is, for those who trust everybody"
                " that can write there"
            )
        return read_bounded(path, file)


def listed_trials(run: Path, tell: Tell) -> Iterator[tuple[str, str]]:
    """Yield each trial's id and its JSON; there may be millions. What is wrong is told."""
    path, damaged = run / "trials.jsonl", 0
    start, end = len(_HEAD), len(_HEAD) + 16
    try:
        with io.TextIOWrapper(open_file(path), "utf-8", errors="replace") as lines:
            read = functools.partial(lines.readline, _LONGEST_TRIAL)
            for line in map(str.rstrip, iter(read, "")):
                if line.startswith(_HEAD) and line.endswith("}}"):
                    yield line[start:end], line[end + len(_BETWEEN) : -1]
                else:
                    damaged += 1
    except FileNotFoundError:
        if (run / "spec.json").exists():
            tell(f"{path} is gone: {_WRITTEN_ANEW}")
    except OddFileError as error:
        tell(f"{path} cannot be read ({error.strerror}): {_WRITTEN_ANEW}")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if damaged:
        tell(f"{path} is damaged in {damaged} lines: {_WRITTEN_ANEW}")


class Identity(Kept):
    """Which run a folder holds, and where that folder is."""

    # The names of its jobs begin with it.
    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
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
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not identity.exists():
                write_once(identity, Identity(name=secrets.token_hex(4), path=folder.resolve()))
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

    def write_sweep(self, spec: SweepSpec, trials: tuple[Trial, ...]) -> None:
        """Store what is to be trained."""
        with atomic_file(self.folder / "trials.jsonl") as file, file.open("w") as lines:
            lines.writelines(
                f"{_HEAD}{one.trial_id}{_BETWEEN}{one.model_dump_json()}}}\n" for one in trials
            )
        with atomic_file(self.folder / "spec.json") as file:
            # Whoever can write to it decides what the next submission runs.
            file.touch(0o666 & ~_OTHERS_WRITE)
            file.write_text(spec.model_dump_json(indent=1))

    def spec(self, *, trust_folder: bool = False) -> SweepSpec | None:
        """The sweep as last submitted; None before the first time.

        Whoever wrote it decides what is sent: this user or root, unless the folder is trusted.
        """
        read = read_file if trust_folder else read_own
        return read_kept(SweepSpec, self.folder / "spec.json", _refuse, _WRITTEN_ANEW, read=read)

    def troubles(self) -> list[str]:
        """What is wrong with the sweep of a run that was submitted, and what to do."""
        if not (self.folder / "submissions").exists():
            return []
        places = (self.folder / name for name in ("trials.jsonl", "spec.json"))
        lines = [f"{path} is gone: {_WRITTEN_ANEW}" for path in places if not path.exists()]
        read_kept(SweepSpec, self.folder / "spec.json", lines.append, _WRITTEN_ANEW)
        return lines

    def ids(self, tell: Tell = unheard) -> list[str]:
        """The ids of the trials in order; lines that are damaged are told."""
        return [trial_id for trial_id, _ in listed_trials(self.folder, tell)]

    def trials(self, wanted: set[str] | None = None, tell: Tell = unheard) -> dict[str, Trial]:
        """The trials in order, or those of them that are wanted; damaged lines are told."""
        trials: dict[str, Trial] = {}
        for trial_id, line in listed_trials(self.folder, tell):
            if wanted is None or trial_id in wanted:
                try:
                    # A key that is not known may change what a trial means.
                    trials[trial_id] = Trial.model_validate_json(line)
                except ValidationError:
                    tell(f"{self.folder}/trials.jsonl is damaged: ignored")
        return trials

    def failures(self, tell: Tell = unheard) -> dict[str, Failure]:
        """The latest failure of every trial that has one; damaged lines are told."""
        latest: dict[str, Failure] = {}
        reader = ShardReader(self.folder / "failures")
        for line in reader.read_new():
            try:
                failure = Failure.model_validate_json(line.data, extra="ignore")
            except ValidationError:
                tell(f"{line.place} is damaged: ignored")
                continue
            known = latest.get(failure.trial_id)
            # The clocks of nodes differ; submissions are numbered.
            if known is None or _order(known) <= _order(failure):
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
    there = identity.path / "run.json"
    try:
        # One folder may have two paths, and on another host another one.
        if there.stat().st_ino == (folder / "run.json").stat().st_ino:
            return False
    except (OSError, ValueError):  # no path holds NUL
        return False
    other = read_kept(Identity, there)
    return other is not None and other.name == identity.name


def _refuse(line: str) -> None:
    raise StoreError(line)
