"""Where a record comes from: versions, code, machine, job. What torch knows is passed in."""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rebench.runs.record import Provenance
from rebench.version import version

__all__ = ["collect_provenance", "job_name", "now", "source_commit"]


def now() -> str:
    """Return the time in UTC, to the millisecond, as ISO 8601."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")


@functools.cache
def source_commit() -> tuple[str | None, bool | None]:
    """Return the git commit of the code that runs and whether it was edited; None if unknown."""
    folder = Path(__file__).parent.parent
    commit = _git(folder, "rev-parse", "HEAD")
    # A package inside somebody else's repository is not that repository's commit.
    if not commit or not _git(folder, "ls-files", "--", "__init__.py"):
        return None, None
    return commit, bool(_git(folder.parent, "status", "--porcelain", "--untracked-files=no"))


def job_name(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the SLURM job this process runs in, such as ``123_4``, or None."""
    array = environment.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{environment.get('SLURM_ARRAY_TASK_ID', '')}"
    return environment.get("SLURM_JOB_ID")


def collect_provenance(
    *,
    torch: str,
    cuda: str | None,
    device: str,
    started: str,
    spec_hash: str | None = None,
    data_digest: str | None = None,
) -> Provenance:
    """Return the provenance of a trial that began at `started` and ends now."""
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
        attempt=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        spec_hash=spec_hash,
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
