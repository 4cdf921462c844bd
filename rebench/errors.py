"""All exceptions of rebench, with their exit codes on the command line.

::

    RebenchError                 1  something failed; the message says what to do
    ├── InputError               2  wrong usage or bad input
    │   └── UnknownNameError     2  an unknown name; lists the valid names, nearest first
    ├── MissingDependencyError   1  an optional package or program is not installed
    ├── MissingDataError         1  a data set, or values of a table, were not found
    ├── UnsafeFileError          1  a file is unsafe, too large, or writable by other users
    ├── StoreError               1  records or checkpoints cannot be read or written
    │   └── ConflictError        1  two records of one trial differ
    ├── TrainingError            1  a trial cannot be trained as requested
    │   └── Interrupted          1  training stopped on request
    └── ClusterError             1  the scheduler refused or cannot be reached
        └── TooManyJobsError     1  the scheduler accepts no more jobs, or no array of this size

Packages add subclasses: `recipes.NoPathError` and `modules.UntraceableError` of InputError, and
`nats.api.NotHeldError` of MissingDataError. The package `cells` raises `cells.CellError`. The
command line treats it as an InputError.
"""

from __future__ import annotations

import difflib
import re
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
    "TooManyJobsError",
    "TrainingError",
    "UnknownNameError",
    "UnsafeFileError",
]


class RebenchError(Exception):
    """Base class of all errors that rebench raises on purpose."""

    exit_code = 1


class InputError(RebenchError):
    """Invalid value from the user."""

    exit_code = 2


class UnknownNameError(InputError):
    """Unknown name; the message lists the valid names, nearest first.

    The name follows the noun of its kind: ``"recipe in mini"`` is "unknown recipe 'x' in mini".
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], hint: str = "") -> None:
        names = sorted(valid)
        near = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.5)
        ordered = near + [other for other in names if other not in near]
        noun, *place = re.split(" (?=of |in )", kind, maxsplit=1)
        unknown = " ".join([noun, repr(name), *place])
        super().__init__(f"unknown {unknown}; valid: {', '.join(ordered) or 'none'}{hint}")


class MissingDependencyError(RebenchError):
    """Optional package or program that is not installed."""


class MissingDataError(RebenchError):
    """Data set, or values of a table, that were not found."""


class UnsafeFileError(RebenchError):
    """File with forbidden content, beyond a size limit, or writable by other users."""


class StoreError(RebenchError):
    """Records or checkpoints that cannot be read or written."""


class ConflictError(StoreError):
    """Two records of one trial with different results."""


class TrainingError(RebenchError):
    """Trial that cannot be trained as requested."""


class Interrupted(TrainingError):  # noqa: N818 - a request, not a failure
    """Stop of the training on request; the checkpoints contain all progress."""


class ClusterError(RebenchError):
    """Scheduler that refused a request or cannot be reached."""


class TooManyJobsError(ClusterError):
    """Scheduler that accepts no more jobs now, or no array of this size."""
