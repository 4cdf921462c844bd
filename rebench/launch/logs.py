"""What jobs printed, trial by trial: how workers mark it in their logs, and how it is found."""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cells import Cell, CellError
from rebench.errors import InputError
from rebench.launch.state import JobView, jobs_of
from rebench.recipes import make_recipe
from rebench.runs import RecipeSpec, Run, Trial

__all__ = ["Printed", "begin_of", "log_of", "named_trials"]

_BEGIN: Final = re.compile(r"\S+ \S+ training ((?:[0-9a-f]{16},?)+): ")
# Neighbours in a run have the same jobs.
_KEPT_LOGS: Final = 64


class Printed(NamedTuple):
    """Lines of one log: those about a trial, or all that its job printed where none are."""

    log: Path
    lines: Sequence[str]
    about_trial: bool


def begin_of(group: Sequence[Trial]) -> str:
    """The line by which a worker says which trials the lines after it are about."""
    ids = ",".join(one.trial_id for one in group)
    return f"training {ids}: {group[0].describe()} ({len(group)} in its stack)"


def named_trials(run: Run, name: str) -> list[str]:
    """The trials of a run that an id, a cell or a recipe names, in the run's order.

    A recipe without parameters stands for all of its name.
    """
    trials = run.trials()
    if name in trials:
        return [name]
    cell = recipe = None
    with contextlib.suppress(CellError):
        cell = Cell.find(name)
    with contextlib.suppress(InputError):
        recipe = make_recipe(RecipeSpec.parse(name)).spec
    found = [
        trial_id
        for trial_id, trial in trials.items()
        if trial.cell == cell or trial.recipe == recipe or trial.recipe.name == name
    ]
    if found:
        return found
    if cell is not None or recipe is not None:
        what = f"recipe {name!r}" if cell is None else f"cell {cell.index}"
        raise InputError(f"this run has no trial of {what}; `rebench status --trials` lists them")
    known = [*trials, *sorted({trial.recipe.label for trial in trials.values()})]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.0)
    raise InputError(f"no trial {name!r} in this run; near: {', '.join(near) or 'none'}")


def log_of(run: Run, trial_ids: Sequence[str]) -> Iterator[tuple[str, list[Printed]]]:
    """Yield each trial with what the jobs printed that were given it, the latest last.

    Where no log has lines about a trial, all that its jobs printed stands for them.
    """
    given: dict[str, list[JobView]] = {trial_id: [] for trial_id in trial_ids}
    for job in jobs_of(run, ask_queue=False):
        for trial_id in given.keys() & set(job.trials) if job.job else ():
            given[trial_id].append(job)
    lines_of = functools.lru_cache(maxsize=_KEPT_LOGS)(_lines)
    for trial_id, jobs in given.items():
        logs = [path for job in jobs for path in sorted(job.folder.glob(f"{job.job}_*log*"))]
        printed = [Printed(path, list(_about(trial_id, lines_of(path))), True) for path in logs]
        if not any(part.lines for part in printed):
            printed = [Printed(path, lines_of(path), False) for path in logs]
        yield trial_id, [part for part in printed if part.lines]


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def _about(trial_id: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines from where a trial begins to where the next does, and those that name it."""
    inside = False
    for line in lines:
        begin = _BEGIN.match(line)
        if begin is not None:
            inside = trial_id in begin[1].split(",")
        if inside or trial_id in line:
            yield line
