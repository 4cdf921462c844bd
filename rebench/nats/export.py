"""Export to the benchmark's formats, for programs that use ``nats_bench`` or ``nas_201_api``."""

from __future__ import annotations

import bz2
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import joblib
from nats_bench.api_utils import ArchResults

from cells import SPACE_SIZE, Cell
from rebench.arguments import checked
from rebench.machine import cores
from rebench.nats.about import Exported, OnProgress, marker, written
from rebench.nats.choice import Choice
from rebench.nats.packaged import cell_states

__all__ = ["export_nats", "export_pth"]

_LATENCY: Final = "a latency that was not measured is [-1.0], which the package reads as none"
# The memo opcodes of this protocol have explicit positions, which every cell can use again.
_PROTOCOL: Final = 2
# Cells in one compressed block: 16 x 53 kB (a cell without curves) fill a 900 kB block of bzip2.
_BLOCK_CELLS: Final = 16
# Names of the benchmark's two training lengths in a .pth file, with their epochs.
_TRAININGS: Final = {"less": "12", "full": "200"}
# Header of torch's files before version 1.6.
_TORCH: Final = (
    0x1950A86A20F9469CFC6C,
    1001,
    {
        "protocol_version": 1001,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    },
)


@checked
def export_nats(
    choice: Choice,
    out: Path,
    *,
    one_file: bool = False,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write every cell that has values, as a ``-simple`` folder or as one file.

    ``nats_bench.create(out, "tss", fast_mode=True)`` opens the folder, ``fast_mode=False`` the
    file. A cell or a data set without values has no entry. A metric is NaN if the package requires
    it but the tables do not have it (see `rebench.nats.packaged`).

    Args:
        choice: the tables to export.
        out: the folder to write, or the ``.pickle.pbz2`` file.
        one_file: write one file instead of a folder.
        force: replace `out` where it exists.
        on_progress: called with the number of cells that were written since the last call.
    """
    made = Exported(path=out, cells=len(choice.cells), notes=(_LATENCY,))
    form = "NATS-Bench's topology space, " + ("one file" if one_file else "one file a cell")
    with written(choice, made, form, force=force) as unfinished:
        write = _write_file if one_file else _write_folder
        write(choice, unfinished, on_progress)
    return made


@checked
def export_pth(
    choice: Choice,
    out: Path,
    *,
    force: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> Exported:
    """Write the file that ``nas_201_api.NASBench201API(out)`` opens.

    The file has trainings of 12 and of 200 epochs. Trainings of other lengths are omitted.
    """
    carried = {int(hp) for hp in _TRAININGS.values()}
    other = " and ".join(map(str, sorted(set(choice.epochs) - carried)))
    notes = [_LATENCY]
    if other:
        notes.append(f"trainings of {other} epochs are omitted")
    made = Exported(path=out, cells=len(choice.cells), notes=tuple(notes))
    with (
        written(choice, made, "NAS-Bench-201, .pth", force=force) as unfinished,
        unfinished.open("wb") as stream,
    ):
        for part in _TORCH:
            pickle.dump(part, stream, _PROTOCOL)
        stream.writelines(_space(choice, _trainings, on_progress))
        pickle.dump([], stream, _PROTOCOL)  # the keys of the file's tensors: none
    return made


def _trainings(index: int, choice: Choice) -> dict[str, Any]:
    states = cell_states(index, choice)
    empty = ArchResults(index, str(Cell.from_index(index))).state_dict()
    return {name: states.get(hp, empty) for name, hp in _TRAININGS.items()}


def _whole_space(choice: Choice) -> dict[str, Any]:
    """Return the beginning of a file of the package; ``rebench`` names the source of its values."""
    archs = [str(Cell.from_index(index)) for index in range(SPACE_SIZE)]
    return {"meta_archs": archs, "total_archs": SPACE_SIZE, "rebench": marker(choice)}


def _write_folder(choice: Choice, folder: Path, on_progress: OnProgress) -> None:
    folder.mkdir()
    meta = {**_whole_space(choice), "arch2infos": None, "evaluated_indexes": set()}
    (folder / "meta.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(meta, 4)))
    cells = choice.cells.tolist()
    states = (pickle.dumps(cell_states(index, choice), 4) for index in cells)
    for index, content in zip(cells, _compressed(states), strict=True):
        (folder / f"{index:06d}.pickle.pbz2").write_bytes(content)
        on_progress(1)


def _write_file(choice: Choice, path: Path, on_progress: OnProgress) -> None:
    parts = _space(choice, cell_states, on_progress)
    blocks = iter(lambda: b"".join(itertools.islice(parts, _BLOCK_CELLS)), b"")
    with path.open("wb") as stream:
        stream.writelines(_compressed(blocks))


def _space(
    choice: Choice, make: Callable[[int, Choice], dict[str, Any]], on_progress: OnProgress
) -> Iterator[bytes]:
    """Yield the pickle of all cells in parts, with one part at a time in memory.

    For 2,000 cells this takes 24 MB of memory instead of 827.
    """
    yield b"\x80%c}" % _PROTOCOL
    whole = {**_whole_space(choice), "evaluated_indexes": choice.cells.tolist()}
    for name, value in whole.items():
        yield _pushed(name) + _pushed(value) + b"s"
    yield _pushed("arch2infos") + b"}"
    for index in choice.cells.tolist():
        yield _pushed(index) + _pushed(make(index, choice)) + b"s"
        on_progress(1)
    yield b"s" + pickle.STOP


def _pushed(value: Any) -> bytes:
    """Return the opcodes that push a value: its pickle without beginning and end."""
    return pickle.dumps(value, _PROTOCOL)[2:-1]


def _compressed(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Compress parts in threads while the next ones are made; yield them in order."""
    pool = joblib.Parallel(cores(), prefer="threads", return_as="generator")
    return iter(pool(joblib.delayed(bz2.compress)(part) for part in parts))
