"""A record: the result of a finished trial, with its costs and origin, as one line of JSON.

Two records of one trial agree if their outcomes are equal; costs and origins may differ. The status
comes before the curves, so that it can be read without them.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import platform
import socket
import subprocess
import sys
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
    "code_digest",
    "code_origin",
    "collect_provenance",
    "job_name",
    "node_name",
    "now",
    "read_record",
    "slurm_number",
    "source_commit",
]

SCHEMA_VERSION: Final = 1

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# A line ends with ,"crc32":"01234567"}
_CHECKSUM: Final = b',"crc32":"'
_CHECKSUM_BYTES: Final = len(_CHECKSUM) + 10
_CURVES: Final = b',"curves":{'


class Curve(Plain):
    """Metrics of one split per epoch; accuracy in percent, None where it was not evaluated."""

    accuracy: Annotated[list[float | None], Field(min_length=1)]
    loss: list[float | None]

    @model_validator(mode="after")
    def _of_one_length(self) -> Curve:
        if len(self.accuracy) != len(self.loss):
            raise ValueError(
                f"{len(self.accuracy)} accuracies and {len(self.loss)} losses; both need one value"
                " per epoch"
            )
        return self


class Outcome(Plain):
    """Result of a trial; equal whenever the trial is trained again on the same machine.

    Losses that are not finite are stored as None; `diverged_epoch` is the first such epoch.
    """

    status: Literal["done", "diverged"]
    learning_rate: float
    layer_multipliers: dict[str, float] = Field(default_factory=dict)
    diverged_epoch: int | None = None
    curves: dict[str, Curve]


class Cost(Plain):
    """Costs of a trial in this run on this machine.

    Attributes:
        seconds: share of this trial in the training time of its stack.
        images_per_s: training images per second; evaluations count in the time.
        stack: number of trials that were trained as one network.
        params_m: parameters of the network, in millions.
        mflops: multiply-adds of one forward pass of one image, in millions.
        resumed: number of resumptions from a checkpoint.
        peak_memory_mib: maximum memory while the stack of the trial was built and trained, since
            the last resumption. On a GPU: memory of PyTorch's tensors. On a CPU: resident memory of
            the whole process, including memory kept from earlier trials. Only Linux can reset the
            peak; on other systems it is the peak since the process began.
    """

    seconds: float
    images_per_s: float
    stack: int = 1
    params_m: float
    mflops: float
    peak_memory_mib: float | None = None
    resumed: int = 0


class Provenance(Plain):
    """Origin of a record.

    Attributes:
        dirty: whether the code of rebench or of the recipe's own package differs from a commit.
        recipe_code: digest of the package of a recipe that is not from rebench.
        device: name of the GPU; for a CPU, its model and the number of threads.
        switches: switches of `rebench.train.Speed` that can change the rounding; empty if they are
            unknown.
    """

    rebench: str
    commit: str | None = None
    dirty: bool | None = None
    recipe_code: str | None = None
    python: str
    torch: str
    cuda: str | None = None
    device: str
    host: str
    slurm_job: str | None = None
    attempt: int = 0
    spec_hash: str | None = None
    data_digest: str | None = None
    switches: dict[str, bool] = Field(default_factory=dict)
    started: str
    ended: str


def now() -> str:
    """Return the time in UTC as ISO 8601, to the millisecond."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")


def source_commit(*packages: str) -> tuple[str | None, bool | None]:
    """Return the git commit of rebench's files and whether they were edited; None if unknown.

    `packages` of recipes by others count as edited too if a file differs from its commit, or if no
    repository contains them.
    """
    folder = Path(__file__).parents[1]
    commit = _git(folder, "rev-parse", "HEAD")
    # The package may be installed inside an unrelated repository.
    if not commit or not _git(folder, "ls-files", "--", "__init__.py"):
        return None, None
    for package in ("rebench", "cells", *packages):
        place = _place(package)
        words = ("status", "--porcelain", "--untracked-files=all", "--", place.name)
        if _git(place.parent, *words) != "":
            return commit, True
    return commit, False


