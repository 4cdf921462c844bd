"""A record: what a finished trial leaves, where it comes from, and the line of JSON that it is.

Its outcome is compared, its cost and origin are not. How the trial ended stands before the curves,
so that it can be read without them.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
import socket
import subprocess
import zlib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import from_json

from rebench.errors import StoreError
from rebench.runs.trial import Plain, Trial
from rebench.version import version

__all__ = [
    "SCHEMA_VERSION",
    "BadLineError",
    "Cost",
    "Curve",
    "Outcome",
    "Provenance",
    "Record",
    "collect_provenance",
    "job_name",
    "now",
    "read_record",
    "record_text",
    "slurm_number",
    "source_commit",
]

SCHEMA_VERSION: Final = 1

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# What a line ends with: ,"crc32":"01234567"}
_CHECKSUM: Final = b',"crc32":"'
_CHECKSUM_BYTES: Final = len(_CHECKSUM) + 10
_CURVES: Final = b',"curves":{'


class Curve(Plain):
    """Per-epoch metrics of one split; accuracy in percent. None where it was not evaluated."""

    accuracy: Annotated[list[float | None], Field(min_length=1)]
    loss: list[float | None]

    @model_validator(mode="after")
    def _of_one_length(self) -> Curve:
        if len(self.accuracy) != len(self.loss):
            raise ValueError(
                f"{len(self.accuracy)} accuracies and {len(self.loss)} losses, and both have one"
                " an epoch"
            )
        return self


class Outcome(Plain):
    """What must be equal whenever the same trial is trained again on one machine.

    Losses that are not finite are stored as None; `diverged_epoch` says when that began.
    """

    status: Literal["done", "diverged"]
    learning_rate: float
    layer_multipliers: dict[str, float] = Field(default_factory=dict)
    diverged_epoch: int | None = None
    curves: dict[str, Curve]


class Cost(Plain):
    """What the trial took: of this run, on this machine.

    Attributes:
        peak_memory_mib: the most memory while the trial's stack was built and trained, since the
            last resumption. On a GPU: memory of PyTorch's tensors. On a CPU: resident memory of the
            whole process, which contains what the process kept from earlier trials. Where the
            system cannot reset its peak (other than Linux), the peak since the process began.
    """

    seconds: float
    images_per_s: float
    stack: int = 1
    params_m: float
    mflops: float
    peak_memory_mib: float | None = None
    resumed: int = 0


class Provenance(Plain):
    """Where a record came from."""

    rebench: str
    commit: str | None = None
    dirty: bool | None = None
    python: str
    torch: str
    cuda: str | None = None
    device: str
    host: str
    slurm_job: str | None = None
    attempt: int = 0
    spec_hash: str | None = None
    data_digest: str | None = None
    started: str
    ended: str


def now() -> str:
    """The time in UTC, to the millisecond, as ISO 8601."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")


@functools.cache
def source_commit() -> tuple[str | None, bool | None]:
    """The git commit of the code that runs, and whether it was edited; None if unknown."""
    folder = Path(__file__).parents[1]
    commit = _git(folder, "rev-parse", "HEAD")
    # A package inside somebody else's repository is not that repository's commit.
    if not commit or not _git(folder, "ls-files", "--", "__init__.py"):
        return None, None
    return commit, bool(_git(folder.parent, "status", "--porcelain", "--untracked-files=no"))


def job_name() -> str | None:
    """The SLURM job this process runs in, such as ``123_4``, or None."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return os.environ.get("SLURM_JOB_ID")


def slurm_number(name: str, default: int = 0) -> int:
    """A number that SLURM puts into the environment; the default where there is none."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def collect_provenance(
    *,
    torch: str,
    cuda: str | None,
    device: str,
    started: str,
    data_digest: str | None = None,
) -> Provenance:
    """The provenance of a trial that began at `started` and ends now."""
    commit, dirty = source_commit()
    return Provenance(
        rebench=version(),
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        torch=torch,
        cuda=cuda,
        device=device,
        host=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        slurm_job=job_name(),
        attempt=slurm_number("SLURM_RESTART_COUNT"),
        data_digest=data_digest,
        started=started,
        ended=now(),
    )


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the git on PATH is the user's
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class Record(Plain):
    """One finished trial."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = SCHEMA_VERSION
    trial_id: str
    cost: Cost
    outcome: Outcome
    trial: Trial
    provenance: Provenance

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, value: Any) -> Any:
        trial = value.get("trial") if isinstance(value, dict) else None
        if isinstance(trial, Trial) and "trial_id" not in value:
            return {**value, "trial_id": trial.trial_id}
        return value

    @model_validator(mode="after")
    def _check_id(self) -> Record:
        if self.trial_id != self.trial.trial_id:
            raise ValueError(f"trial_id {self.trial_id} is not the id of the trial it names")
        return self

    def final(self, split: str) -> tuple[float | None, float | None]:
        """Accuracy (percent) and loss of the last epoch on `split`."""
        curve = self.outcome.curves[split]
        return curve.accuracy[-1], curve.loss[-1]

    def to_line(self) -> str:
        """The record as one line of JSON that ends with its checksum, without a newline."""
        body = self.model_dump_json(by_alias=True).removesuffix("}").encode()
        return (body + _checksum(body)).decode()


class BadLineError(Exception):
    """The line is not a record."""


def record_text(line: bytes) -> bytes:
    """The line without what an editor may have put around it."""
    return line.removeprefix(_BYTE_ORDER_MARK).strip()


def read_record(line: bytes, *, curves: bool = True) -> dict[str, Any]:
    """The record of a line as plain data; without `curves` perhaps no more than what precedes them.

    A line whose checksum agrees is believed. One of version 0.1 has none: it is looked into, which
    finds what is no JSON, no record or not the trial of its id, but no other digit in a measured
    value.

    Raises:
        BadLineError: the line is damaged.
        StoreError: a newer version wrote it.
    """
    text = record_text(line)
    checksum = text[-_CHECKSUM_BYTES:]
    checked = checksum.startswith(_CHECKSUM)
    if checked and checksum != _checksum(memoryview(text)[:-_CHECKSUM_BYTES]):
        raise BadLineError
    end = text.find(_CURVES) if checked and not curves else -1
    try:
        record: dict[str, Any] = from_json(
            text if end < 0 else text[:end] + b"}}", cache_strings="keys", allow_inf_nan=False
        )
        if not checked:
            Record.model_validate(record)
    except ValueError as error:
        raise BadLineError from error
    if record["schema"] > SCHEMA_VERSION:
        raise StoreError(
            f"a record has schema {record['schema']}, this version reads up to {SCHEMA_VERSION}:"
            " it was written by a newer rebench; upgrade this one"
        )
    record.pop("crc32", None)
    return record


def _checksum(body: bytes | memoryview) -> bytes:
    return b'%s%08x"}' % (_CHECKSUM, zlib.crc32(body))
