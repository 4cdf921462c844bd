"""Tables to a folder in NATS-Bench's own format, for code that knows only ``nats_bench``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nats_bench.api_utils import pickle_save

from cells import SPACE_SIZE, Cell
from rebench.errors import InputError, MissingDataError
from rebench.nats.choice import Choice
from rebench.nats.packaged import package_results

__all__ = ["Exported", "export_nats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote; `missing` counts the cells of the space that have no file."""

    path: Path
    cells: int
    missing: int


def export_nats(
    choice: Choice, out: Path, *, on_progress: Callable[[int], None] = lambda _: None
) -> Exported:
    """Write every cell that has values as a file of the ``-simple`` folder `out`.

    ``nats_bench.create(out, "tss", fast_mode=True)`` opens it. What the tables do not hold is not
    there: a cell without values has no file, a data set without values no entry.
    """
    if out.exists():
        raise InputError(f"{out} exists; give a folder that does not")
    cells = choice.cells.tolist()
    if not cells:
        raise MissingDataError("the tables hold no cell to export")
    unfinished = out.with_name(f"{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    archs = [str(Cell.from_index(index)) for index in range(SPACE_SIZE)]
    meta = {"meta_archs": archs, "total_archs": SPACE_SIZE, "arch2infos": None}
    pickle_save({**meta, "evaluated_indexes": set()}, unfinished / "meta.pickle")
    for index in cells:
        states = {
            hp: results.state_dict() for hp, results in package_results(index, choice).items()
        }
        pickle_save(states, unfinished / f"{index:06d}.pickle")
        on_progress(1)
    unfinished.rename(out)
    return Exported(path=out, cells=len(cells), missing=SPACE_SIZE - len(cells))
