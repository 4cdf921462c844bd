"""Tables to a ``.pth`` file of NAS-Bench-201, for ``nas_201_api`` and what builds on it."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from nats_bench.api_utils import ArchResults

from cells import SPACE_SIZE
from rebench.nats.about import Exported, OnProgress, written
from rebench.nats.choice import Choice
from rebench.nats.export import cell_states, stream_space
from rebench.nats.packaged import Measured

__all__ = ["export_pth"]

# What the file calls the benchmark's two trainings.
_TRAININGS: Final = {"less": "12", "full": "200"}


def export_pth(
    choice: Choice,
    out: Path,
    *,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write the file that ``nas_201_api.NASBench201API(out)`` opens.

    A training of 12 or 200 epochs that the tables do not hold is there without trials.
    """
    import torch

    cells = choice.cells.tolist()
    lacking = [name for name, hp in _TRAININGS.items() if int(hp) not in choice.epochs]
    notes = (
        "a latency that was not measured is [-1.0], which the package reads as none",
        *(f"'{name}' holds no trials: the tables have none of {_TRAININGS[name]} epochs"
          for name in lacking),
    )  # fmt: skip
    form = "NAS-Bench-201, .pth"
    with written(choice, out, form, cells=len(cells), force=force, notes=notes) as unfinished:

        class Pickler(pickle.Pickler):
            """Writes the one large object as a stream, in the place that torch gives it."""

            def __init__(self, stream: Any, protocol: int) -> None:
                super().__init__(stream, protocol)
                self._write = stream.write

            def dump(self, _: object) -> None:  # the object that torch was given is a stand-in
                stream_space(self._write, choice, _trainings, on_progress)

        streaming = SimpleNamespace(__name__="pickle", dump=pickle.dump, Pickler=Pickler)
        torch.save({}, unfinished, streaming, _use_new_zipfile_serialization=False)
    return Exported(path=out, cells=len(cells), missing=SPACE_SIZE - len(cells))


def _trainings(index: int, arch: str, found: list[Measured]) -> dict[str, Any]:
    states = cell_states(index, arch, found)
    empty = ArchResults(index, arch).state_dict()
    return {name: states.get(hp, empty) for name, hp in _TRAININGS.items()}
