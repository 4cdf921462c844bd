"""The logs of jobs, trial by trial: the marks of workers in them, and how to find them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rebench.errors import InputError
from rebench.launch.journal import Journal
from rebench.runs import Run, Trial
from rebench.runs.files import read_file

__all__ = ["Printed", "begin_of", "log_of", "newest_log"]

_BEGIN: Final = re.compile(r"\S+ \S+ training ((?:[0-9a-f]{16},?)+): ")


class Printed(NamedTuple):
    """Lines of one log: those about a trial, or all lines if none names it."""

    log: Path
    lines: Sequence[str]
    about_trial: bool


def begin_of(group: Sequence[Trial]) -> str:
    """Return the line with which a worker begins the lines about a group of trials."""
    ids = ",".join(one.trial_id for one in group)
    return f"training {ids}: {group[0].describe()} ({len(group)} in its stack)"


def newest_log(run: Run) -> list[Printed]:
    """Return the log that was written last, if jobs have printed anything."""
    logs: list[tuple[int, Path]] = []
    for submission in Journal(run.folder).submissions():
        for path in submission.logs.glob("*log*"):
            about = path.stat()
            if about.st_size:
                logs.append((about.st_mtime_ns, path))
    if not logs:
        return []
    _, path = max(logs)
    return [Printed(path, _lines(path), True)]


def log_of(run: Run, trial_id: str) -> list[Printed]:
    """Return the output of the jobs that were given a trial, the latest last.

    If no log has lines about the trial, all lines of its jobs are returned.
    """
    if trial_id not in (known := run.ids()):
        near = difflib.get_close_matches(trial_id, known, n=3, cutoff=0.0)
        raise InputError(
            f"no trial {trial_id!r} in {run.folder}; near: {', '.join(near) or 'none'} (`rebench"
            " status --trials` lists all ids)"
        )
    whole: list[Printed] = []
    about: list[Printed] = []
    for submission in Journal(run.folder).submissions():
        for job in submission.jobs():
            if trial_id not in job.trials or not job.number:
                continue
            for path in sorted(submission.logs.glob(f"{job.number}_*log*")):
                lines = _lines(path)
                whole.append(Printed(path, lines, False))
                about.append(Printed(path, list(_about(trial_id, lines)), True))
    return [one for one in about if one.lines] or [one for one in whole if one.lines]


def _lines(log: Path) -> list[str]:
    """Return the lines of a log, or the reason why it cannot be read."""
    try:
        return read_file(log).decode(errors="replace").splitlines()
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]


def _about(trial_id: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines from the start of a trial to that of the next, and lines that name it."""
    inside = False
    for line in lines:
        begin = _BEGIN.match(line)
        if begin is not None:
            inside = trial_id in begin[1].split(",")
        if inside or trial_id in line:
            yield line
