"""Curves of trials to event files of TensorBoard, one folder a trial."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rebench.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_events"]

# What a run's names may hold in the name of a folder; they may come from somebody else.
_NAMES: Final = ["recipe", "dataset", "index", "seed", "trial_id"]
_UNFIT: Final = re.compile(r"[^\w.,=+()-]|^\.+")


def write_events(
    pieces: Iterable[pd.DataFrame], out: Path, *, on_progress: Callable[[], None] = lambda: None
) -> int:
    """Write the rows of `rebench.tables.opening.read_curves`; return how many trials there were.

    A trial is a run of TensorBoard's, ``RECIPE/DATASET-INDEX-SEED-ID``, and a split's metric a tag
    of its, such as ``ori-test/accuracy``; steps are epochs.
    """
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise MissingDependencyError(
            "event files need TensorBoard: pip install 'nas-rebench[tensorboard]'"
        ) from error
    seen = set()
    for piece in pieces:
        for names, rows in piece.groupby(_NAMES, sort=False, observed=True):
            recipe, *rest = (_UNFIT.sub("_", str(name)) for name in names)
            writer = Writer(str(out / recipe / "-".join(rest)))
            for row in rows.itertuples():
                writer.add_scalar(f"{row.split}/{row.what}", row.value, row.epoch)
            writer.close()
            # The rows of a trial may lie in two pieces; two files of a folder are one run.
            if names not in seen:
                seen.add(names)
                on_progress()
    return len(seen)
