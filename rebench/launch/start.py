"""``python -m rebench.launch.start FOLDER UMASK [--trust-folder]``: how submitit's jobs begin.

A pickle is a program: one that somebody else could have written is refused before it is loaded.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from submitit.core import utils
from submitit.core.submission import process_job

from rebench.launch.trust import open_own

__all__ = ["main"]


def main(folder: str, umask: str, *flags: str) -> None:
    """Run the worker of this job; the files that it makes have the submitter's permissions."""
    os.umask(int(umask, 8))
    if "--trust-folder" not in flags:
        utils.pickle_load = _load_own
    process_job(folder)


def _load_own(filename: str | Path) -> Any:
    with open_own(Path(filename), "what it holds") as file:
        return pickle.load(file)  # noqa: S301 - nobody but this user and root could write it


if __name__ == "__main__":
    main(*sys.argv[1:])
