"""Every exception of rebench, and the exit code each one means on the command line.

::

    RebenchError                 1  something failed; the message says what to do
    ├── InputError               2  wrong usage or bad input
    │   └── UnknownNameError     2  a name that is not in a list; shows the nearest valid ones
    ├── MissingDependencyError   1  an optional package or program is not installed
    ├── MissingDataError         1  a data set or table is not where it was looked for
    ├── UnsafeFileError          1  a file asks for more than its format needs, or may be another's
    ├── StoreError               1  records or checkpoints cannot be read or written
    │   └── ConflictError        1  two records of one trial disagree
    ├── TrainingError            1  a trial cannot be trained as asked
    │   └── Interrupted          1  training stopped on request
    └── ClusterError             1  the scheduler refused or cannot be reached

`cells` stands below rebench and raises its own `cells.CellError`; the command line treats it as
an InputError.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ClusterError",
    "ConflictError",
    "InputError",
    "Interrupted",
    "MissingDataError",
    "MissingDependencyError",
    "RebenchError",
    "StoreError",
    "TrainingError",
    "UnknownNameError",
    "UnsafeFileError",
]


class RebenchError(Exception):
    """Root of all errors that rebench raises on purpose."""

    exit_code = 1


class InputError(RebenchError):
    """A value from the user breaks a rule."""

    exit_code = 2


class UnknownNameError(InputError):
    """A name that is not among the valid ones."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]) -> None:
        names = sorted(valid)
        near = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.5)
        ordered = near + [other for other in names if other not in near]
        super().__init__(f"unknown {kind} {name!r}; valid: {', '.join(ordered) or 'none'}")


class MissingDependencyError(RebenchError):
    """An optional package or program is not installed."""


class MissingDataError(RebenchError):
    """A data set or table is not where it was looked for."""


class UnsafeFileError(RebenchError):
    """A file asks for more than its format needs, is larger than it may be, or may be another's."""


class StoreError(RebenchError):
    """Records or checkpoints cannot be read or written."""


class ConflictError(StoreError):
    """Two records of one trial disagree."""


class TrainingError(RebenchError):
    """A trial cannot be trained as asked."""


class Interrupted(TrainingError):  # noqa: N818 - a request, not a failure
    """Training stopped on request; the checkpoints hold everything up to here."""


class ClusterError(RebenchError):
    """The scheduler refused, or cannot be reached."""
