"""The folder of a run: its identity, its trials and its files.

::

    run.json              random name of the run; the names of its jobs contain it
    spec.json             the sweep of the last submission
    trials.jsonl          the trials, one per line
    submissions/0001/     a submission: owner, intent, job numbers; logs/ of its jobs
    results/*.jsonl       records, one writer per file
    failures/*.jsonl      trials that raised an error, with the error
    claims/               the worker that trains a trial
    progress/             the state of each worker
    checkpoints/          unfinished trials
    weights/              trained networks, if the sweep keeps them
    results.parquet, curves.parquet     made by `rebench collect`
    collected.json        the records from which they were made

Small files are replaced atomically. A damaged file never stops a command that does not need it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import Field, ValidationError

from rebench.arguments import checked
from rebench.errors import InputError, StoreError, UnsafeFileError
from rebench.runs.files import OddFileError, open_file, read_bounded, read_file
from rebench.runs.shards import ShardReader, atomic_file, file_clock_ns, write_atomically
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
    "run_folder",
    "unheard",
    "write_kept",
    "write_once",
]

Tell: TypeAlias = Callable[[str], None]
"""Function that shows the user a message of one line."""

_OTHERS_WRITE: Final = 0o022
# Names of the temporary files of `atomic_file` and `write_once`.
_UNFINISHED: Final = re.compile(r"\..+\.(\d+\.[0-9a-f]+|[0-9a-f]{12})")
_UNFINISHED_S: Final = 24 * 3600.0
# Start of a line of trials.jsonl, and the text between the id and the trial.
_HEAD: Final = '{"trial_id":"'
_BETWEEN: Final = '","trial":'
# A longer line is read as several lines, none of which is a trial.
_LONGEST_TRIAL: Final = 1 << 20
_WRITTEN_ANEW: Final = "`rebench submit` with the sweep file writes it again"
_NAMELESS: Final = (
    "it contained the name of the run; if `squeue -o %j` shows jobs rebench-NAME-*, write"
    ' {"name": "NAME"} into it; otherwise remove it, and the next submission makes a new one'
)


def run_folder(spec: Path, given: Path | None = None) -> Path:
    """Return the folder of a run: `given`, `spec` if it is a run, or else runs/NAME next to it."""
    if given is None and (spec / "run.json").exists():
        return spec
    return given or spec.parent / "runs" / spec.stem


def unheard(line: str) -> None:
    """Ignore a message."""


class Kept(Plain):
    """Content of a small file. Keys that this version does not know are ignored."""

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
    """Return the content of a file; None if it is missing, damaged or unreadable.

    `tell` receives one line about a damaged or unreadable file, which ends with its `meaning`.
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
    """Replace a file atomically."""
    write_atomically(path, content.model_dump_json().encode())