def code_digest(package: str) -> str:
    """Return a digest of the files of a loaded package, or of the file of a module."""
    place = _place(package)
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    content = hashlib.sha256()
    for file in files:
        if file.suffix in (".py", ".toml"):
            name = file.relative_to(place.parent)
            content.update(f"{name}\0".encode() + file.read_bytes())
    return content.hexdigest()[:16]


@functools.cache
def code_origin(package: str) -> dict[str, Any]:
    """Return the commit of the code and the digest of the package of a recipe, if it has its own.

    The answer is that of the first call, because the files can change after they were loaded.
    """
    own = [package] if package else []
    commit, dirty = source_commit(*own)
    digest = code_digest(package) if package else None
    return {"commit": commit, "dirty": dirty, "recipe_code": digest}


def _place(package: str) -> Path:
    """Return the folder of a loaded package, or the file of a module."""
    file = Path(getattr(sys.modules.get(package), "__file__", None) or os.devnull)
    return file.parent if file.name == "__init__.py" else file


def job_name() -> str | None:
    """Return the SLURM job of this process, such as ``123_4``, or None."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return os.environ.get("SLURM_JOB_ID")


def slurm_number(name: str, default: int = 0) -> int:
    """Return a number from SLURM's environment; the default if it is missing."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def node_name() -> str:
    """Return SLURM's name of this node, or the name of the host."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def collect_provenance(
    *,
    torch: str,
    cuda: str | None,
    device: str,
    started: str,
    switches: dict[str, bool],
    package: str = "",
    data_digest: str | None = None,
) -> Provenance:
    """Return the provenance of a trial that began at `started` and ends now.

    `package` is that of the recipe if it is not from rebench.
    """
    return Provenance(
        rebench=version(),
        **code_origin(package),
        python=platform.python_version(),
        torch=torch,
        cuda=cuda,
        device=device,
        host=node_name(),
        slurm_job=job_name(),
        attempt=slurm_number("SLURM_RESTART_COUNT"),
        data_digest=data_digest,
        switches=switches,
        started=started,
        ended=now(),
    )


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the git on PATH is the user's
            capture_output=True,
            encoding="utf-8",
            errors="replace",
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

    @model_validator(mode="after")
    def _check_id(self) -> Record:
        if self.trial_id != self.trial.trial_id:
            raise ValueError(f"trial_id {self.trial_id} is not the id of its trial")
        return self

    def final(self, split: str) -> tuple[float | None, float | None]:
        """Return accuracy (percent) and loss of the last epoch on `split`."""
        curve = self.outcome.curves[split]
        return curve.accuracy[-1], curve.loss[-1]

    def to_line(self) -> str:
        """Return the record as one line of JSON with a checksum, without a newline."""
        body = self.model_dump_json(by_alias=True).removesuffix("}").encode()
        return (body + _checksum(body)).decode()


class BadLineError(Exception):
    """Line that is not a record."""


def read_record(line: bytes, *, curves: bool = True) -> dict[str, Any]:
    """Return the record of a line as plain data; without `curves`, later keys may be missing.

    A byte order mark and white space, which editors add, are ignored.

    Raises:
        BadLineError: the line is damaged.
        StoreError: a newer version wrote it.
    """
    text = line.removeprefix(_BYTE_ORDER_MARK).strip()
    if text[-_CHECKSUM_BYTES:] != _checksum(memoryview(text)[:-_CHECKSUM_BYTES]):
        raise BadLineError
    if not curves:
        end = text.find(_CURVES)
        if end >= 0:
            text = text[:end] + b"}}"
    try:
        record: dict[str, Any] = from_json(text, cache_strings="keys", allow_inf_nan=False)
    except ValueError as error:
        raise BadLineError from error
    if record["schema"] > SCHEMA_VERSION:
        raise StoreError(
            f"a record has schema {record['schema']}, this version reads schemas up to"
            f" {SCHEMA_VERSION}: a newer rebench wrote it; upgrade rebench"
        )
    record.pop("crc32", None)
    return record


def _checksum(body: bytes | memoryview) -> bytes:
    return b'%s%08x"}' % (_CHECKSUM, zlib.crc32(body))
