"""What a Python session types to submit a sweep and to see how it goes: `rebench.submit, status`.

The commands of the same names show it, ask before they send much, and keep going.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rebench.launch.expansion import expand_spec
from rebench.launch.run import Run
from rebench.launch.status import Status, status_of
from rebench.launch.submit import Order, Submitted
from rebench.launch.submit import submit as send
from rebench.sweep import read_spec, with_settings

__all__ = ["run_folder", "status", "submit"]


def run_folder(spec: Path, given: Path | None = None) -> Path:
    """Return where the sweep of a spec runs unless told otherwise."""
    return given or spec.parent / "runs" / spec.stem


def submit(
    spec: str | Path,
    run: str | Path | None = None,
    *,
    cluster: str = "slurm",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Submitted:
    """Send every trial of a sweep that has no record, no live job and no failure; safe to repeat.

    Args:
        spec: the sweep's file.
        run: the run's folder; by default beside the file, as for ``rebench submit``.
        cluster: ``slurm``, ``local`` (this machine), or ``debug`` (this process, which trains).
        settings: what is to be other than in the file: ``{"slurm.partition": "gpu"}``.
        options: the other fields of `rebench.launch.submit.Order`, such as ``retry_failed=True``.
    """
    path = Path(spec)
    sweep = with_settings(read_spec(path), settings or {})
    folder = run_folder(path, None if run is None else Path(run))
    return send(folder, sweep, expand_spec(sweep), Order(cluster=cluster, **options))


def status(run: str | Path) -> Status:
    """Return what became of every trial of a run."""
    return status_of(Run.open(Path(run)))