def write_once(path: Path, content: Plain) -> bool:
    """Create a file atomically unless it exists; return whether this call created it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    text = content.model_dump_json()
    try:
        with temporary.open("x") as file:
            file.write(text)
        os.link(temporary, path)
    except FileExistsError:
        # A network file system may have created it and lost the answer.
        with contextlib.suppress(FileNotFoundError):
            return path.read_text() == text
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def read_own(path: Path) -> bytes:
    """Read a file that decides which jobs are sent; refuse it if others could have chosen it.

    Others can write to the file, or can replace it by a link to the sweep of another run.
    """
    try:
        with open_file(path, follow=False) as file:
            # Check the open file: it cannot be replaced in the meantime.
            about = os.fstat(file.fileno())
            why = "can be written by others" if about.st_mode & _OTHERS_WRITE else ""
            if about.st_uid not in (os.geteuid(), 0):
                why = f"belongs to another user (number {about.st_uid})"
            if not why:
                return read_bounded(path, file)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        why = "is a symbolic link"
    raise UnsafeFileError(
        f"{path} {why}. Its jobs would run with your rights, so it is refused."
        f" {_WRITTEN_ANEW}; or accept it with --trust-folder, if you trust everybody who can write"
        " there"
    )


def listed_trials(run: Path, tell: Tell) -> Iterator[tuple[str, str]]:
    """Yield id and JSON of each trial, one at a time; report damaged lines."""
    path = run / "trials.jsonl"
    damaged: list[int] = []
    start = len(_HEAD)
    end = start + 16
    try:
        with io.TextIOWrapper(open_file(path), "utf-8", errors="replace") as lines:
            read = functools.partial(lines.readline, _LONGEST_TRIAL)
            for number, line in enumerate(iter(read, ""), 1):
                text = line.rstrip()
                if text.startswith(_HEAD) and text.endswith("}}"):
                    yield text[start:end], text[end + len(_BETWEEN) : -1]
                else:
                    damaged.append(number)
    except FileNotFoundError:
        if (run / "spec.json").exists():
            tell(f"{path} is missing: {_WRITTEN_ANEW}")
    except OddFileError as error:
        tell(f"{path} cannot be read ({error.strerror}): {_WRITTEN_ANEW}")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if damaged:
        where = f"{len(damaged)} lines (the first is line {damaged[0]})"
        tell(f"{path} is damaged in {where}: {_WRITTEN_ANEW}")


class Identity(Kept):
    """Identity of a run: its name and the path of its folder."""

    # Part of the names of its jobs.
    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    # None in a file that a user has written again.
    path: Path | None = None


class Failure(Kept):
    """Error of a trial that could not be trained."""

    trial_id: str
    submission: int
    kind: str
    message: str
    job: str
    worker: str
    node: str
    log: str
    time: str


@dataclass(frozen=True, slots=True)
class Run:
    """Folder of a run."""

    folder: Path
    name: str
    original: Path | None = None
    """For a copied folder without a submission: the original folder."""

    @classmethod
    @checked
    def open(cls, folder: str | Path) -> Run:
        """Open an existing run."""
        folder = Path(folder)
        identity = read_kept(Identity, folder / "run.json", _refuse, _NAMELESS)
        if identity is None:
            wrong = "it contains no run.json" if folder.is_dir() else "there is no such folder"
            if folder.suffix == ".toml" and folder.is_file():
                wrong = f"it is a sweep file, and its run folder is {run_folder(folder)}"
            raise InputError(
                f"{folder} is not a run folder: {wrong}; `rebench submit` prints the run's folder"
            )
        return cls(folder.absolute(), identity.name, _original(folder, identity))

    @classmethod
    def create(cls, folder: Path) -> Run:
        """Open the run in `folder`, or create it; two simultaneous calls agree on its name."""
        identity = folder / "run.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not identity.exists():
                write_once(identity, Identity(name=secrets.token_hex(4), path=folder.resolve()))
        except OSError as error:
            raise StoreError(f"cannot write to the run {folder}: {error.strerror}") from error
        return cls.open(folder)

    def settled(self, tell: Tell = unheard) -> Run:
        """Store the path of this run, and give it a new name if it is a copy; return the run.

        Only the submitting process calls it.
        """
        name = self.name
        if self.original is not None:
            name = secrets.token_hex(4)
            # These claims belong to workers of the original run.
            shutil.rmtree(self.folder / "claims", ignore_errors=True)
            tell(f"{self.folder} is a copy of {self.original}. From now on it is a separate run")
        write_kept(self.folder / "run.json", Identity(name=name, path=self.folder.resolve()))
        return Run.open(self.folder)

    def remove_leftovers(self, settled: Collection[str]) -> None:
        """Remove files that killed processes left behind.

        These are claims and checkpoints of `settled` trials, which have a record and no live job,
        and unfinished files that are older than a day. Files of other users may have to stay.
        """
        for claim in self.folder.glob("claims/*"):
            if claim.stem in settled:
                with contextlib.suppress(OSError):
                    claim.unlink()
        for checkpoints in self.folder.glob("checkpoints/*"):
            if checkpoints.name in settled:
                shutil.rmtree(checkpoints, ignore_errors=True)
        oldest_s = file_clock_ns(self.folder) / 1e9 - _UNFINISHED_S
        for pattern in (".*", "*/.*", "*/*/.*"):
            for path in self.folder.glob(pattern):
                if _UNFINISHED.fullmatch(path.name):
                    with contextlib.suppress(OSError):
                        if path.lstat().st_mtime < oldest_s:
                            path.unlink()

    def owns(self, chunk: str) -> bool:
        """Return whether jobs of this name belong to this run, not to its original."""
        return self.original is None and chunk.startswith(self.job_prefix)

    @property
    def job_prefix(self) -> str:
        """Prefix of the names of its jobs."""
        return f"rebench-{self.name}-"

    def write_sweep(self, spec: SweepSpec, trials: tuple[Trial, ...]) -> None:
        """Store the sweep and its trials."""
        with atomic_file(self.folder / "trials.jsonl") as file, file.open("x") as lines:
            lines.writelines(
                f"{_HEAD}{one.trial_id}{_BETWEEN}{one.model_dump_json()}}}\n" for one in trials
            )
        with (
            atomic_file(self.folder / "spec.json") as file,
            open(file, "x", opener=_for_others_to_read) as own,
        ):
            own.write(spec.model_dump_json(indent=1))

    def spec(self, *, trust_folder: bool = False) -> SweepSpec | None:
        """Return the sweep of the last submission; None before the first.

        The file must belong to this user or root, unless `trust_folder` is set.
        """
        read = read_file if trust_folder else read_own
        return read_kept(SweepSpec, self.folder / "spec.json", _refuse, _WRITTEN_ANEW, read=read)

    def troubles(self) -> list[str]:
        """Return problems of the files of a submitted sweep, each with its remedy."""
        if not any(self.folder.glob("submissions/*/intent.json")):
            return []
        places = (self.folder / name for name in ("trials.jsonl", "spec.json"))
        lines = [f"{path} is missing: {_WRITTEN_ANEW}" for path in places if not path.exists()]
        read_kept(SweepSpec, self.folder / "spec.json", lines.append, _WRITTEN_ANEW)
        return lines

    def ids(self, tell: Tell = unheard) -> list[str]:
        """Return the ids of the trials in order; report damaged lines."""
        return [trial_id for trial_id, _ in listed_trials(self.folder, tell)]

    def trials(self, wanted: set[str] | None = None, tell: Tell = unheard) -> dict[str, Trial]:
        """Return all or some trials in order, by id; report damaged lines."""
        trials: dict[str, Trial] = {}
        for trial_id, line in listed_trials(self.folder, tell):
            if wanted is not None and trial_id not in wanted:
                continue
            try:
                # An unknown key could change the meaning of a trial.
                trial = Trial.model_validate_json(line)
            except ValidationError:
                trial = None
            if trial is not None and trial.trial_id == trial_id:
                trials[trial_id] = trial
            else:
                place = f"{self.folder}/trials.jsonl is damaged in the line of trial {trial_id}"
                tell(f"{place}: {_WRITTEN_ANEW}")
        return trials

    def failures(self, tell: Tell = unheard) -> dict[str, Failure]:
        """Return the latest failure of each failed trial; report damaged lines."""
        latest: dict[str, Failure] = {}
        reader = ShardReader(self.folder / "failures")
        for line in reader.read_new():
            try:
                failure = Failure.model_validate_json(line.data, extra="ignore")
            except ValidationError:
                tell(f"{line.place} is damaged: ignored")
                continue
            known = latest.setdefault(failure.trial_id, failure)
            # Clocks of nodes differ, so compare submissions before times.
            if (known.submission, known.time) <= (failure.submission, failure.time):
                latest[failure.trial_id] = failure
        for problem in reader.problems:
            tell(problem)
        return latest


def _original(folder: Path, identity: Identity) -> Path | None:
    """Return the original path of a copied run, if the run still exists there."""
    path = identity.path
    if path is None or path == folder.resolve():
        return None
    try:
        # One folder can have two paths, for example on two hosts.
        if (path / "run.json").stat().st_ino == (folder / "run.json").stat().st_ino:
            return None
    except (OSError, ValueError):  # a path with NUL
        return None
    other = read_kept(Identity, path / "run.json")
    if other is None or other.name != identity.name:
        return None
    return path


def _for_others_to_read(path: str, flags: int) -> int:
    """Open a new file that others cannot write, because it decides which code a submission runs."""
    return os.open(path, flags, 0o666 & ~_OTHERS_WRITE)


def _refuse(line: str) -> None:
    raise StoreError(line)
